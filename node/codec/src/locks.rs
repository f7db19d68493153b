//! File locks in heads: the arguments of their operations, and their values.

use objstore_base::error::Result;
use objstore_files::{HeldLock, Lock, LockKind, LockMode, LockOp, LockOwner, LockRange, LockRelease, Locked};

use crate::bounds::refused;
use crate::message;
use crate::values::{lock_kind, lock_kind_number, lock_mode, lock_mode_number, locked};

/// The numbers of the operations, a group of their own.
pub(crate) mod number {
    pub const TEST: u32 = 601;
    pub const SET: u32 = 602;
    pub const UNSET: u32 = 603;
    pub const RELEASE: u32 = 604;
    pub const CANCEL: u32 = 605;
    pub const FILES: u32 = 606;
}

/// What is closed: the numbers of the kinds of a release.
const DESCRIPTOR: u32 = 1;
const DESCRIPTION: u32 = 2;

fn of_lock(Lock { kind, mode, range }: Lock) -> message::Lock {
    let (kind, mode) = (lock_kind_number(kind), lock_mode_number(mode));
    message::Lock { kind, mode, first: range.first(), last: range.last(), ..Default::default() }
}

fn range(lock: &message::Lock) -> Result<LockRange> {
    let range = LockRange::new(lock.first, lock.last);
    range.ok_or_else(|| refused("range of a lock", &lock.first, "its last byte lies before its first"))
}

fn lock(lock: &message::Lock) -> Result<Lock> {
    Ok(Lock { kind: lock_kind(lock.kind)?, mode: lock_mode(lock.mode)?, range: range(lock)? })
}

/// The number of an operation, its inode and its other arguments.
pub(crate) fn of_locks(op: LockOp) -> (u32, u64, message::Lock) {
    match op {
        LockOp::Test { ino, owner, lock } => (number::TEST, ino, message::Lock { owner, ..of_lock(lock) }),
        LockOp::Set { ino, by: LockOwner { owner, handle, pid }, lock, ticket } => {
            (number::SET, ino, message::Lock { owner, handle, pid, ticket, ..of_lock(lock) })
        }
        LockOp::Unset { ino, owner, kind, range } => {
            let lock = of_lock(Lock { kind, mode: LockMode::Shared, range });
            (number::UNSET, ino, message::Lock { owner, ..lock })
        }
        LockOp::Release { ino, closed } => {
            let (closes, owner, handle) = match closed {
                LockRelease::Descriptor { owner } => (DESCRIPTOR, owner, 0),
                LockRelease::Description { owner, handle } => (DESCRIPTION, owner, handle),
            };
            (number::RELEASE, ino, message::Lock { closes, owner, handle, ..Default::default() })
        }
        LockOp::Cancel { ticket } => (number::CANCEL, 0, message::Lock { ticket, ..Default::default() }),
        LockOp::Files { after } => (number::FILES, after, message::Lock::default()),
    }
}

/// The operation with a number; `None` if there is none.
pub(crate) fn lock_op(number: u32, ino: u64, arguments: &message::Lock) -> Result<Option<LockOp>> {
    let message::Lock { owner, handle, pid, ticket, .. } = *arguments;
    Ok(Some(match number {
        number::TEST => LockOp::Test { ino, owner, lock: lock(arguments)? },
        number::SET => LockOp::Set { ino, by: LockOwner { owner, handle, pid }, lock: lock(arguments)?, ticket },
        number::UNSET => LockOp::Unset { ino, owner, kind: lock_kind(arguments.kind)?, range: range(arguments)? },
        number::RELEASE => {
            let closed = match arguments.closes {
                DESCRIPTOR => LockRelease::Descriptor { owner },
                DESCRIPTION => LockRelease::Description { owner, handle },
                other => return Err(refused("kind of a release", &other, "its number is from 1 to 2")),
            };
            LockOp::Release { ino, closed }
        }
        number::CANCEL => LockOp::Cancel { ticket },
        number::FILES => LockOp::Files { after: ino },
        _ => return Ok(None),
    }))
}

/// A lock that is in the way, as a message.
pub(crate) fn of_held(held: HeldLock) -> message::Lock {
    let HeldLock { mode, range, pid } = held;
    message::Lock { pid, ..of_lock(Lock { kind: LockKind::Ranges, mode, range }) }
}

/// The lock that a message describes.
pub(crate) fn held(lock: &message::Lock) -> Result<HeldLock> {
    Ok(HeldLock { mode: lock_mode(lock.mode)?, range: range(lock)?, pid: lock.pid })
}

/// The outcome with a number.
pub(crate) fn outcome(number: u64) -> Result<Locked> {
    locked(u32::try_from(number).unwrap_or_default())
}
