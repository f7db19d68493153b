//! Unmounting a mount that programs use, with and without a server; and mounting where a mount has just been.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::process::{Child, Stdio};

use rustix::mount::{UnmountFlags, unmount};

use super::*;
use crate::support::cli::refusal;

/// A program whose working directory is in a mount.
struct Inside(Child);

impl Inside {
    fn new(dir: &Path) -> Self {
        let mut program = Command::new("sleep");
        Self(program.arg("600").current_dir(dir).stdin(Stdio::null()).spawn().expect("sleep starts"))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn unmounting_a_busy_mount_names_its_users_or_detaches_lazily() {
    need!(root_and_fuse());
    let (server, dir) = served();
    mount(&server, &dir, &[]);
    let program = Inside::new(&dir);
    let refused = refusal(&server, &["umount", text(&dir)], 1);
    let named = format!("{} (sleep)", program.0.id());
    assert!(refused.contains(&named) && refused.contains("--lazy"), "{refused}");
    assert!(is_mounted(&dir) && is_reported(&server, "mounts", &dir));
    std::fs::write(dir.join("f"), "it is as it was").expect("written");
    json(&server, &["umount", "--lazy", text(&dir)]);
    assert!(!is_mounted(&dir) && !is_reported(&server, "mounts", &dir));
    drop(program);
    mount(&server, &dir, &[]);
    json(&server, &["umount", text(&dir)]);
}

#[test]
fn a_directory_is_free_as_soon_as_it_is_unmounted() {
    need!(root_and_fuse());
    let (server, dir) = served();
    for turn in 0..60 {
        mount(&server, &dir, &[]);
        std::fs::write(dir.join("f"), format!("{turn}")).expect("written");
        let mut umount = Command::new("umount");
        drop(run(umount.arg(&dir), LOOK).unwrap_or_else(|error| panic!("{error}")).ok());
    }
    mount(&server, &dir, &[]);
    assert_eq!(std::fs::read(dir.join("f")).expect("read"), b"59");
    assert_eq!(reported(&server, "mounts").len(), 1);
}

#[test]
fn a_directory_is_free_while_programs_use_a_detached_mount() {
    need!(root_and_fuse());
    let (mut server, dir) = served();
    mount(&server, &dir, &[]);
    let mut file = OpenOptions::new().create_new(true).read(true).write(true).open(dir.join("f")).expect("made");
    unmount(&dir, UnmountFlags::DETACH).expect("detached");
    assert!(reported(&server, "mounts").is_empty());
    refusal(&server, &["umount", text(&dir)], 1);
    mount(&server, &dir, &["-o", "ro"]);
    file.write_all(b"late").expect("the detached mount is still served");
    assert_eq!(std::fs::read(dir.join("f")).expect("read"), b"late");
    // A detached mount outlives the server as well, and does not disturb the next server.
    server.kill9();
    server.restart();
    file.write_all(b"r").expect("the detached mount is still served");
    drop(file);
    assert_eq!(look(&["cat", text(&dir.join("f"))]).as_deref(), Ok("later"));
    assert_eq!(reported(&server, "mounts").len(), 1);
    json(&server, &["umount", text(&dir)]);
}

#[test]
fn a_server_that_ends_lists_its_remaining_mounts_with_advice() {
    need!(root_and_fuse());
    let (mut server, dir) = served();
    mount(&server, &dir, &[]);
    std::fs::write(dir.join("f"), "kept").expect("written");
    let program = Inside::new(&dir);
    assert_eq!(server.terminate().code(), Some(0));
    let log = server.log();
    let line = log.lines().rev().find(|line| line.contains("stays mounted at")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains(text(&dir)), "{line}");
    let command = line.split("to end the mount: amphora ").nth(1).unwrap_or_else(|| panic!("{line}"));
    let words: Vec<_> = command.split_whitespace().collect();
    // No server runs.
    let refused = refusal(&server, &words, 1);
    assert!(refused.contains(&format!("{} (sleep)", program.0.id())), "{refused}");
    assert!(is_mounted(&dir));
    drop(program);
    json(&server, &words);
    assert!(!is_mounted(&dir));
    refusal(&server, &words, 1);
    server.restart();
    assert!(reported(&server, "mounts").is_empty() && reported(&server, "lostMounts").is_empty());
    mount(&server, &dir, &[]);
    assert_eq!(std::fs::read(dir.join("f")).expect("read"), b"kept");
}

#[test]
fn without_a_server_a_busy_mount_is_detached_lazily() {
    need!(root_and_fuse());
    let (mut server, dir) = served();
    mount(&server, &dir, &[]);
    std::fs::write(dir.join("f"), "kept").expect("written");
    let mut file = std::fs::File::open(dir.join("f")).expect("opened");
    server.kill9();
    refusal(&server, &["umount", text(&dir)], 1);
    json(&server, &["umount", "--lazy", text(&dir)]);
    assert!(!is_mounted(&dir));
    assert!(file.read_to_end(&mut Vec::new()).is_err(), "a program inside gets an error");
}

#[test]
fn unmount_at_exit_ends_mounts_with_the_server() {
    need!(root_and_fuse());
    let mut server = Options::default().holder().env("AMPHORA_UNMOUNT_AT_EXIT", "true").start();
    make_bucket(&server, BUCKET, &[]);
    let (idle, busy) = (folder(&server, "idle"), folder(&server, "busy"));
    mount(&server, &idle, &[]);
    mount(&server, &busy, &[]);
    let program = Inside::new(&busy);
    assert_eq!(server.terminate().code(), Some(0));
    assert!(!is_mounted(&idle) && !is_mounted(&busy), "{}", server.log());
    assert!(!server.log().contains("stays mounted at"), "{}", server.log());
    let inside = format!("/proc/{}/cwd/f", program.0.id());
    assert!(look(&["cat", &inside]).is_err(), "a program inside gets an error, and does not wait");
    server.restart();
    assert!(reported(&server, "mounts").is_empty() && reported(&server, "lostMounts").is_empty());
}
