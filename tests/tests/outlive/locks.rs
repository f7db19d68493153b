//! File locks held across changes of the server: no other process gets them, and a waiting process gets them in the
//! end.
//!
//! - A lock of flock(2) and one of fcntl(2), each held by this process and waited for by another.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::fs::{FlockOperation, fcntl_lock, flock};

/// The time limit of calls that should take no time.
const LIMIT: Duration = Duration::from_secs(20);

/// Waits for the lock of the given kind, or tries it.
const SCRIPT: &str = "\
import fcntl, sys
kind, path, wait = sys.argv[1:]
file = open(path, 'r+')
flags = fcntl.LOCK_EX | (0 if wait == 'wait' else fcntl.LOCK_NB)
print('asking', flush=True)
try:
    (fcntl.flock if kind == 'flock' else fcntl.lockf)(file, flags)
    print('got', flush=True)
except BlockingIOError:
    print('refused', flush=True)
";

/// The held locks.
pub struct Locks {
    held: Vec<HeldLock>,
}

struct HeldLock {
    kind: &'static str,
    path: PathBuf,
    file: File,
    waiting: Waiter,
}

/// A process that waits for a lock; killed when it is dropped.
struct Waiter {
    process: Child,
    lines: Receiver<String>,
}

impl Locks {
    /// Takes both locks, and starts a process that waits for each.
    pub fn take(dir: &Path) -> Self {
        let held = ["flock", "fcntl"].map(|kind| {
            let path = dir.join(kind);
            let file = File::create(&path).expect("a file to lock");
            match kind {
                "flock" => flock(&file, FlockOperation::LockExclusive),
                _ => fcntl_lock(&file, FlockOperation::LockExclusive),
            }
            .expect("the lock is free");
            let waiting = Waiter::new(kind, &path, "wait");
            waiting.expect("asking");
            HeldLock { kind, path, file, waiting }
        });
        Self { held: held.into() }
    }

    /// Asserts that no other process has or gets the locks.
    pub fn still_held(&self) {
        for HeldLock { kind, path, waiting, .. } in &self.held {
            assert_eq!(waiting.lines.try_recv().ok(), None, "the process that waits for the {kind} lock");
            let other = Waiter::new(kind, path, "try");
            other.expect("asking");
            other.expect("refused");
        }
    }

    /// Releases the locks, so that the waiting processes get them.
    pub fn release(self) {
        for HeldLock { waiting, file, .. } in self.held {
            // Closing frees both kinds.
            drop(file);
            waiting.expect("got");
        }
    }
}

impl Waiter {
    fn new(kind: &str, path: &Path, wait: &str) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT, kind]).arg(path).arg(wait).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("python3");
        let output = process.stdout.take().expect("piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { process, lines }
    }

    fn expect(&self, line: &str) {
        assert_eq!(
            self.lines.recv_timeout(LIMIT).as_deref(),
            Ok(line),
            "the line of the process that waits for a lock"
        );
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // Both calls fail only if the process has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
