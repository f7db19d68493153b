//! A bucket mounted by the server under test.
//!
//! - It lies in the server's folder, which detaches what is mounted there when it goes; a test that panics breaks it off.
//! - A call into a mount that hangs cannot be ended from outside, but by the end of its server: past the limit the
//!   server is killed, and the call fails.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use tests::prelude::*;

use super::cli::json;

/// How long a mount may be in use, in seconds: far above what the longest test takes alone.
const USE_LIMIT: u64 = 1200;

/// A mount; drop it before its server is killed on purpose.
pub struct Mounted {
    dir: PathBuf,
    /// Hanging up calls the watch off.
    watch: Option<Sender<()>>,
}

impl Mounted {
    /// Mounts `bucket` at the folder `name` of the server's home, also where a server that died left a mount.
    ///
    /// # Panics
    /// The server refuses, or is not running.
    #[track_caller]
    pub fn new(server: &Server, bucket: &str, name: &str) -> Self {
        let mut mounted = Self::held(server, bucket, name);
        mounted.watch = Some(watch(server.pid().expect("the server is running")));
        mounted
    }

    /// The same for a mount that outlives its server, so that no server's end could help who hangs in it.
    ///
    /// # Panics
    /// The server refuses, or is not running.
    #[track_caller]
    pub fn held(server: &Server, bucket: &str, name: &str) -> Self {
        let dir = server.home().path().join(name);
        // It is there already after a restart, and must not be looked at: the mount on it is dead.
        let _ = std::fs::create_dir(&dir);
        json(server, &["mount", bucket, text(&dir)]);
        Self { dir, watch: None }
    }

    /// Ends the mount by force: whoever waits in it gets an error.
    pub fn break_off(&self) {
        // It may be gone already.
        let _ = unmount(&self.dir, UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Unmounts.
    ///
    /// # Panics
    /// The server refuses.
    #[track_caller]
    pub fn unmount(self, server: &Server) {
        json(server, &["umount", text(&self.dir)]);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(self.watch.take());
        // What a failed test leaves open there must not be waited for.
        if std::thread::panicking() {
            self.break_off();
        }
    }
}

/// Makes a bucket through the command line.
///
/// # Panics
/// The server refuses.
#[track_caller]
pub fn make_bucket(server: &Server, name: &str, options: &[&str]) {
    json(server, &[&["bucket", "create", name], options].concat());
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}

fn watch(pid: u32) -> Sender<()> {
    let (call_off, called_off) = channel();
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    std::thread::spawn(move || {
        if called_off.recv_timeout(limit(USE_LIMIT)) == Err(RecvTimeoutError::Timeout) {
            // Gone already is as good.
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    call_off
}
