//! The values in heads, each beside its message or number.

use objstore_base::acl::{Acl, Hidden};
use objstore_base::clock::Timestamp;
use objstore_base::error::Result;
use objstore_files::{
    Allocate, Attr, DirEntry, Flags, Kind, LockKind, LockMode, Locked, Ownership, SetAcl, SetAttr, Space, WhichAcl,
    XattrMode,
};

use crate::bounds::{name, refused};
use crate::message;

/// Values of which each has a number, in the order of their numbers from 1.
fn numbered<T: Copy + PartialEq>(all: &[T], value: T) -> u32 {
    let at = all.iter().position(|other| *other == value);
    at.and_then(|at| u32::try_from(at + 1).ok()).unwrap_or_default()
}

fn of_number<T: Copy>(what: &'static str, all: &[T], number: u32) -> Result<T> {
    let at = (number as usize).checked_sub(1);
    let found = at.and_then(|at| all.get(at)).copied();
    found.ok_or_else(|| refused(what, &number, format!("its number is from 1 to {}", all.len())))
}

/// Declares the numbers of an enum's values: its constant, and both ways.
macro_rules! numbers {
    ($($what:literal $type:ty: $number:ident, $value:ident, $all:ident = [$($each:expr),+ $(,)?];)*) => { $(
        const $all: &[$type] = &[$($each),+];

        pub(crate) fn $number(value: $type) -> u32 {
            numbered($all, value)
        }

        pub(crate) fn $value(number: u32) -> Result<$type> {
            of_number($what, $all, number)
        }
    )* };
}

numbers! {
    "kind of an inode" Kind: kind_number, kind, KINDS = [
        Kind::File, Kind::Directory, Kind::Symlink, Kind::Fifo, Kind::Socket, Kind::CharDevice, Kind::BlockDevice,
    ];
    "kind of an ACL" WhichAcl: acl_number, which_acl, ACLS = [WhichAcl::Access, WhichAcl::Default];
    "mode of setting an attribute" XattrMode: xattr_mode_number, xattr_mode, XATTR_MODES =
        [XattrMode::Any, XattrMode::Create, XattrMode::Replace];
    "kind of allocation" Allocate: allocate_number, allocate, ALLOCATES = [
        Allocate::Extend, Allocate::KeepSize, Allocate::PunchHole, Allocate::ZeroRange, Allocate::ZeroRangeKeepSize,
    ];
    "kind of a lock" LockKind: lock_kind_number, lock_kind, LOCK_KINDS = [LockKind::Ranges, LockKind::Whole];
    "mode of a lock" LockMode: lock_mode_number, lock_mode, LOCK_MODES = [LockMode::Shared, LockMode::Exclusive];
    "outcome of a lock" Locked: locked_number, locked, OUTCOMES =
        [Locked::Granted, Locked::Refused, Locked::Waits, Locked::Deadlock, Locked::TooMany];
}

const IMMUTABLE: u32 = 1;
const APPEND_ONLY: u32 = 2;
const NO_DUMP: u32 = 4;

pub(crate) fn flag_bits(flags: Flags) -> u32 {
    let bits = [(flags.immutable, IMMUTABLE), (flags.append_only, APPEND_ONLY), (flags.no_dump, NO_DUMP)];
    bits.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum()
}

pub(crate) fn flags(bits: u64) -> Result<Flags> {
    let known = u32::try_from(bits).ok().filter(|bits| bits & !(IMMUTABLE | APPEND_ONLY | NO_DUMP) == 0);
    let bits = known.ok_or_else(|| refused("flags of an inode", &bits, "there are three, in bits 0 to 2"))?;
    let has = |bit| bits & bit != 0;
    Ok(Flags { immutable: has(IMMUTABLE), append_only: has(APPEND_ONLY), no_dump: has(NO_DUMP) })
}

const KILL_SETGID: u32 = 1;
const HIDDEN_USERS: u32 = 2;
const HIDDEN_GROUPS: u32 = 4;

pub(crate) fn set_acl_bits(how: SetAcl) -> u32 {
    let bits = [(how.kill_setgid, KILL_SETGID), (how.hidden.users, HIDDEN_USERS), (how.hidden.groups, HIDDEN_GROUPS)];
    bits.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum()
}

pub(crate) fn set_acl(bits: u32) -> SetAcl {
    let has = |bit| bits & bit != 0;
    SetAcl { kill_setgid: has(KILL_SETGID), hidden: Hidden { users: has(HIDDEN_USERS), groups: has(HIDDEN_GROUPS) } }
}

/// An ACL from its bytes; one without entries is none.
pub(crate) fn acl(bytes: &[u8]) -> Result<Acl> {
    Acl::parse(bytes)?.ok_or_else(|| refused("ACL", "", "it has entries"))
}

impl From<Ownership> for message::Ownership {
    fn from(Ownership { uid, gid, mode, umask }: Ownership) -> Self {
        Self { uid, gid, mode, umask }
    }
}

impl From<message::Ownership> for Ownership {
    fn from(message::Ownership { uid, gid, mode, umask }: message::Ownership) -> Self {
        Self { uid, gid, mode, umask }
    }
}

impl From<SetAttr> for message::SetAttr {
    fn from(set: SetAttr) -> Self {
        let SetAttr { mode, uid, gid, size, atime, mtime, touches, kill_privileges, outsider } = set;
        let (atime, mtime) = (atime.map(|time| time.0), mtime.map(|time| time.0));
        Self { mode, uid, gid, size, atime, mtime, touches, kill_privileges, outsider }
    }
}

impl From<message::SetAttr> for SetAttr {
    fn from(set: message::SetAttr) -> Self {
        let message::SetAttr { mode, uid, gid, size, atime, mtime, touches, kill_privileges, outsider } = set;
        let (atime, mtime) = (atime.map(Timestamp), mtime.map(Timestamp));
        Self { mode, uid, gid, size, atime, mtime, touches, kill_privileges, outsider }
    }
}

impl From<&DirEntry> for message::Entry {
    fn from(entry: &DirEntry) -> Self {
        Self { name: entry.name.clone(), ino: entry.ino, kind: kind_number(entry.kind) }
    }
}

pub(crate) fn entry(entry: message::Entry) -> Result<DirEntry> {
    Ok(DirEntry { name: name(entry.name)?, ino: entry.ino, kind: kind(entry.kind)? })
}

impl From<Attr> for message::Attr {
    fn from(attr: Attr) -> Self {
        let Attr { ino, kind, mode, uid, gid, nlink, size, blocks, rdev, atime, mtime, ctime, btime } = attr;
        let kind = kind_number(kind);
        let (atime, mtime, ctime, btime) = (atime.0, mtime.0, ctime.0, btime.0);
        Self { ino, kind, mode, uid, gid, nlink, size, blocks, rdev, atime, mtime, ctime, btime }
    }
}

pub(crate) fn attr(attr: message::Attr) -> Result<Attr> {
    let message::Attr { ino, mode, uid, gid, nlink, size, blocks, rdev, .. } = attr;
    let kind = kind(attr.kind)?;
    let (atime, mtime) = (Timestamp(attr.atime), Timestamp(attr.mtime));
    let (ctime, btime) = (Timestamp(attr.ctime), Timestamp(attr.btime));
    Ok(Attr { ino, kind, mode, uid, gid, nlink, size, blocks, rdev, atime, mtime, ctime, btime })
}

impl From<Space> for message::Space {
    fn from(Space { total_bytes, used_bytes, free_bytes, inodes }: Space) -> Self {
        Self { total_bytes, used_bytes, free_bytes, inodes }
    }
}

impl From<message::Space> for Space {
    fn from(message::Space { total_bytes, used_bytes, free_bytes, inodes }: message::Space) -> Self {
        Self { total_bytes, used_bytes, free_bytes, inodes }
    }
}
