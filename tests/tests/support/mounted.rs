//! A bucket mounted by the server under test.
//!
//! - The mount point is in the server's folder, which detaches its mounts when it is removed; a panicking test ends the
//!   mount by force.
//! - A hanging call into a mount can only be ended by the end of its server: after a time limit the server is killed,
//!   and the call fails.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use tests::prelude::*;

use super::cli::json;

/// The time limit of a mount's use in seconds: far longer than the longest test takes.
const USE_LIMIT: u64 = 1200;
/// The time limit of the command that mounts from another machine, in seconds.
const MOUNT_LIMIT: u64 = 60;

/// A mount; drop it before its server is killed on purpose.
pub struct Mounted {
    dir: PathBuf,
    /// Dropping it ends the watchdog.
    watch: Option<Sender<()>>,
}

impl Mounted {
    /// Mounts `bucket` at the folder `name` of the server's home, also where a crashed server left a mount.
    ///
    /// # Panics
    /// If the server refuses, or is not running.
    #[track_caller]
    pub fn new(server: &Server, bucket: &str, name: &str) -> Self {
        let mut mounted = Self::held(server, bucket, name);
        mounted.watch = Some(match server.namespace() {
            None => watch(server.pid().expect("the server is running")),
            Some(_) => watch_node(mounted.dir.clone()),
        });
        mounted
    }

    /// Mounts `bucket` so that the mount outlives its server, whose end would not free a hanging process.
    ///
    /// # Panics
    /// If the server refuses, or is not running.
    #[track_caller]
    pub fn held(server: &Server, bucket: &str, name: &str) -> Self {
        let dir = server.home().path().join(name);
        // After a restart it exists already, and must not be accessed, because the mount on it is dead.
        let _ = std::fs::create_dir(&dir);
        match server.namespace() {
            None => drop(json(server, &["mount", bucket, text(&dir)])),
            Some(namespace) => mount_from(namespace, server, bucket, &dir),
        }
        Self { dir, watch: None }
    }

    /// Ends the mount by force: waiting processes get an error.
    pub fn break_off(&self) {
        // The mount may have ended already.
        let _ = unmount(&self.dir, UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    }

    /// The mount point.
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
        // Files left open by a failed test must not be waited for.
        if std::thread::panicking() {
            self.break_off();
        }
    }
}

/// Creates a bucket through the command line.
///
/// # Panics
/// If the server refuses.
#[track_caller]
pub fn make_bucket(server: &Server, name: &str, options: &[&str]) {
    json(server, &[&["bucket", "create", name], options].concat());
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}

/// Mounts from another network namespace, with a key and the certificate of the store's authority.
fn mount_from(namespace: &Namespace, server: &Server, bucket: &str, dir: &Path) {
    let volume = server.volume().expect("its servers listen for other machines");
    let mut command = namespace.command(amphora().expect("the binary"));
    command.args(["mount", bucket, text(dir), "--server", &volume, "--ca"]);
    command.arg(server.home().data_dir().join("volume-ca.pem"));
    command.arg("--credentials").arg(server.ready().word("credentials"));
    match run(&mut command, limit(MOUNT_LIMIT)) {
        Ok(outcome) => drop(outcome.ok()),
        Err(error) => panic!("{error}"),
    }
}

/// Ends a mount of another machine by force after the time limit.
fn watch_node(dir: PathBuf) -> Sender<()> {
    let (call_off, called_off) = channel();
    std::thread::spawn(move || {
        if called_off.recv_timeout(limit(USE_LIMIT)) == Err(RecvTimeoutError::Timeout) {
            let _ = unmount(&dir, UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
    });
    call_off
}

fn watch(pid: u32) -> Sender<()> {
    let (call_off, called_off) = channel();
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    std::thread::spawn(move || {
        if called_off.recv_timeout(limit(USE_LIMIT)) == Err(RecvTimeoutError::Timeout) {
            // An ended process is no error.
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    call_off
}
