//! Operations of file locks.

use super::operations::operations;
use crate::locks::{HeldLock, Lock, LockKind, LockOwner, LockRange, LockRelease, Locked};

operations! {
    /// Operations of file locks. They exist where [`FileService::keeps_locks`](crate::FileService::keeps_locks). A
    /// repetition of one leads to the same locks, unless another call of the same owner came in between.
    #[derive(Copy)]
    LockOp {
        /// The lock that would keep an owner from getting this one; nothing is changed (F_GETLK).
        [Read] test_lock: Test {
            /// The file.
            ino: u64,
            /// Whose it would be.
            owner: u64,
            /// The lock.
            lock: Lock,
        } -> Option<HeldLock>;

        /// Locks, in place of what the owner has there. With a `ticket`, which is a number of the mount's own and not
        /// zero, the request waits for other locks; a request that waits under this number already is the same one.
        [Count] lock: Set {
            /// The file.
            ino: u64,
            /// Whose it is.
            by: LockOwner,
            /// The lock.
            lock: Lock,
            /// The number under which it waits; zero to be refused at once.
            ticket: u64,
        } -> Locked;

        /// Unlocks a range, or the whole file; whether the session has other locks of the file, or waits for some.
        [Count] unlock: Unset {
            /// The file.
            ino: u64,
            /// Whose locks.
            owner: u64,
            /// Which kind.
            kind: LockKind,
            /// Which bytes.
            range: LockRange,
        } -> bool;

        /// Ends the locks and the waiting requests of what is closed; whether the session has other locks of the file, or
        /// waits for some.
        [Count] release_locks: Release {
            /// The file.
            ino: u64,
            /// What is closed.
            closed: LockRelease,
        } -> bool;

        /// Takes a waiting request back; whether it waited. Otherwise it was granted, or the store does not know it.
        [Count] cancel_lock: Cancel {
            /// Its number.
            ticket: u64,
        } -> bool;

        /// The files of which the session has locks, or waits for some: those behind `after` in the order of their
        /// numbers, at most [`LOCKED_INODES_MAX`](crate::LOCKED_INODES_MAX).
        [Read] locked_inodes: Files {
            /// The last inode of the answer before; zero to begin.
            after: u64,
        } -> Vec<u64>;
    }
}
