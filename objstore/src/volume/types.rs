//! The plain values that volume operations take and return.

use crate::clock::Timestamp;
pub use crate::record::acl::{ACCESS as ACCESS_ACL, Acl, DEFAULT as DEFAULT_ACL, Hidden};

/// The inode number of a volume's root directory.
pub const ROOT_INO: u64 = 1;

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// The attributes of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Its number: never used twice in a bucket and its clones.
    pub ino: u64,
    /// What it is.
    pub kind: Kind,
    /// Permission bits, with setuid, setgid and sticky.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its names.
    pub nlink: u32,
    /// Its size, in bytes.
    pub size: u64,
    /// Space taken, in units of 512 bytes.
    pub blocks: u64,
    /// Device number of a device.
    pub rdev: u32,
    /// Last read.
    pub atime: Timestamp,
    /// Content last changed.
    pub mtime: Timestamp,
    /// Attributes last changed.
    pub ctime: Timestamp,
    /// Made.
    pub btime: Timestamp,
    /// Counts the changes of its content.
    pub generation: u64,
}

/// Flags of chattr(1) (ioctl_iflags(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Nobody changes content, attributes or names (FS_IMMUTABLE_FL).
    pub immutable: bool,
    /// Content only grows at its end; of a directory, names only come (FS_APPEND_FL).
    pub append_only: bool,
    /// dump(8) leaves it out (FS_NODUMP_FL).
    pub no_dump: bool,
}

/// Attributes to change; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAttr {
    /// New permission bits.
    pub mode: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size.
    pub size: Option<u64>,
    /// New time of last read.
    pub atime: Option<Timestamp>,
    /// New time of last change.
    pub mtime: Option<Timestamp>,
    /// Whether the times are those of the request itself (touch(1)): an append-only file takes no others.
    pub touches: bool,
    /// Clear setuid, setgid where the group may execute, and capabilities (the kernel's KILL_SUIDGID).
    pub kill_privileges: bool,
    /// Whether who asks is not of the file's group: then setgid is cleared with `kill_privileges` in any case.
    pub outsider: bool,
}

/// What to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Make {
    /// An empty regular file.
    File,
    /// An empty directory.
    Directory,
    /// A symbolic link to this.
    Symlink(String),
    /// A pipe, socket or device with its device number.
    Special(Kind, u32),
}

/// Owner and permission bits of what is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// Its owner.
    pub uid: u32,
    /// Its group (a setgid directory's group wins).
    pub gid: u32,
    /// Permission bits as asked for.
    pub mode: u32,
    /// The bits to leave out of them, unless the directory has a default ACL (umask(2), acl(5)).
    pub umask: u32,
}

/// What a rename does with a name that is taken (renameat2(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// Replaces it.
    Replace,
    /// Refuses.
    NoReplace,
    /// Swaps the two.
    Exchange,
    /// Leaves a whiteout under the old name: a character device 0:0, by which a filesystem that lies over this one knows
    /// that a name is gone.
    Whiteout {
        /// Whose it is.
        owner: Ownership,
        /// Whether the name that is taken is replaced, or the rename refused.
        replace: bool,
    },
}

/// A rename.
#[derive(Clone, Debug)]
pub struct Rename {
    /// The directory it leaves.
    pub from_parent: u64,
    /// The name it loses.
    pub from_name: String,
    /// The directory it enters.
    pub to_parent: u64,
    /// The name it gets.
    pub to_name: String,
    /// What if the new name is taken.
    pub mode: RenameMode,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name.
    pub name: String,
    /// Its inode.
    pub ino: u64,
    /// What it is.
    pub kind: Kind,
}

/// How to set an ACL.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAcl {
    /// Clear setgid with it: who sets it is not of the file's group (the kernel's ACL_KILL_SGID).
    pub kill_setgid: bool,
    /// Names that the setter was not shown: those that are kept stay.
    pub hidden: Hidden,
}

/// Whether an extended attribute may or must exist already (setxattr(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Either.
    Any,
    /// XATTR_CREATE
    Create,
    /// XATTR_REPLACE
    Replace,
}

/// How to allocate (fallocate(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// Reserve; grow the file if the range passes its end.
    Extend,
    /// Reserve; never change the size (FALLOC_FL_KEEP_SIZE).
    KeepSize,
    /// Make the range read as zeros, the size unchanged (FALLOC_FL_PUNCH_HOLE).
    PunchHole,
    /// Make the range read as zeros and grow the file if it passes its end (FALLOC_FL_ZERO_RANGE).
    ZeroRange,
    /// The same without growing.
    ZeroRangeKeepSize,
}

/// Space and inodes for statfs(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The quota, or the size of the disk.
    pub total_bytes: u64,
    /// Used of it.
    pub used_bytes: u64,
    /// Free of it, and free on the disk.
    pub free_bytes: u64,
    /// Inodes used.
    pub inodes: u64,
}

/// A change made by somebody else that a mount may have cached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The name in the directory means something else now, or nothing.
    Entry {
        /// The directory.
        parent: u64,
        /// The name.
        name: String,
    },
    /// The inode's content and attributes changed.
    Content {
        /// The inode.
        ino: u64,
    },
    /// The inode's attributes changed.
    Attributes {
        /// The inode.
        ino: u64,
    },
    /// Not a change but a question: whether the kernel still holds the inode, which has no name any more.
    /// [`super::Volume::probe_result`] has to follow.
    Probe {
        /// The inode.
        ino: u64,
    },
}
