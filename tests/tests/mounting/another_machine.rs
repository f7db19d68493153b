//! Mounts of a store on another machine as commands: what they start, what they refuse, and what they leave.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

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

/// A device number as the kernel lists it.
fn number(device: u64) -> String {
    format!("{}:{} ", device >> 8 & 0xFFF, device & 0xFF | device >> 12 & 0xFFF00)
}

/// Whether a node of its own still has a mount with this device.
fn has_node(device: u64) -> bool {
    let number = number(device);
    let folders = std::fs::read_dir("/run/amphora-mounts").into_iter().flatten().flatten();
    folders
        .map(|folder| folder.path().join("device"))
        .any(|file| std::fs::read_to_string(file).is_ok_and(|own| own.starts_with(&number)))
}

#[test]
fn a_mount_needs_no_server_here_and_leaves_nothing() {
    need!(root_and_fuse());
    let (server, dir) = served();
    let root = server.ready().word("credentials");
    let authority = server.home().data_dir().join("volume-ca.pem");
    json(&server, &[&mount_args(&server, &dir, root)[..], &["--ca", text(&authority)]].concat());
    let device = dir.metadata().expect("it is mounted").dev();
    assert!(has_node(device));
    std::fs::write(dir.join("a file"), "content").expect("written");
    assert_eq!(both_agree(&server, BUCKET, &dir).files, 1);
    json(&server, &["umount", text(&dir)]);
    assert!(!has_node(device), "its node ends with it");
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
    let device = dir.metadata().expect("it is mounted").dev();
    // The process that starts the node again goes first.
    for role in ["--detached", "--while-needed"] {
        for pid in nodes_of(device, role) {
            // An ended process is no error.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    json(&server, &["umount", "--lazy", text(&dir)]);
    assert_eq!(std::fs::read_dir(&dir).expect("the folder").count(), 0);
}

/// The processes of the node of the mount with this device, by an argument that they have.
fn nodes_of(device: u64, argument: &str) -> Vec<rustix::process::Pid> {
    let folders = std::fs::read_dir("/run/amphora-mounts").into_iter().flatten().flatten().map(|folder| folder.path());
    let number = number(device);
    let own = folders
        .filter(|folder| std::fs::read_to_string(folder.join("device")).is_ok_and(|own| own.starts_with(&number)));
    let own: Vec<_> = own.collect();
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let found = processes.filter_map(|process| {
        let pid = process.file_name().to_str()?.parse().ok().and_then(rustix::process::Pid::from_raw)?;
        let command = std::fs::read_to_string(process.path().join("cmdline")).ok()?;
        let has = |word: &str| command.split('\0').any(|other| other == word);
        (has(argument) && own.iter().any(|folder| has(text(folder)))).then_some(pid)
    });
    found.collect()
}
