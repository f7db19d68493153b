//! File locks: byte ranges (fcntl(2)) and whole files (flock(2)).

/// The last byte that a lock can cover. A lock up to here also covers everything that is appended later.
pub const LOCK_END: u64 = u64::MAX;

/// The most inodes in one answer of [`Files::locked_inodes`](crate::Files::locked_inodes).
pub const LOCKED_INODES_MAX: usize = 1024;

/// Which kind of lock. The two do not see each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockKind {
    /// Byte ranges: fcntl(2), of a process or of an open file description.
    Ranges,
    /// Whole files: flock(2).
    Whole,
}

/// What a lock allows to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// Shared locks.
    Shared,
    /// Nothing.
    Exclusive,
}

/// A range of bytes that is not empty; its end lies within or behind the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockRange {
    first: u64,
    last: u64,
}

impl LockRange {
    /// All bytes.
    pub const ALL: Self = Self { first: 0, last: LOCK_END };

    /// The bytes from `first` to `last`, both included; `None` if that is none.
    pub fn new(first: u64, last: u64) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// The first byte.
    pub fn first(self) -> u64 {
        self.first
    }

    /// The last byte.
    pub fn last(self) -> u64 {
        self.last
    }
}

/// A lock. One of a whole file covers [`LockRange::ALL`]; its range does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    /// Its kind.
    pub kind: LockKind,
    /// What it allows to others.
    pub mode: LockMode,
    /// What it covers.
    pub range: LockRange,
}

/// Whose a lock is, as the kernel of a mount says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockOwner {
    /// The kernel's number for the process or the open file description, unique in the session.
    pub owner: u64,
    /// The mount's number for the open file: its locks end when that is closed.
    pub handle: u64,
    /// The process, as the kernel numbers it; 0 if unknown.
    pub pid: u32,
}

/// What is closed, so that locks end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockRelease {
    /// A descriptor of the process that has this number as an owner: its byte ranges of the file end (fcntl(2)).
    Descriptor {
        /// The owner.
        owner: u64,
    },
    /// An open file description: its whole-file lock ends, and the byte ranges that were locked through it.
    Description {
        /// Its number as an owner; 0 if it is not known to have a whole-file lock.
        owner: u64,
        /// The mount's number for the open file.
        handle: u64,
    },
}

/// A lock that is in the way (fcntl(2), F_GETLK).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeldLock {
    /// What it allows.
    pub mode: LockMode,
    /// What it covers.
    pub range: LockRange,
    /// The process that has it, if it uses the same mount; otherwise 0.
    pub pid: u32,
}

/// The outcome of a request for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Locked {
    /// The lock is held.
    Granted,
    /// Another lock is in the way (EAGAIN).
    Refused,
    /// It waits: [`Change::LockGranted`](crate::Change::LockGranted) follows.
    Waits,
    /// It would wait for itself (EDEADLK).
    Deadlock,
    /// The session has as many locks and waiting requests as it may have (ENOLCK).
    TooMany,
}
