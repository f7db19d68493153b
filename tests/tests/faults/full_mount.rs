//! A disk of 64 MiB, filled by programs on a mount: ENOSPC, and nothing else changes.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::fsync;

use super::full::{DISK_BYTES, fill_up};
use crate::support::cli::check_store;
use crate::support::*;

const BUCKET: &str = "mounted";
const COLLECTED: Duration = Duration::from_secs(20);
const BLOCK: usize = 64 << 10;

#[test]
fn programs_get_enospc_and_continue_after_deletes() {
    need!(loop_devices(Kind::Ext4));
    let mut server = Options::default().image(Kind::Ext4, DISK_BYTES).start();
    make_bucket(&server, BUCKET, &[]);
    let mount = Mounted::new(&server, BUCKET, "m");
    let root = mount.path().to_owned();
    let kept = [7; 300_000];
    std::fs::write(root.join("kept"), kept).expect("written");
    for round in 0..amount(2, 10) {
        let big = root.join("big");
        let written = grow(&big);
        assert!(written > 8 << 20, "{written} bytes fit");
        let made = make_small(&root, round);
        attributes_and_names_are_refused_or_done(&root, round);
        overwrite(&root.join("kept"), &kept);
        assert!(holds(&big, written), "the acknowledged bytes are there");
        std::fs::remove_file(&big).expect("deletions work on a full disk");
        let again = wait_until(COLLECTED, || try_write(&root.join("again"), 2 << 20).ok());
        again.expect("there is room again");
        std::fs::remove_file(root.join("again")).expect("removed");
        for name in made {
            assert_eq!(std::fs::read(root.join(&name)).expect("there"), name.as_bytes());
            std::fs::remove_file(root.join(&name)).expect("removed");
        }
        assert_eq!(std::fs::read(root.join("kept")).expect("there"), kept);
    }
    mount.unmount(&server);
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    check_store(&server);
}

#[test]
fn programs_survive_a_disk_that_others_fill() {
    need!(loop_devices(Kind::Ext4));
    let mut server = Options::default().image(Kind::Ext4, DISK_BYTES).start();
    make_bucket(&server, BUCKET, &[]);
    let mount = Mounted::new(&server, BUCKET, "m");
    let root = mount.path().to_owned();
    let kept = [9; 300_000];
    try_write(&root.join("kept"), 0).expect("made");
    std::fs::write(root.join("kept"), kept).expect("written");
    fsync(File::open(root.join("kept")).expect("there")).expect("synced");
    let ballast = server.image().dir().join("ballast");
    fill_up(&ballast);
    for (name, done) in [
        ("a new file", std::fs::write(root.join("new"), [1; 100])),
        ("more of a file", append(&root.join("kept"), 100_000)),
        ("a folder", std::fs::create_dir(root.join("folder"))),
    ] {
        assert_eq!(done.expect_err(name).kind(), ErrorKind::StorageFull, "{name}");
    }
    assert_eq!(std::fs::read(root.join("kept")).expect("there"), kept);
    std::fs::remove_file(&ballast).expect("there");
    let again = wait_until(COLLECTED, || try_write(&root.join("new"), 1 << 20).ok());
    again.expect("there is room again");
    append(&root.join("kept"), 100_000).expect("there is room again");
    mount.unmount(&server);
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    check_store(&server);
}

/// Appends blocks until there is no space; returns the number of bytes.
fn grow(path: &Path) -> usize {
    let mut file = OpenOptions::new().create_new(true).append(true).open(path).expect("made");
    let mut written = 0;
    loop {
        match file.write(&block(written)) {
            Ok(len) => written += len,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
                assert_eq!(
                    file.metadata().expect("attributes").len(),
                    written as u64,
                    "a write that failed left nothing"
                );
                // The refused write does not affect the earlier ones, which can be synced.
                fsync(&file).expect("the earlier writes can be synced");
                return written;
            }
        }
        assert!(written < 64 << 20, "{written} bytes on a disk of {DISK_BYTES}");
    }
}

fn block(at: usize) -> Vec<u8> {
    let number = u64::try_from(at / BLOCK).expect("small") + 1;
    number.to_le_bytes().repeat(BLOCK / 8)
}

fn holds(path: &Path, len: usize) -> bool {
    let seen = std::fs::read(path).expect("the file is read");
    seen.len() == len && seen.chunks(BLOCK).enumerate().all(|(at, seen)| block(at * BLOCK).starts_with(seen))
}

/// Creates files of a few bytes until there is no space for more, or there are many.
fn make_small(root: &Path, round: usize) -> Vec<String> {
    let mut made = Vec::new();
    while made.len() < 300 {
        let name = format!("small-{round}-{}", made.len());
        match std::fs::write(root.join(&name), &name) {
            Ok(()) => made.push(name),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
                // The file was created and is empty, or it was not created.
                let _ = std::fs::remove_file(root.join(&name));
                break;
            }
        }
    }
    made
}

fn attributes_and_names_are_refused_or_done(root: &Path, round: usize) {
    let kept = root.join("kept");
    let moved = root.join(format!("moved-{round}"));
    let there_and_back = rustix::fs::rename(&kept, &moved).and_then(|()| rustix::fs::rename(&moved, &kept));
    if let Err(errno) = there_and_back {
        assert_eq!(errno, rustix::io::Errno::NOSPC);
        assert!(kept.exists() != moved.exists(), "it has one name");
        if moved.exists() {
            rustix::fs::rename(&moved, &kept).expect("a rename works on a full disk");
        }
    }
}

/// Content that has its space already can be overwritten.
fn overwrite(path: &Path, content: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).expect("opened");
    file.write_all_at(&content[4096..8192], 4096).expect("a block that is there is overwritten");
    fsync(&file).expect("synced");
}

fn append(path: &Path, len: usize) -> Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let size = file.metadata()?.len();
    file.write_all_at(&vec![3; len], size)
}

fn try_write(path: &Path, len: usize) -> Result<()> {
    let mut file = File::create(path)?;
    file.write_all(&vec![5; len])?;
    Ok(fsync(&file)?)
}
