//! File locks of a mount's session: see [`crate::state::FileLocks`] for what they are and what a crash leaves.
//!
//! - The kernel has checked how the file is open. A mount on another machine is not believed: one that may not write
//!   locks no byte range exclusively.

use std::sync::atomic::Ordering;

use objstore_files::{HeldLock, Lock, LockKind, LockMode, LockOwner, LockRange, LockRelease, Locked};

use super::session::{Session, Volume};
use crate::error::{Posix, Result};

impl Volume {
    /// The lock that would keep an owner from getting this one.
    pub fn test_lock(&self, ino: u64, owner: u64, lock: Lock) -> Result<Option<HeldLock>> {
        let session = &*self.0;
        session.check(false)?;
        Ok(session.core.locks.test(&session.lock_session, (session.bucket, ino), owner, lock))
    }

    /// Locks, or waits under `ticket` if that is not zero.
    ///
    /// # Errors
    /// ESTALE for a session that ended; EROFS for an exclusive byte range of a session that may not write.
    pub fn lock(&self, ino: u64, by: LockOwner, lock: Lock, ticket: u64) -> Result<Locked> {
        let session = &*self.0;
        session.check(false)?;
        if session.read_only && (lock.kind, lock.mode) == (LockKind::Ranges, LockMode::Exclusive) {
            return Err(Posix::ReadOnly.into());
        }
        if session.is_ended() {
            return Err(Posix::Stale.into());
        }
        let Session { core, lock_session, .. } = session;
        let locked = core.locks.set(&core.feeds, lock_session, ((session.bucket, ino), by, lock), ticket);
        // One that ended meanwhile has not ended this lock, perhaps.
        if session.is_ended() {
            core.locks.end(&core.feeds, lock_session.id());
            return Err(Posix::Stale.into());
        }
        locked
    }

    /// Unlocks; whether the session has other locks of the file, or waits for some.
    pub fn unlock(&self, ino: u64, owner: u64, kind: LockKind, range: LockRange) -> bool {
        let Session { core, lock_session, .. } = &*self.0;
        let what = Lock { kind, mode: LockMode::Shared, range };
        core.locks.unset(&core.feeds, lock_session, ((self.0.bucket, ino), owner), what)
    }

    /// Ends the locks of what is closed; whether the session has others of the file.
    pub fn release_locks(&self, ino: u64, closed: LockRelease) -> bool {
        let Session { core, lock_session, .. } = &*self.0;
        core.locks.release(&core.feeds, lock_session, (self.0.bucket, ino), closed)
    }

    /// Takes a waiting request back; whether it waited.
    pub fn cancel_lock(&self, ticket: u64) -> bool {
        let Session { core, lock_session, .. } = &*self.0;
        core.locks.cancel(&core.feeds, lock_session, ticket)
    }

    /// The files behind `after` of which the session has locks, or waits for some.
    pub fn locked_inodes(&self, after: u64) -> Vec<u64> {
        self.0.core.locks.inodes(&self.0.lock_session, self.0.bucket, after)
    }
}

impl Session {
    fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}
