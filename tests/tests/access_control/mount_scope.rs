//! The reach of a mount: its own bucket, or the folder that it shows, and nothing else.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::support::access::{root_client, write};
use crate::support::*;

const HANDLE_BYTES: usize = 128;

/// `struct file_handle` of open_by_handle_at(2), with space for any handle.
#[repr(C)]
#[derive(Clone)]
struct Handle {
    bytes: u32,
    kind: i32,
    handle: [u8; HANDLE_BYTES],
}

fn handle_of(path: &Path) -> Handle {
    let name = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    let mut handle = Handle { bytes: HANDLE_BYTES as u32, kind: 0, handle: [0; HANDLE_BYTES] };
    let mut mount = 0i32;
    // SAFETY: the path ends in NUL, the handle has the given space, and there is memory for the mount's number.
    let done = unsafe {
        libc::syscall(libc::SYS_name_to_handle_at, libc::AT_FDCWD, name.as_ptr(), &raw mut handle, &raw mut mount, 0)
    };
    assert_eq!(done, 0, "{}: {}", path.display(), std::io::Error::last_os_error());
    handle
}

/// Opens a handle in the mount at `at`, and returns its content.
fn opened(at: &Path, handle: &Handle) -> std::io::Result<String> {
    let mount = File::open(at).expect("the mount is there");
    let mut handle = handle.clone();
    // SAFETY: the descriptor is open, and the handle is as the kernel made it.
    let file = unsafe {
        libc::syscall(libc::SYS_open_by_handle_at, mount.as_raw_fd(), &raw mut handle, libc::O_RDONLY | libc::O_CLOEXEC)
    };
    if file < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened, and no one else uses it.
    let mut file = unsafe { File::from_raw_fd(i32::try_from(file).expect("a descriptor")) };
    if file.metadata()?.is_dir() {
        return Ok(format!("a folder {:?}", names(&format!("/proc/self/fd/{}", file.as_raw_fd()))));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map(|_| text)
}

fn names(dir: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

/// Asserts that a handle gives no access to a file outside of the mount.
#[track_caller]
fn hidden(at: &Path, handle: &Handle) {
    for _ in 0..2 {
        if let Ok(shown) = opened(at, handle) {
            assert!(!shown.contains("hidden"), "{} shows {shown}", at.display());
        }
    }
}

#[tokio::test]
async fn a_mount_of_a_folder_reaches_nothing_outside_it() {
    need!(root_and_fuse());
    let server = Server::start();
    make_bucket(&server, "vessel", &[]);
    make_bucket(&server, "another", &[]);
    let client = root_client(&server);
    for key in ["in/file", "in/deep/file"] {
        write(&client, "vessel", key, b"shown").await;
    }
    for (bucket, key) in
        [("vessel", "out/hidden"), ("vessel", "hidden"), ("another", "hidden"), ("another", "d/hidden")]
    {
        write(&client, bucket, key, b"hidden").await;
    }
    let (whole, another) = (Mounted::new(&server, "vessel", "whole"), Mounted::new(&server, "another", "another"));
    let part = server.home().path().join("part");
    fs::create_dir(&part).expect("made");
    cli::json(&server, &["mount", "vessel", part.to_str().expect("ours"), "-o", "prefix=in"]);

    assert_eq!(names(part.to_str().expect("ours")), ["deep", "file"]);
    assert!(!part.join("../hidden").exists() && !part.join("deep/../../hidden").exists());
    for target in ["../hidden", "../out/hidden", "deep/../../hidden"] {
        let link = part.join("link");
        std::os::unix::fs::symlink(target, &link).expect("a symbolic link may have any target");
        assert!(fs::read(&link).is_err(), "{target} is resolved outside of the mount, not in the bucket");
        fs::remove_file(&link).expect("removed");
    }
    // A handle made in a mount that shows everything.
    for path in ["hidden", "out", "out/hidden", "."] {
        hidden(&part, &handle_of(&whole.path().join(path)));
    }
    for path in ["hidden", "d", "d/hidden"] {
        hidden(&part, &handle_of(&another.path().join(path)));
        hidden(whole.path(), &handle_of(&another.path().join(path)));
    }
    // Handles of every possible inode, by number.
    let like = handle_of(&whole.path().join("in/file"));
    for number in 0..64u64 {
        let mut guess = like.clone();
        // fs/fuse: the number in two words, the upper one first, and the generation.
        guess.handle[..4].copy_from_slice(&((number >> 32) as u32).to_ne_bytes());
        guess.handle[4..8].copy_from_slice(&(number as u32).to_ne_bytes());
        hidden(&part, &guess);
    }
    assert_eq!(opened(&part, &handle_of(&part.join("file"))).expect("its own"), "shown");
    assert_eq!(opened(whole.path(), &handle_of(&whole.path().join("out/hidden"))).expect("its own"), "hidden");
    cli::json(&server, &["umount", part.to_str().expect("ours")]);
}
