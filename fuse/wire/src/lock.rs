//! File locks: the arguments of GETLK, SETLK and SETLKW, and the reply to GETLK.

use super::abi::{LK_FLOCK, UNIQUE_RESENT};
use super::fields::{Fields, Malformed};

/// The largest offset in a file, and the last byte of a lock without an end (OFFSET_MAX).
const OFFSET_MAX: u64 = i64::MAX as u64;

/// What a lock allows to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockType {
    /// F_RDLCK: shared locks.
    Shared,
    /// F_WRLCK: nothing.
    Exclusive,
    /// F_UNLCK: there is none.
    Unlocked,
}

/// A lock, or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLock {
    /// The open file through which it is asked for.
    pub handle: u64,
    /// The kernel's number for the process (its table of open files) or the open file description.
    pub owner: u64,
    /// The first byte.
    pub first: u64,
    /// The last byte; `u64::MAX` for a lock without an end.
    pub last: u64,
    /// What it allows to others.
    pub lock_type: LockType,
    /// The process.
    pub pid: u32,
    /// Whether it is a lock of flock(2).
    pub is_flock: bool,
}

impl FileLock {
    /// fuse_lk_in.
    pub(super) fn decode(f: &mut Fields<'_>) -> Result<Self, Malformed> {
        let (handle, owner, first, last) = (f.u64()?, f.u64()?, f.u64()?, f.u64()?);
        let lock_type = match i32::try_from(f.u32()?).map_err(|_| Malformed)? {
            libc::F_RDLCK => LockType::Shared,
            libc::F_WRLCK => LockType::Exclusive,
            libc::F_UNLCK => LockType::Unlocked,
            _ => return Err(Malformed),
        };
        let (pid, flags) = (f.u32()?, f.u32()?);
        let last = if last >= OFFSET_MAX { u64::MAX } else { last };
        if first > last {
            return Err(Malformed);
        }
        Ok(Self { handle, owner, first, last, lock_type, pid, is_flock: flags & LK_FLOCK != 0 })
    }
}

/// The number of the request that an INTERRUPT is about.
pub(super) fn interrupted(f: &mut Fields<'_>) -> Result<u64, Malformed> {
    Ok(f.u64()? & !UNIQUE_RESENT)
}

/// The lock that is in the way, in the reply to GETLK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockReply {
    /// The first byte.
    pub first: u64,
    /// The last byte; `u64::MAX` for a lock without an end.
    pub last: u64,
    /// What it allows to others; unlocked if none is in the way.
    pub lock_type: LockType,
    /// The process that has it; 0 if it is unknown here.
    pub pid: u32,
}

impl LockReply {
    /// The fields of fuse_lk_out: the range, and then the type and the process.
    pub(super) fn fields(&self) -> ([u64; 2], [u32; 2]) {
        let lock_type = match self.lock_type {
            LockType::Shared => libc::F_RDLCK,
            LockType::Exclusive => libc::F_WRLCK,
            LockType::Unlocked => libc::F_UNLCK,
        };
        ([self.first.min(OFFSET_MAX), self.last.min(OFFSET_MAX)], [lock_type.cast_unsigned(), self.pid])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(lock_type: u32, range: (u64, u64), flags: u32) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            [3, 4, range.0, range.1].iter().flat_map(|number: &u64| number.to_ne_bytes()).collect();
        [lock_type, 77, flags, 0].iter().for_each(|number| bytes.extend_from_slice(&number.to_ne_bytes()));
        bytes
    }

    #[test]
    fn locks_are_read_as_the_kernel_lays_them_out() {
        let read = |bytes: &[u8]| FileLock::decode(&mut Fields::new(bytes));
        let expected = FileLock {
            handle: 3,
            owner: 4,
            first: 5,
            last: u64::MAX,
            lock_type: LockType::Exclusive,
            pid: 77,
            is_flock: true,
        };
        assert_eq!(read(&arguments(1, (5, OFFSET_MAX), 1)), Ok(expected));
        let unlocked = FileLock { last: 9, lock_type: LockType::Unlocked, is_flock: false, ..expected };
        assert_eq!(read(&arguments(2, (5, 9), 0)), Ok(unlocked));
        assert_eq!(read(&arguments(3, (5, 9), 0)), Err(Malformed));
        assert_eq!(read(&arguments(0, (9, 5), 0)), Err(Malformed));
        assert_eq!(read(&arguments(0, (5, 9), 0)[..40]), Err(Malformed));
        assert_eq!(interrupted(&mut Fields::new(&(UNIQUE_RESENT | 8).to_ne_bytes())), Ok(8));
    }

    #[test]
    fn a_lock_in_the_way_is_told_within_the_offsets_of_the_kernel() {
        let reply = LockReply { first: 1, last: u64::MAX, lock_type: LockType::Shared, pid: 6 };
        assert_eq!(reply.fields(), ([1, OFFSET_MAX], [0, 6]));
    }
}
