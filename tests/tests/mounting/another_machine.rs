//! Mounts of a store on another machine as commands: what they start, what they refuse, and what they leave.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use super::{BUCKET, folder, text};
use crate::support::agree::both_agree;
use crate::support::cli::{account, cli, json};
use crate::support::*;

/// The time limit of what a process of a mount does when another died, also on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A server that other machines reach, and a folder to mount at.
fn served() -> (Server, std::path::PathBuf) {
    let server = Options::default().args(["--volume-listen", "127.0.0.1:0"]).start();
    make_bucket(&server, BUCKET, &[]);
    let dir = folder(&server, "m");
    (server, dir)
}

/// The arguments of a mount with this credentials file.
fn mount_args<'a>(server: &'a Server, dir: &'a Path, credentials: &'a str) -> Vec<&'a str> {
    vec!["mount", BUCKET, text(dir), "--server", server.ready().word("volume"), "--credentials", credentials]
}

/// A credentials file of an account.
fn credentials(server: &Server, name: &str, key: &Credentials) -> String {
    let file = server.home().path().join(name);
    let (id, secret) = (&key.access_key_id, &key.secret_access_key);
    write_private(&file, format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n"));
    text(&file).to_owned()
}

/// The folders of nodes that have the mount at a directory.
fn folders_of(dir: &Path) -> Vec<std::path::PathBuf> {
    let folders = std::fs::read_dir("/run/amphora-mounts").into_iter().flatten().flatten().map(|folder| folder.path());
    let is_of = |folder: &std::path::PathBuf| {
        std::fs::read_to_string(folder.join("device")).is_ok_and(|record| record.ends_with(&format!(" {}", text(dir))))
    };
    folders.filter(is_of).collect()
}

#[test]
fn a_mount_needs_no_server_here_and_leaves_nothing() {
    need!(root_and_fuse());
    let (server, dir) = served();
    let root = server.ready().word("credentials");
    let authority = server.home().data_dir().join("volume-ca.pem");
    json(&server, &[&mount_args(&server, &dir, root)[..], &["--ca", text(&authority)]].concat());
    assert_eq!(folders_of(&dir).len(), 1);
    std::fs::write(dir.join("a file"), "content").expect("written");
    assert_eq!(both_agree(&server, BUCKET, &dir).files, 1);
    json(&server, &["umount", text(&dir)]);
    assert!(folders_of(&dir).is_empty(), "its node ends with it");
    assert_eq!(std::fs::read_dir(&dir).expect("the folder").count(), 0);
}

#[test]
fn a_key_opens_no_more_than_its_grant_and_no_secret_is_written() {
    need!(root_and_fuse());
    let (server, dir) = served();
    let alice = account(&server, "alice");
    let file = credentials(&server, "alice", &alice);
    let refused = cli(&server, &mount_args(&server, &dir, &file));
    assert!(!refused.status.success() && refused.stderr.contains("grant"), "{refused}");
    json(&server, &["grant", "add", BUCKET, "--account", "alice", "--mode", "ro"]);
    json(&server, &mount_args(&server, &dir, &file));
    let error = std::fs::write(dir.join("f"), "x").expect_err("the grant is read-only");
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::ROFS.raw_os_error()));
    for folder in std::fs::read_dir("/run/amphora-mounts").expect("the folders of nodes").flatten() {
        let files = std::fs::read_dir(folder.path()).into_iter().flatten().flatten();
        for file in files.filter(|file| file.file_type().is_ok_and(|kind| kind.is_file())) {
            let content = std::fs::read(file.path()).unwrap_or_default();
            let secret = alice.secret_access_key.as_bytes();
            assert!(!content.windows(secret.len()).any(|part| part == secret), "{}", file.path().display());
        }
    }
    json(&server, &["umount", text(&dir)]);
}

#[test]
fn what_cannot_be_mounted_is_refused_with_a_reason() {
    need!(root_and_fuse());
    let (server, dir) = served();
    let root = server.credentials();
    let wrong = Credentials { secret_access_key: "not-the-secret-of-this-key".into(), ..root };
    let file = credentials(&server, "wrong", &wrong);
    let refused = cli(&server, &mount_args(&server, &dir, &file));
    assert!(!refused.status.success() && !refused.stderr.contains("not-the-secret"), "{refused}");
    let mut unknown = mount_args(&server, &dir, server.ready().word("credentials"));
    unknown[1] = "no-such-bucket";
    let refused = cli(&server, &unknown);
    assert!(!refused.status.success() && refused.stderr.contains("no-such-bucket"), "{refused}");
    let keyless = cli(&server, &["mount", BUCKET, text(&dir), "--server", server.ready().word("volume")]);
    assert_eq!(keyless.status.code(), Some(2), "{keyless}");
    assert!(keyless.stderr.contains("--credentials"), "{keyless}");
}

/// A process of a mount: the node, the one that starts the node again, the holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Node,
    Starter,
    Holder,
}

const ROLES: [Role; 3] = [Role::Node, Role::Starter, Role::Holder];

#[test]
fn a_mount_goes_on_over_the_death_of_its_processes() {
    need!(root_and_fuse());
    let (server, dir) = served();
    json(&server, &mount_args(&server, &dir, server.ready().word("credentials")));
    let kept = dir.join("kept");
    let mut open = std::fs::File::create_new(&kept).expect("made");
    let mut expected = Vec::new();
    // One after the other: what is killed last finds what the others have started again, or not yet. With the holder the
    // node dies only when the next holder has the mount: else nobody has it (the next test).
    let orders: [&[Role]; 7] = [
        &[Role::Node],
        &[Role::Starter],
        &[Role::Holder],
        &[Role::Starter, Role::Node],
        &[Role::Starter, Role::Holder],
        &[Role::Holder, Role::Starter, Role::Node],
        &[Role::Node, Role::Starter],
    ];
    for roles in orders {
        for role in roles {
            if *role == Role::Node {
                wait_until(LONG, || (!processes_of(&dir, Role::Holder).is_empty()).then_some(())).expect("a holder");
                std::thread::sleep(Duration::from_millis(500));
            }
            kill(&dir, &[*role]);
        }
        writeln!(open, "{roles:?}").unwrap_or_else(|error| panic!("after the death of {roles:?}: {error}"));
        expected.extend(format!("{roles:?}\n").bytes());
        assert_eq!(std::fs::read(&kept).expect("read"), expected, "after the death of {roles:?}");
        for role in [Role::Node, Role::Holder] {
            wait_until(LONG, || (!processes_of(&dir, role).is_empty()).then_some(()))
                .unwrap_or_else(|| panic!("there is no {role:?} again after the death of {roles:?}"));
        }
    }
    drop(open);
    assert_eq!(both_agree(&server, BUCKET, &dir).files, 1);
    json(&server, &["umount", text(&dir)]);
    assert!(folders_of(&dir).is_empty(), "its node ends with it");
    for role in ROLES {
        wait_until(LONG, || processes_of(&dir, role).is_empty().then_some(()))
            .unwrap_or_else(|| panic!("{role:?} ends with the mount"));
    }
}

#[test]
fn a_node_that_ends_by_a_signal_while_its_store_is_gone_leaves_the_mount_to_the_next() {
    need!(root_and_fuse());
    // The same port after a restart.
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").to_string();
    let listening = ["--volume-listen", &port, "--volume-lease", "2s"];
    let mut server = Options::default().args(listening).start();
    make_bucket(&server, BUCKET, &[]);
    let dir = folder(&server, "m");
    json(&server, &mount_args(&server, &dir, server.ready().word("credentials")));
    std::fs::write(dir.join("before"), "kept").expect("written");
    server.kill9();
    // After half of the lease nothing is answered from caches: a look at the mount waits for the store.
    std::thread::sleep(Duration::from_secs(3));
    let told = processes_of(&dir, Role::Node);
    for node in &told {
        rustix::process::kill_process(*node, rustix::process::Signal::TERM).expect("it runs");
    }
    let ended = || processes_of(&dir, Role::Node).iter().all(|node| !told.contains(node)).then_some(());
    assert!(!told.is_empty() && wait_until(LONG, ended).is_some(), "it is still there");
    let next = || (!processes_of(&dir, Role::Node).is_empty()).then_some(());
    wait_until(LONG, next).expect("the next process of the mount");
    server.restart();
    assert_eq!(std::fs::read(dir.join("before")).expect("the mount goes on"), b"kept");
    std::fs::write(dir.join("after"), "written").expect("the mount goes on");
    assert_eq!(both_agree(&server, BUCKET, &dir).files, 2);
    json(&server, &["umount", text(&dir)]);
    assert!(folders_of(&dir).is_empty(), "its node ends with it");
}

#[test]
fn a_mount_of_which_every_process_died_can_be_unmounted_and_mounted_again() {
    need!(root_and_fuse());
    let (server, dir) = served();
    let args = mount_args(&server, &dir, server.ready().word("credentials"));
    json(&server, &args);
    std::fs::write(dir.join("a file"), "content").expect("written");
    kill(&dir, &ROLES);
    // A process that one of them had just begun may close the device a moment later: a request that waits then is aborted.
    let is_dead = || {
        let error = std::fs::read_dir(&dir).expect_err("no process has the mount's device");
        (error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error())).then_some(())
    };
    wait_until(LONG, is_dead).expect("the device is closed");
    json(&server, &["umount", text(&dir)]);
    assert_eq!(std::fs::read_dir(&dir).expect("the folder").count(), 0);
    assert!(folders_of(&dir).is_empty(), "nothing is left of its node");
    json(&server, &args);
    assert_eq!(std::fs::read(dir.join("a file")).expect("read"), b"content");
    json(&server, &["umount", text(&dir)]);
}

/// Kills processes of a mount at the same moment: none sees the end of another.
fn kill(dir: &Path, roles: &[Role]) {
    use rustix::process::{Signal, kill_process};
    let pids: Vec<_> = roles.iter().flat_map(|role| processes_of(dir, *role)).collect();
    for signal in [Signal::STOP, Signal::KILL] {
        for pid in &pids {
            // An ended process is no error.
            let _ = kill_process(*pid, signal);
        }
    }
    wait_until(LONG, || pids.iter().all(|pid| has_ended(*pid)).then_some(())).expect("killed");
}

/// Whether a process has closed its files: it is gone, or nothing of it is left but its exit status. Its arguments vanish
/// earlier, when a request to the mount may still wait for the device to be closed.
fn has_ended(pid: rustix::process::Pid) -> bool {
    let folder = format!("/proc/{}", pid.as_raw_nonzero());
    let Ok(status) = std::fs::read_to_string(format!("{folder}/stat")) else { return true };
    let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
    let threads = std::fs::read_dir(format!("{folder}/task")).map_or(0, Iterator::count);
    matches!(state, Some('Z' | 'X')) && threads <= 1
}

/// The processes of the mount at a directory, by their arguments.
pub(super) fn processes_of(dir: &Path, role: Role) -> Vec<rustix::process::Pid> {
    let own = folders_of(dir);
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let found = processes.filter_map(|process| {
        let pid = process.file_name().to_str()?.parse().ok().and_then(rustix::process::Pid::from_raw)?;
        let command = std::fs::read_to_string(process.path().join("cmdline")).ok()?;
        let has = |word: &str| command.split('\0').any(|other| other == word);
        let is_it = match role {
            Role::Node => has("node") && has("--while-needed"),
            Role::Starter => has("node") && has("--detached"),
            Role::Holder => has("holder"),
        };
        (is_it && own.iter().any(|folder| has(text(folder)))).then_some(pid)
    });
    found.collect()
}
