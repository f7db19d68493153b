//! The attributes of inodes, as the calls of a mount take and return them.

use objstore_base::clock::Timestamp;

/// The type of an inode.
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
    /// The inode number, never reused in a bucket and its clones.
    pub ino: u64,
    /// What it is.
    pub kind: Kind,
    /// Permission bits, with setuid, setgid and sticky.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Number of its names.
    pub nlink: u32,
    /// Its size, in bytes.
    pub size: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks: u64,
    /// Device number of a device.
    pub rdev: u32,
    /// Time of the last read.
    pub atime: Timestamp,
    /// Time of the last change of content.
    pub mtime: Timestamp,
    /// Time of the last change of attributes.
    pub ctime: Timestamp,
    /// Time of creation.
    pub btime: Timestamp,
}

/// What an inode is known not to have: a kernel asks for it before it writes to a file or shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// It has no capabilities (capabilities(7)).
    pub no_capabilities: bool,
    /// It has no flag of chattr(1) that forbids to open it for writing.
    pub no_protection: bool,
    /// It has no access ACL.
    pub no_access_acl: bool,
    /// It has no default ACL.
    pub no_default_acl: bool,
}

/// Flags of chattr(1) (ioctl_iflags(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Content, attributes and names cannot be changed (FS_IMMUTABLE_FL).
    pub immutable: bool,
    /// Content can only be appended; a directory only gets names (FS_APPEND_FL).
    pub append_only: bool,
    /// dump(8) leaves it out (FS_NODUMP_FL).
    pub no_dump: bool,
}

/// Attributes to change; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Whether the times are those of the request itself (touch(1)): an append-only file accepts no others.
    pub touches: bool,
    /// Clear setuid, setgid where the group may execute, and capabilities (the kernel's KILL_SUIDGID).
    pub kill_privileges: bool,
    /// Whether the caller is not a member of the file's group: then `kill_privileges` always clears setgid.
    pub outsider: bool,
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
