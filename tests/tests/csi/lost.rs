//! Volumes without a server, with programs inside: their server and its holder died, or the holder waits for a server
//! that does not come. Volumes in the node's records are unmounted and published again; others are left to the
//! administrator. No process hangs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use tonic::Code;

use super::{Driver, errno, mounts_below, no_secrets};
use crate::support::grpc::refused;
use crate::support::*;

/// The time limit for all calls of a test together. A call that hangs would take minutes, or never end.
const CALLS_LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_volume_without_server_and_holder_is_unmounted_and_mounted_again() {
    need!(root_and_fuse());
    let mut driver = Driver::of(Options::default().holder().start()).await;
    let volume = driver.create("pvc-1", 64 << 20, None).await;
    let path = driver.mounted(&volume, &no_secrets()).await;
    fs::write(path.join("f"), "before").expect("written");
    let mut inside = Inside::new(&path);
    driver.server.kill9();
    driver.server.end_holder();
    let dead =
        wait_until(limit(20), || (errno(fs::File::create(path.join("g"))) == Some(Errno::NOTCONN)).then_some(()));
    assert!(dead.is_some(), "the mount lost its connection with its last holder");
    driver.server.restart();
    driver.reconnect().await;

    let begin = Instant::now();
    for _ in 0..2 {
        driver.unpublish(&volume, &volume).await;
    }
    assert!(!path.exists());
    for _ in 0..2 {
        driver.publish(&volume, &volume, false, &no_secrets()).await.expect("published");
    }
    assert_eq!(fs::read(path.join("f")).expect("there again"), b"before");
    for _ in 0..2 {
        driver.unpublish(&volume, &volume).await;
    }
    for _ in 0..2 {
        driver.unstage(&volume).await;
    }
    assert!(mounts_below(&driver).is_empty(), "{:?}", mounts_below(&driver));
    driver.mounted(&volume, &no_secrets()).await;
    fs::write(path.join("g"), "after").expect("written");
    assert!(begin.elapsed() < CALLS_LIMIT, "{:?}", begin.elapsed());
    // The program is still in the folder, and its read fails.
    assert!(!inside.read().success(), "its file belongs to a dead mount");
}

#[tokio::test]
async fn a_volume_that_cannot_be_taken_over_is_left_to_the_administrator() {
    need!(root_and_fuse());
    let mut driver = Driver::of(Options::default().holder().start()).await;
    let volume = driver.create("pvc-1", 64 << 20, None).await;
    let path = driver.mounted(&volume, &no_secrets()).await;
    fs::write(path.join("f"), "before").expect("written");
    let mut inside = Inside::new(&path);
    driver.server.kill9();
    inside.ask();
    // The node starts with another store, which has no record of the mounts, and the kubelet calls with the same paths.
    let mut next = Driver::of(Options::default().holder().start()).await;
    driver.node = next.node.clone();

    let begin = Instant::now();
    for _ in 0..2 {
        driver.unpublish(&volume, &volume).await;
        driver.unstage(&volume).await;
    }
    assert_eq!(next.create("pvc-1", 64 << 20, None).await, volume);
    let answer = driver.stage(&volume, &no_secrets()).await;
    refused("a path with another program's mount", answer, Code::FailedPrecondition, &["unmount it first"]);
    assert_eq!(mounts_below(&driver).len(), 2, "the driver left both mounts: {:?}", mounts_below(&driver));
    for dir in [path.clone(), driver.path("staging").join(&volume)] {
        unmount(&dir, UnmountFlags::FORCE | UnmountFlags::DETACH).expect("unmounted as the message advises");
    }
    assert!(!inside.end().success(), "the read it waited for failed");
    fs::remove_dir(&path).expect("the folder of the earlier publication");
    driver.stage(&volume, &no_secrets()).await.expect("staged");
    driver.publish(&volume, &volume, false, &no_secrets()).await.expect("published");
    assert_eq!(errno(fs::read(path.join("f"))), Some(Errno::NOENT), "the file is in the other store");
    fs::write(path.join("g"), "after").expect("written");
    driver.unpublish(&volume, &volume).await;
    driver.unstage(&volume).await;
    assert!(begin.elapsed() < CALLS_LIMIT, "{:?}", begin.elapsed());
    assert!(mounts_below(&driver).is_empty(), "{:?}", mounts_below(&driver));
}

/// A program that stays in a folder, with a file in it open.
struct Inside(Child);

impl Inside {
    fn new(dir: &Path) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "exec 3<f; echo open; read go; cat <&3 >/dev/null && ls -l nothing-yet . >/dev/null"]);
        command.current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("a shell");
        let mut said = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut said).expect("it speaks");
        assert_eq!(said, "open\n");
        Self(child)
    }

    /// Makes the program read its file and list the folder, for which a server is needed.
    fn ask(&mut self) {
        self.0.stdin.take().expect("piped").write_all(b"go\n").expect("it listens");
    }

    /// Waits for the end of the program.
    fn end(&mut self) -> ExitStatus {
        tests::child::wait(&mut self.0, limit(20)).expect("it ends, since no server can answer its read")
    }

    fn read(&mut self) -> ExitStatus {
        self.ask();
        self.end()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.0.kill();
    }
}
