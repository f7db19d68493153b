//! Undelivered cache invalidations of a killed server: the next server delivers them.
//!
//! - The processes that send invalidations to the kernel are stopped, as a program that keeps a page locked would stop
//!   them. So the server always dies with all of them undelivered.
//! - A snapshot flushes dirty files; invalidations for those are sent again at each crash in any case.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::process::{Pid, Signal, kill_process};

use super::{BUCKET, MountUnderTest};
use crate::support::access::root_client;
use crate::support::cli::json;
use crate::support::*;

const PAGE: usize = 4096;

#[test]
fn a_write_clears_setuid_in_the_shown_mode() {
    need!(root_and_fuse());
    let mut under_test = MountUnderTest::new();
    let file = under_test.root.join("f");
    std::fs::write(&file, [7; 50 * PAGE]).expect("written");
    std::fs::set_permissions(&file, Permissions::from_mode(0o4777)).expect("a mode");
    let released = || json(&under_test.server, &["mount", "stats", under_test.root.to_str().expect("a path of ours")]);
    let released = || released().as_array()?.iter().any(|row| row["operation"] == "release").then_some(());
    wait_until(limit(20), released).expect("the server receives the close");
    // While the file is open by passthrough, a write skips the kernel's page cache and its clearing of the setuid bit:
    // the server has to clear it.
    let mut reader = File::open(&file).expect("opened");
    reader.read_exact(&mut [0; PAGE]).expect("read");
    under_test.kill_before_invalidations(|| {
        let mut writer = Command::new("dd");
        writer.args(["if=/dev/zero", "bs=1", "count=1", "conv=notrunc"]).arg(format!("of={}", file.display()));
        drop(run(writer.uid(65_534).gid(65_534), Duration::from_secs(60)).expect("dd ends").ok());
        drop(reader);
    });
    // Only the mode is requested: asking for the size would make the kernel fetch all attributes from the server.
    let seen = statx(CWD, &file, AtFlags::empty(), StatxFlags::MODE).expect("there");
    assert_eq!(seen.stx_mode & 0o7777, 0o777);
    under_test.end();
}

#[test]
fn an_append_with_an_outdated_size_shows_at_its_real_offset() {
    need!(root_and_fuse());
    let mut under_test = MountUnderTest::new();
    let other = Mounted::held(&under_test.server, BUCKET, "other");
    let file = under_test.root.join("f");
    std::fs::write(&file, [b'.'; 2 * PAGE]).expect("written");
    let mut mine = OpenOptions::new().append(true).open(&file).expect("opened");
    let mut theirs = OpenOptions::new().append(true).open(other.path().join("f")).expect("opened");
    theirs.write_all(&[b't'; PAGE]).expect("appended");
    deliver_invalidations(&under_test.server);
    // The kernel of the mount of `mine` has the old size. It appends at the old end, and keeps whole pages with that
    // wrong content.
    under_test.kill_before_invalidations(|| {
        mine.write_all(&[b'm'; 2 * PAGE]).expect("appended");
        drop((mine, theirs));
    });
    let expected = [[b'.'; 2 * PAGE].as_slice(), &[b't'; PAGE], &[b'm'; 2 * PAGE]].concat();
    assert!(std::fs::read(&file).expect("read") == expected, "the kernel still has the outdated pages");
    other.unmount(&under_test.server);
    under_test.end();
}

/// Writes through S3; the answer comes after all kernels have received the earlier invalidations.
fn deliver_invalidations(server: &Server) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let put = root_client(server).put_object().bucket(BUCKET).key("told").send();
    runtime.block_on(put).expect("written");
}

impl MountUnderTest {
    /// Kills the server after `act`, before any kernel received an invalidation of it, and starts another.
    fn kill_before_invalidations(&mut self, act: impl FnOnce()) {
        let stopped = StoppedNotifiers::new(&self.server);
        act();
        json(&self.server, &["snapshot", "create", BUCKET, "settled"]);
        self.server.kill9();
        drop(stopped);
        self.server.restart();
    }
}

/// The processes that deliver a server's invalidations, stopped; they are killed when this is dropped.
struct StoppedNotifiers(Vec<Pid>);

impl StoppedNotifiers {
    fn new(server: &Server) -> Self {
        let threads = format!("/proc/{}/task", server.pid().expect("it runs"));
        let mut found = Vec::new();
        for thread in std::fs::read_dir(threads).expect("its threads").flatten() {
            let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
        }
        assert!(!found.is_empty(), "no process delivers invalidations");
        found.iter().for_each(|pid| kill_process(*pid, Signal::STOP).expect("stopped"));
        Self(found)
    }
}

impl Drop for StoppedNotifiers {
    fn drop(&mut self) {
        for pid in &self.0 {
            // The process may have ended with its server.
            let _ = kill_process(*pid, Signal::KILL);
        }
    }
}
