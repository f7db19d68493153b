//! Constants of the FUSE protocol (linux/fuse.h): versions, sizes, operation codes and flags.

/// The major version of the protocol. A kernel with another major version cannot be served.
pub(super) const MAJOR: u32 = 7;
/// The newest minor version that this program speaks. A session uses the smaller of the kernel's version and this one.
pub(super) const MINOR: u32 = 45;
/// The oldest minor version that this program speaks: Linux 5.4, the first in which every layout used here is complete.
pub(super) const MINOR_MIN: u32 = 31;

/// The bit in a request's number that marks a resent request: the kernel sent it before, to a server that has ended.
pub(super) const UNIQUE_RESENT: u64 = 1 << 63;

/// The size of a request's header in bytes.
pub(super) const IN_HEADER_BYTES: usize = 40;
/// The number of bytes before the data of a WRITE, header included.
pub(super) const WRITE_HEADER_BYTES: usize = IN_HEADER_BYTES + 40;
/// The size of a reply's header in bytes.
pub(super) const OUT_HEADER_BYTES: usize = 16;

/// Operation codes.
pub(super) mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const GETLK: u32 = 31;
    pub const SETLK: u32 = 32;
    pub const SETLKW: u32 = 33;
    pub const ACCESS: u32 = 34;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const BMAP: u32 = 37;
    pub const DESTROY: u32 = 38;
    pub const IOCTL: u32 = 39;
    pub const POLL: u32 = 40;
    pub const NOTIFY_REPLY: u32 = 41;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const COPY_FILE_RANGE: u32 = 47;
    pub const SYNCFS: u32 = 50;
    pub const TMPFILE: u32 = 51;
    pub const STATX: u32 = 52;
    pub const COPY_FILE_RANGE_64: u32 = 53;
}

/// Capabilities that the kernel offers in INIT, by bit number in its flags. Bits from 32 on lie in `flags2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Feature {
    /// Several reads of a file at a time (reading ahead).
    AsyncRead = 0,
    /// The server keeps the byte-range locks of fcntl(2).
    PosixLocks = 1,
    /// Lookups of "." and ".." on any node: file handles (name_to_handle_at(2)) work.
    ExportSupport = 4,
    /// Writes larger than one page.
    BigWrites = 5,
    /// The request carries the umask; the kernel does not apply it.
    DontMask = 6,
    /// The server keeps the whole-file locks of flock(2).
    FlockLocks = 10,
    /// READDIRPLUS: names with their attributes.
    DoReadDirPlus = 13,
    /// READDIRPLUS only where it helps.
    ReadDirPlusAuto = 14,
    /// Direct I/O split into several requests at a time.
    AsyncDio = 15,
    /// Several lookups and listings of a directory at a time.
    ParallelDirOps = 18,
    /// POSIX ACLs are read and written as extended attributes, and the kernel checks them.
    PosixAcl = 20,
    /// Requests of more than 32 pages.
    MaxPages = 22,
    /// Targets of symbolic links are cached.
    CacheSymlinks = 23,
    /// The kernel drops cached pages only on an invalidation.
    ExplicitInvalData = 25,
    /// The server clears setuid and setgid; a request says when.
    HandleKillprivV2 = 28,
    /// SETXATTR has flags that say when to clear setgid.
    SetXattrExt = 29,
    /// `flags2` is present, so bits from 32 on count.
    InitExt = 30,
    /// Files opened with direct I/O can be mapped shared.
    DirectIoAllowMmap = 36,
    /// Passthrough: the kernel reads and writes a backing file without asking the server.
    Passthrough = 37,
    /// The server can ask for unanswered requests again.
    HasResend = 39,
    /// Mounts may be idmapped. Requests then carry user and group only where they create something.
    AllowIdmap = 40,
}

impl Feature {
    /// The bit of this feature in the 64 flag bits.
    pub(super) const fn bit(self) -> u64 {
        1 << self as u8
    }
}

/// A set of features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    /// The set of these features.
    pub fn new(features: &[Feature]) -> Self {
        Self(features.iter().fold(0, |bits, feature| bits | feature.bit()))
    }

    /// Whether the set has the feature.
    pub fn has(self, feature: Feature) -> bool {
        self.0 & feature.bit() != 0
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The two flag words of the protocol.
    pub(super) fn words(self) -> (u32, u32) {
        (self.0 as u32, (self.0 >> 32) as u32)
    }

    /// Features from two flag words; the second counts only with INIT_EXT.
    pub(super) fn from_words(low: u32, high: u32) -> Self {
        let low = Self(u64::from(low));
        if low.has(Feature::InitExt) { Self(low.0 | u64::from(high) << 32) } else { low }
    }
}

/// Bits of SETATTR's `valid`. FATTR_FH, FATTR_LOCKOWNER and FATTR_CTIME are not looked at: a file is known by its node,
/// and times of change come from the kernel only with the writeback cache.
pub(super) mod setattr {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

/// Bits of WRITE's `write_flags`.
pub(super) mod write {
    pub const CACHE: u32 = 1 << 0;
    pub const KILL_SUIDGID: u32 = 1 << 2;
}

/// FUSE_SETXATTR_ACL_KILL_SGID.
pub(super) const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;
/// FUSE_RELEASE_FLOCK_UNLOCK.
pub(super) const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
/// FUSE_LK_FLOCK.
pub(super) const LK_FLOCK: u32 = 1 << 0;
/// FUSE_FSYNC_FDATASYNC.
pub(super) const FSYNC_FDATASYNC: u32 = 1 << 0;

/// Bits of an open file's `open_flags` (FOPEN_).
pub(super) mod open {
    pub const DIRECT_IO: u32 = 1 << 0;
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const NONSEEKABLE: u32 = 1 << 2;
    pub const CACHE_DIR: u32 = 1 << 3;
    pub const NO_FLUSH: u32 = 1 << 5;
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
    pub const PASSTHROUGH: u32 = 1 << 7;
}

/// Codes of notices.
pub(super) mod notice {
    pub const INVAL_INODE: i32 = 2;
    pub const INVAL_ENTRY: i32 = 3;
    pub const RESEND: i32 = 7;
}
