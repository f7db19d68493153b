//! The claim on a mount: one process at a time reads its device, a server or the holder in its place.
//!
//! - It is a lock of flock(2) on the mount's shared memory, by an open file description of the process's own. So it ends with
//!   the process, however that ends, and processes of other PID namespaces see it.
//! - A server claims a mount before it reads the first request, or asks for those of the process before it again, and keeps
//!   the claim as long as it lives. The holder claims it for moments.
//! - A server of an earlier version claims nothing. The holder knows such a server by its protocol.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

/// How long a server waits for the claim. The holder has it for milliseconds, and a process that is just ending a little
/// longer.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// The interval of attempts.
const STEP: Duration = Duration::from_millis(1);

/// A claim, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim(#[expect(dead_code, reason = "the lock ends when it is closed")] OwnedFd);

impl Claim {
    /// Claims a mount by its shared memory, once another process has let it go.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if another process has it for too long; otherwise the system's error.
    pub fn wait(memory: BorrowedFd<'_>) -> Result<Self> {
        let end = Instant::now() + WAIT_MAX;
        loop {
            match Self::now(memory)? {
                Some(claim) => return Ok(claim),
                None if Instant::now() >= end => {
                    return Err(Error::new(
                        ErrorKind::TimedOut,
                        "another process serves the mount, or has not ended yet",
                    ));
                }
                None => std::thread::sleep(STEP),
            }
        }
    }

    /// Claims a mount by its shared memory; `None` if another process has it.
    ///
    /// # Errors
    /// The system's error.
    pub fn now(memory: BorrowedFd<'_>) -> Result<Option<Self>> {
        // Not a duplicate: processes that pass the memory on share its description, and with it a lock.
        let path = format!("/proc/self/fd/{}", memory.as_fd().as_raw_fd());
        let own = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        match flock(&own, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(own))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_memory::{SharedMemory, Tables};

    #[test]
    fn one_at_a_time_claims_a_mount_whoever_shares_its_memory() {
        let memory = SharedMemory::create(Tables::Opens).unwrap();
        let passed_on = memory.memory().try_clone_to_owned().unwrap();
        let first = Claim::now(memory.memory()).unwrap().unwrap();
        assert!(Claim::now(passed_on.as_fd()).unwrap().is_none());
        let waiting = std::thread::spawn(move || Claim::wait(passed_on.as_fd()).map(drop));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        drop(first);
        waiting.join().unwrap().unwrap();
        assert!(Claim::now(memory.memory()).unwrap().is_some());
    }
}
