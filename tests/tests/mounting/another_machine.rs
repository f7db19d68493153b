//! Mounts of a store on another machine as commands: what they start, what they refuse, and what they leave.

use std::path::Path;
use std::time::Duration;

use super::{BUCKET, folder, text};
use crate::support::agree::both_agree;
use crate::support::cli::{account, cli, json};
use crate::support::*;

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

#[test]
fn a_mount_whose_node_is_gone_can_be_unmounted() {
    need!(root_and_fuse());
    let (server, dir) = served();
    json(&server, &mount_args(&server, &dir, server.ready().word("credentials")));
    // The process that starts the node again goes first.
    for role in ["--detached", "--while-needed"] {
        for pid in nodes_of(&dir, role) {
            // An ended process is no error.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        wait_until(Duration::from_secs(10), || nodes_of(&dir, role).is_empty().then_some(())).expect("killed");
    }
    json(&server, &["umount", "--lazy", text(&dir)]);
    assert_eq!(std::fs::read_dir(&dir).expect("the folder").count(), 0);
}

/// The processes of the node of the mount at a directory, by an argument that they have.
fn nodes_of(dir: &Path, argument: &str) -> Vec<rustix::process::Pid> {
    let own = folders_of(dir);
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let found = processes.filter_map(|process| {
        let pid = process.file_name().to_str()?.parse().ok().and_then(rustix::process::Pid::from_raw)?;
        let command = std::fs::read_to_string(process.path().join("cmdline")).ok()?;
        let has = |word: &str| command.split('\0').any(|other| other == word);
        (has(argument) && own.iter().any(|folder| has(text(folder)))).then_some(pid)
    });
    found.collect()
}
