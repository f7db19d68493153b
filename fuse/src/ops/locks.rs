//! File locks, where the store keeps them: fcntl(2) with F_GETLK, F_SETLK and F_SETLKW, and flock(2).
//!
//! The kernel does not tell a lock of an open file description (F_OFD_SETLK) from one of a process; it ends when its open
//! file is closed.

use objstore_files::{HeldLock, Lock, LockKind, LockMode, LockOwner, LockRange, LockRelease};

use crate::errno::Result;
use crate::fs::Fs;
use crate::handles::OpenFile;
use crate::locks::{Answer, Wanted};

/// A lock that is asked for, or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockCall {
    pub node: u64,
    pub by: LockOwner,
    pub kind: LockKind,
    pub range: LockRange,
    /// `None` to unlock.
    pub mode: Option<LockMode>,
}

impl Fs<'_> {
    /// The lock that would keep one from being granted.
    pub fn lock_in_the_way(&self, call: LockCall) -> Result<Option<HeldLock>> {
        let LockCall { node, by, kind, range, mode } = call;
        // Ending a lock is never refused.
        let Some(mode) = mode else { return Ok(None) };
        self.locks.test(self.view.ino(node), by.owner, Lock { kind, mode, range })
    }

    /// Locks or unlocks; fails if another lock is in the way.
    pub fn set_lock(&self, call: LockCall) -> Result<()> {
        let LockCall { node, by, kind, range, mode } = call;
        let ino = self.view.ino(node);
        match mode {
            Some(mode) => self.locks.set(ino, by, Lock { kind, mode, range }),
            None => self.locks.unset(ino, by.owner, kind, range),
        }
    }

    /// Locks once no other lock is in the way; `answer` is called then. `number` is the number of the request.
    pub fn wait_for_lock(&self, number: u64, (call, mode): (LockCall, LockMode), answer: Answer) {
        let LockCall { node, by, kind, range, .. } = call;
        let wanted = Wanted { ino: self.view.ino(node), by, lock: Lock { kind, mode, range } };
        self.locks.wait(number, wanted, answer);
    }

    /// A process closed a descriptor of a file: its byte ranges of the file end (fcntl(2)).
    pub fn end_locks_of_process(&self, node: u64, owner: u64) {
        self.locks.release(self.view.ino(node), LockRelease::Descriptor { owner });
    }

    /// The last descriptor of an open(2) was closed: its whole-file lock ends, and the byte ranges that were locked through
    /// it.
    pub fn end_locks_of_file(&self, node: u64, file: OpenFile, flock_owner: Option<u64>) {
        let closed = LockRelease::Description { owner: flock_owner.unwrap_or(0), handle: file.encode() };
        self.locks.release(self.view.ino(node), closed);
    }
}
