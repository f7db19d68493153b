//! Operations: what a request asks for, and the byte layout of each request's arguments.

use std::ffi::OsStr;

use super::abi::{
    FSYNC_FDATASYNC, Feature, Features, RELEASE_FLOCK_UNLOCK, SETXATTR_ACL_KILL_SGID, opcode, setattr,
    write as write_flags,
};
use super::fields::{Fields, Malformed};
use super::lock::{FileLock, interrupted};

/// A point in time: seconds since 1970, negative before, and the nanoseconds after them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Seconds since 1970; negative before.
    pub seconds: i64,
    /// Nanoseconds after the second.
    pub nanos: u32,
}

/// A time to set: a given one, or the current time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The time of the request.
    Now,
    /// A given time.
    At(Time),
}

/// Name, mode and umask of an inode to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct New<'a> {
    /// Its name.
    pub name: &'a OsStr,
    /// Type and permission bits.
    pub mode: u32,
    /// The bits that the caller's umask clears from the mode. The kernel did not apply it where DONT_MASK was agreed.
    pub umask: u32,
}

/// Attributes to set (SETATTR).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The length in bytes.
    pub size: Option<u64>,
    /// The time of the last access.
    pub atime: Option<When>,
    /// The time of the last modification.
    pub mtime: Option<When>,
    /// The caller lacks CAP_FSETID: a change of size clears setuid and setgid.
    pub kill_privileges: bool,
}

/// Arguments of WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// Where in the file, in bytes.
    pub offset: u64,
    /// The file's current flags; fcntl(2) may have changed them since open(2).
    pub flags: u32,
    /// The kernel writes back pages of a shared mapping, through any handle that is open for writing.
    pub writeback: bool,
    /// The writer lacks CAP_FSETID.
    pub kill_privileges: bool,
    /// The bytes to write.
    pub data: &'a [u8],
}

/// Arguments of READDIR: where to begin and how much to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadDir {
    /// The open directory, by the number its OPENDIR was answered with.
    pub handle: u64,
    /// The cookie of the first name to list; 0 for the start.
    pub offset: u64,
    /// The largest reply, in bytes.
    pub room: u32,
}

/// Arguments of COPY_FILE_RANGE. The source file is the request's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRange {
    /// Where in the source file, in bytes.
    pub from_offset: u64,
    /// The destination file.
    pub to_node: u64,
    /// Where in the destination file, in bytes.
    pub to_offset: u64,
    /// How many bytes.
    pub len: u64,
    /// Whether the reply has room for a 64-bit length.
    pub wide: bool,
}

/// Nodes to forget (BATCH_FORGET), each with the number of its lookups.
#[derive(Clone, Copy, Debug)]
pub struct Forgets<'a>(&'a [u8]);

impl Forgets<'_> {
    /// Each node with the number of its lookups that are over.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.chunks_exact(16).filter_map(|pair| {
            let mut fields = Fields::new(pair);
            Some((fields.u64().ok()?, fields.u64().ok()?))
        })
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// LOOKUP: a name of the directory.
    Lookup(&'a OsStr),
    /// FORGET: so many lookups of the node are over.
    Forget(u64),
    /// BATCH_FORGET: lookups of several nodes are over.
    BatchForget(Forgets<'a>),
    /// GETATTR: the attributes of the node.
    GetAttr,
    /// STATX: the attributes with the time of birth.
    StatX,
    /// SETATTR: changes attributes.
    SetAttr(SetAttr),
    /// READLINK: the target of a symbolic link.
    ReadLink,
    /// SYMLINK: makes a symbolic link.
    SymLink {
        /// The name, in the directory that the request is about.
        name: &'a OsStr,
        /// What the link leads to.
        target: &'a OsStr,
    },
    /// MKNOD: makes a file, pipe, socket or device.
    MakeNode {
        /// What to make.
        new: New<'a>,
        /// The number of the device.
        rdev: u32,
    },
    /// MKDIR: makes a directory.
    MakeDir(New<'a>),
    /// UNLINK: removes the name of anything but a directory.
    Unlink(&'a OsStr),
    /// RMDIR: removes an empty directory.
    RemoveDir(&'a OsStr),
    /// RENAME, RENAME2: renames.
    Rename {
        /// The name, in the directory that the request is about.
        name: &'a OsStr,
        /// The destination directory.
        to: u64,
        /// The name in the destination directory.
        new_name: &'a OsStr,
        /// The flags of the system call.
        flags: u32,
    },
    /// LINK: gives a node a further name.
    Link {
        /// The node to name.
        node: u64,
        /// The name, in the directory that the request is about.
        name: &'a OsStr,
    },
    /// OPEN: opens a file.
    Open {
        /// The flags of the system call.
        flags: u32,
    },
    /// CREATE: makes a file and opens it.
    Create {
        /// What to make.
        new: New<'a>,
        /// The flags of the system call.
        flags: u32,
    },
    /// TMPFILE: makes a file without a name and opens it.
    TmpFile {
        /// What to make.
        new: New<'a>,
        /// The flags of the system call.
        flags: u32,
    },
    /// READ: reads a range.
    Read {
        /// Where in the file, in bytes.
        offset: u64,
        /// How many bytes.
        size: u32,
    },
    /// WRITE: writes a range.
    Write(Write<'a>),
    /// FLUSH: a descriptor of the file is closed.
    Flush {
        /// The open file or directory.
        handle: u64,
        /// The process that closes it, as an owner of byte-range locks.
        owner: u64,
    },
    /// RELEASE: the last descriptor of an open(2) is closed.
    Release {
        /// The open file or directory.
        handle: u64,
        /// The open file description as an owner of locks, if flock(2) was called for it.
        flock_owner: Option<u64>,
    },
    /// GETLK: the lock that would keep one from being granted.
    GetLock(FileLock),
    /// SETLK, SETLKW: locks or unlocks.
    SetLock {
        /// The lock.
        lock: FileLock,
        /// Whether to wait until it is granted.
        wait: bool,
    },
    /// INTERRUPT: the caller of the request with this number received a signal. It takes no answer.
    Interrupt(u64),
    /// FSYNC: makes a file durable.
    Sync {
        /// Whether attributes may be left out (fdatasync(2)).
        data_only: bool,
    },
    /// FSYNCDIR: makes a directory durable.
    SyncDir,
    /// SYNCFS: makes the file system durable.
    SyncFs,
    /// OPENDIR: opens a directory.
    OpenDir,
    /// READDIR: lists names.
    ReadDir(ReadDir),
    /// READDIRPLUS: lists names with what a lookup of each would answer.
    ReadDirPlus(ReadDir),
    /// RELEASEDIR: closes a directory.
    ReleaseDir {
        /// The open file or directory.
        handle: u64,
    },
    /// STATFS: the space of the file system.
    StatFs,
    /// SETXATTR: sets an extended attribute.
    SetXattr {
        /// The name, in the directory that the request is about.
        name: &'a OsStr,
        /// The value.
        value: &'a [u8],
        /// The flags of the system call.
        flags: u32,
        /// Whether a new ACL clears setgid.
        kill_setgid: bool,
    },
    /// GETXATTR: the value of an extended attribute.
    GetXattr {
        /// The name, in the directory that the request is about.
        name: &'a OsStr,
        /// The largest reply, in bytes; 0 asks for the size.
        room: u32,
    },
    /// LISTXATTR: the names of the extended attributes.
    ListXattr {
        /// The largest reply, in bytes; 0 asks for the size.
        room: u32,
    },
    /// REMOVEXATTR: removes an extended attribute.
    RemoveXattr(&'a OsStr),
    /// FALLOCATE: reserves, punches or zeroes a range.
    Allocate {
        /// The mode of fallocate(2).
        mode: u32,
        /// Where in the file, in bytes.
        offset: u64,
        /// How many bytes.
        len: u64,
    },
    /// LSEEK: the next data or hole.
    Seek {
        /// Where in the file, in bytes.
        offset: i64,
        /// SEEK_DATA or SEEK_HOLE.
        whence: u32,
    },
    /// COPY_FILE_RANGE, COPY_FILE_RANGE_64: copies a range.
    CopyRange(CopyRange),
    /// IOCTL: a call of ioctl(2).
    Ioctl {
        /// The number of the call.
        command: u32,
        /// The bytes that come with the call.
        data: &'a [u8],
        /// The room for the reply in bytes.
        room: u32,
    },
    /// INIT again: the kernel never received the reply.
    Init,
    /// DESTROY: the mount ends.
    Destroy,
    /// The kernel's reply to a NOTIFY_RETRIEVE, which this server never sends; it takes no answer.
    NotifyReply,
    /// An operation that is not offered: answered with this error, after which the kernel for most operations never
    /// asks again.
    Refused(i32),
    /// An unknown operation code.
    Unknown(u32),
}

impl<'a> Operation<'a> {
    /// Decodes the arguments of operation `code`.
    pub(super) fn decode(code: u32, args: &'a [u8], features: Features) -> Result<Self, Malformed> {
        let mut fields = Fields::new(args);
        let f = &mut fields;
        Ok(match code {
            opcode::LOOKUP => Self::Lookup(f.name()?),
            opcode::FORGET => Self::Forget(f.u64()?),
            opcode::BATCH_FORGET => Self::BatchForget(forgets(f)?),
            opcode::GETATTR => Self::GetAttr,
            opcode::STATX => Self::StatX,
            opcode::SETATTR => Self::SetAttr(set_attr(f)?),
            opcode::READLINK => Self::ReadLink,
            opcode::SYMLINK => Self::SymLink { name: f.name()?, target: f.name()? },
            opcode::MKNOD => make_node(f)?,
            opcode::MKDIR => Self::MakeDir(new(f.u32()?, f.u32()?, f)?),
            opcode::UNLINK => Self::Unlink(f.name()?),
            opcode::RMDIR => Self::RemoveDir(f.name()?),
            opcode::RENAME | opcode::RENAME2 => rename(f, code)?,
            opcode::LINK => Self::Link { node: f.u64()?, name: f.name()? },
            opcode::OPEN => Self::Open { flags: f.u32()? },
            opcode::CREATE | opcode::TMPFILE => create(f, code)?,
            opcode::READ => read(f)?,
            opcode::WRITE => Self::Write(write(f)?),
            opcode::FLUSH => flush(f)?,
            opcode::RELEASE => release(f)?,
            opcode::GETLK if keeps_locks(features) => Self::GetLock(FileLock::decode(f)?),
            opcode::SETLK | opcode::SETLKW if keeps_locks(features) => {
                Self::SetLock { lock: FileLock::decode(f)?, wait: code == opcode::SETLKW }
            }
            opcode::INTERRUPT if keeps_locks(features) => Self::Interrupt(interrupted(f)?),
            opcode::FSYNC => sync(f)?,
            opcode::FSYNCDIR => Self::SyncDir,
            opcode::SYNCFS => Self::SyncFs,
            opcode::OPENDIR => Self::OpenDir,
            opcode::READDIR => Self::ReadDir(read_dir(f)?),
            opcode::READDIRPLUS => Self::ReadDirPlus(read_dir(f)?),
            opcode::RELEASEDIR => Self::ReleaseDir { handle: f.u64()? },
            opcode::STATFS => Self::StatFs,
            opcode::SETXATTR => set_xattr(f, features)?,
            opcode::GETXATTR => get_xattr(f)?,
            opcode::LISTXATTR => Self::ListXattr { room: f.u32()? },
            opcode::REMOVEXATTR => Self::RemoveXattr(f.name()?),
            opcode::FALLOCATE => allocate(f)?,
            opcode::LSEEK => seek(f)?,
            opcode::COPY_FILE_RANGE | opcode::COPY_FILE_RANGE_64 => Self::CopyRange(copy_range(f, code)?),
            opcode::INIT => Self::Init,
            opcode::DESTROY => Self::Destroy,
            opcode::NOTIFY_REPLY => Self::NotifyReply,
            // Only locks are waited for. After ENOSYS the kernel sends no further INTERRUPT.
            opcode::INTERRUPT => Self::Refused(libc::ENOSYS),
            // The kernel checks permissions, keeps locks unless INIT agreed otherwise, and every file is always ready.
            opcode::ACCESS | opcode::GETLK | opcode::SETLK | opcode::SETLKW => Self::Refused(libc::ENOSYS),
            opcode::POLL | opcode::BMAP => Self::Refused(libc::ENOSYS),
            opcode::IOCTL => ioctl(f)?,
            other => Self::Unknown(other),
        })
    }

    /// The directory name that the operation is about: of RENAME the old name, of LINK the new one.
    pub fn name(&self) -> Option<&'a OsStr> {
        match self {
            Self::Lookup(name) | Self::Unlink(name) | Self::RemoveDir(name) => Some(name),
            Self::SymLink { name, .. } | Self::Rename { name, .. } | Self::Link { name, .. } => Some(name),
            Self::MakeNode { new, .. } | Self::MakeDir(new) | Self::Create { new, .. } => Some(new.name),
            _ => None,
        }
    }

    /// Whether the operation mostly waits for the disk.
    pub(crate) fn waits_for_disk(&self) -> bool {
        matches!(self, Self::Sync { .. } | Self::SyncDir | Self::SyncFs | Self::Allocate { .. } | Self::CopyRange(_))
    }

    /// Whether no program waits for the operation to end.
    pub(crate) fn is_background(&self) -> bool {
        matches!(self, Self::Release { .. } | Self::ReleaseDir { .. } | Self::Forget(_) | Self::BatchForget(_))
    }

    /// Whether the kernel waits for an answer.
    pub fn is_answered(&self) -> bool {
        !matches!(self, Self::Forget(_) | Self::BatchForget(_) | Self::NotifyReply | Self::Interrupt(_))
    }
}

fn new<'a>(mode: u32, umask: u32, f: &mut Fields<'a>) -> Result<New<'a>, Malformed> {
    Ok(New { name: f.name()?, mode, umask })
}

fn forgets<'a>(f: &mut Fields<'a>) -> Result<Forgets<'a>, Malformed> {
    let count = f.u32()? as usize;
    f.skip(4)?;
    f.bytes(count.checked_mul(16).ok_or(Malformed)?).map(Forgets)
}

fn set_attr(f: &mut Fields<'_>) -> Result<SetAttr, Malformed> {
    let valid = f.u32()?;
    f.skip(12)?;
    let size = f.u64()?;
    f.skip(8)?;
    let (atime, mtime) = (f.u64()?, f.u64()?);
    f.skip(8)?;
    let (atime_nanos, mtime_nanos) = (f.u32()?, f.u32()?);
    f.skip(4)?;
    let mode = f.u32()?;
    f.skip(4)?;
    let (uid, gid) = (f.u32()?, f.u32()?);
    let has = |bit| valid & bit != 0;
    let when = |set, now, seconds, nanos| {
        let time = if has(now) { When::Now } else { When::At(Time { seconds: u64::cast_signed(seconds), nanos }) };
        has(set).then_some(time)
    };
    Ok(SetAttr {
        mode: has(setattr::MODE).then_some(mode),
        uid: has(setattr::UID).then_some(uid),
        gid: has(setattr::GID).then_some(gid),
        size: has(setattr::SIZE).then_some(size),
        atime: when(setattr::ATIME, setattr::ATIME_NOW, atime, atime_nanos),
        mtime: when(setattr::MTIME, setattr::MTIME_NOW, mtime, mtime_nanos),
        kill_privileges: has(setattr::KILL_SUIDGID),
    })
}

fn make_node<'a>(f: &mut Fields<'a>) -> Result<Operation<'a>, Malformed> {
    let (mode, rdev, umask) = (f.u32()?, f.u32()?, f.u32()?);
    f.skip(4)?;
    Ok(Operation::MakeNode { new: new(mode, umask, f)?, rdev })
}

fn rename<'a>(f: &mut Fields<'a>, code: u32) -> Result<Operation<'a>, Malformed> {
    let to = f.u64()?;
    let mut flags = 0;
    if code == opcode::RENAME2 {
        flags = f.u32()?;
        f.skip(4)?;
    }
    Ok(Operation::Rename { name: f.name()?, to, new_name: f.name()?, flags })
}

fn create<'a>(f: &mut Fields<'a>, code: u32) -> Result<Operation<'a>, Malformed> {
    let (flags, mode, umask) = (f.u32()?, f.u32()?, f.u32()?);
    f.skip(4)?;
    let new = new(mode, umask, f)?;
    Ok(if code == opcode::CREATE { Operation::Create { new, flags } } else { Operation::TmpFile { new, flags } })
}

fn read<'a>(f: &mut Fields<'a>) -> Result<Operation<'a>, Malformed> {
    f.skip(8)?;
    Ok(Operation::Read { offset: f.u64()?, size: f.u32()? })
}

fn read_dir(f: &mut Fields<'_>) -> Result<ReadDir, Malformed> {
    Ok(ReadDir { handle: f.u64()?, offset: f.u64()?, room: f.u32()? })
}

fn write<'a>(f: &mut Fields<'a>) -> Result<Write<'a>, Malformed> {
    f.skip(8)?;
    let (offset, size, how) = (f.u64()?, f.u32()?, f.u32()?);
    f.skip(8)?;
    let flags = f.u32()?;
    f.skip(4)?;
    Ok(Write {
        offset,
        flags,
        writeback: how & write_flags::CACHE != 0,
        kill_privileges: how & write_flags::KILL_SUIDGID != 0,
        data: f.bytes(size as usize)?,
    })
}

/// Whether the server keeps file locks. A kernel offers both kinds or none.
fn keeps_locks(features: Features) -> bool {
    features.has(Feature::PosixLocks) && features.has(Feature::FlockLocks)
}

fn flush<'a>(f: &mut Fields<'a>) -> Result<Operation<'a>, Malformed> {
    let handle = f.u64()?;
    f.skip(8)?;
    Ok(Operation::Flush { handle, owner: f.u64()? })
}

fn release<'a>(f: &mut Fields<'a>) -> Result<Operation<'a>, Malformed> {
    let handle = f.u64()?;
    f.skip(4)?;
    let (flags, owner) = (f.u32()?, f.u64()?);
    Ok(Operation::Release { handle, flock_owner: (flags & RELEASE_FLOCK_UNLOCK != 0).then_some(owner) })
}

fn sync<'a>(f: &mut Fields<'a>) -> Result<Operation<'a>, Malformed> {
    f.skip(8)?;
    Ok(Operation::Sync { data_only: f.u32()? & FSYNC_FDATASYNC != 0 })
}

fn set_xattr<'a>(f: &mut Fields<'a>, features: Features) -> Result<Operation<'a>, Malformed> {
    let (size, flags) = (f.u32()?, f.u32()?);
    let mut kill_setgid = false;
    if features.has(Feature::SetXattrExt) {
        kill_setgid = f.u32()? & SETXATTR_ACL_KILL_SGID != 0;
        f.skip(4)?;
    }
    Ok(Operation::SetXattr { name: f.name()?, value: f.bytes(size as usize)?, flags, kill_setgid })
}

fn get_xattr<'a>(f: &mut Fields<'a>) -> Result<Operation<'a>, Malformed> {
    let room = f.u32()?;
    f.skip(4)?;
    Ok(Operation::GetXattr { name: f.name()?, room })
}

fn allocate<'a>(f: &mut Fields<'a>) -> Result<Operation<'a>, Malformed> {
    f.skip(8)?;
    let (offset, len) = (f.u64()?, f.u64()?);
    Ok(Operation::Allocate { mode: f.u32()?, offset, len })
}

fn seek<'a>(f: &mut Fields<'a>) -> Result<Operation<'a>, Malformed> {
    f.skip(8)?;
    Ok(Operation::Seek { offset: f.u64()?.cast_signed(), whence: f.u32()? })
}

fn ioctl<'a>(f: &mut Fields<'a>) -> Result<Operation<'a>, Malformed> {
    // Handle and flags come first; then the argument, an address in the caller's memory.
    f.skip(12)?;
    let command = f.u32()?;
    f.skip(8)?;
    let (size, room) = (f.u32()?, f.u32()?);
    Ok(Operation::Ioctl { command, data: f.bytes(size as usize)?, room })
}

fn copy_range(f: &mut Fields<'_>, code: u32) -> Result<CopyRange, Malformed> {
    f.skip(8)?;
    let (from_offset, to_node) = (f.u64()?, f.u64()?);
    f.skip(8)?;
    let wide = code == opcode::COPY_FILE_RANGE_64;
    Ok(CopyRange { from_offset, to_node, to_offset: f.u64()?, len: f.u64()?, wide })
}
