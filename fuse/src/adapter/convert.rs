//! Conversions between the FUSE protocol's types and the file system's types.

use objstore_base::clock::Timestamp;
use objstore_files::{Attr, HeldLock, Kind, LockKind, LockMode, LockOwner, LockRange};
use rustix::io::Errno;

use crate::caller::Caller;
use crate::errno::Result;
use crate::ops::attributes::{Wanted, When};
use crate::ops::locks::LockCall;
use crate::stats::Op;
use crate::wire::{self, Attributes, Context, FileLock, LockReply, LockType, Operation, Request, SetAttr, Time};

/// The unit of statfs(2), and the block size shown.
pub(super) const BLOCK_BYTES: u32 = 4096;

/// The caller of a request, whose process is known only if this process sees it under the same number.
pub(super) fn caller(context: &Context, is_seen: bool) -> Caller {
    Caller::new(context.uid, context.gid, if is_seen { context.pid } else { 0 })
}

/// The caller as the store gets to know it.
pub(super) fn told_caller(context: &Context) -> objstore_files::Caller {
    objstore_files::Caller { uid: context.uid, gid: context.gid, pid: context.pid }
}

pub(super) fn wanted(set: &SetAttr) -> Wanted {
    Wanted {
        mode: set.mode,
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        atime: set.atime.map(when),
        mtime: set.mtime.map(when),
        kill_privileges: set.kill_privileges,
    }
}

fn when(when: wire::When) -> When {
    match when {
        wire::When::Now => When::Now,
        wire::When::At(time) => When::At(Timestamp::from_parts(time.seconds, time.nanos)),
    }
}

pub(super) fn time(time: Timestamp) -> Time {
    let (seconds, nanos) = time.parts();
    Time { seconds, nanos }
}

pub(super) fn attributes(attr: &Attr) -> Attributes {
    Attributes {
        node: attr.ino,
        size: attr.size,
        blocks: attr.blocks,
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        mode: type_bits(attr.kind) | attr.mode & 0o7777,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        block_bytes: BLOCK_BYTES,
    }
}

/// A lock of a node, or its end.
pub(super) fn lock_call(node: u64, lock: FileLock) -> Result<LockCall> {
    let FileLock { handle, owner, first, last, lock_type, pid, is_flock } = lock;
    let mode = match lock_type {
        LockType::Shared => Some(LockMode::Shared),
        LockType::Exclusive => Some(LockMode::Exclusive),
        LockType::Unlocked => None,
    };
    let kind = if is_flock { LockKind::Whole } else { LockKind::Ranges };
    let range = LockRange::new(first, last).ok_or(Errno::INVAL)?;
    Ok(LockCall { node, by: LockOwner { owner, handle, pid }, kind, range, mode })
}

/// The lock that a request waits for, if it is one that waits.
pub(super) fn awaited_lock(request: &Request<'_>) -> Option<(LockCall, LockMode)> {
    let Operation::SetLock { lock, wait: true } = request.operation else { return None };
    let call = lock_call(request.context.node, lock).ok()?;
    call.mode.map(|mode| (call, mode))
}

/// The reply to a question for the lock that is in the way.
pub(super) fn lock_reply(held: Option<HeldLock>) -> LockReply {
    let Some(HeldLock { mode, range, pid }) = held else {
        return LockReply { first: 0, last: 0, lock_type: LockType::Unlocked, pid: 0 };
    };
    let lock_type = if mode == LockMode::Shared { LockType::Shared } else { LockType::Exclusive };
    LockReply { first: range.first(), last: range.last(), lock_type, pid }
}

fn type_bits(kind: Kind) -> u32 {
    match kind {
        Kind::File => libc::S_IFREG,
        Kind::Directory => libc::S_IFDIR,
        Kind::Symlink => libc::S_IFLNK,
        Kind::Fifo => libc::S_IFIFO,
        Kind::Socket => libc::S_IFSOCK,
        Kind::CharDevice => libc::S_IFCHR,
        Kind::BlockDevice => libc::S_IFBLK,
    }
}

/// The file type as readdir(3) reports it.
pub(super) fn listed_kind(kind: Kind) -> u32 {
    type_bits(kind) >> 12
}

/// The statistics counter of an operation.
pub(super) fn op(operation: &Operation<'_>) -> Option<Op> {
    Some(match operation {
        Operation::Lookup(_) => Op::Lookup,
        Operation::Forget(_) | Operation::BatchForget(_) => Op::Forget,
        Operation::GetAttr => Op::GetAttr,
        Operation::StatX => Op::StatX,
        Operation::SetAttr(_) => Op::SetAttr,
        Operation::ReadLink => Op::ReadLink,
        Operation::SymLink { .. } | Operation::MakeNode { .. } | Operation::MakeDir(_) => Op::Make,
        Operation::Unlink(_) => Op::Unlink,
        Operation::RemoveDir(_) => Op::RemoveDir,
        Operation::Rename { .. } => Op::Rename,
        Operation::Link { .. } => Op::Link,
        Operation::Open { .. } => Op::Open,
        Operation::Create { .. } => Op::Create,
        Operation::TmpFile { .. } => Op::MakeUnnamed,
        Operation::Read { .. } => Op::Read,
        Operation::Write(_) => Op::Write,
        Operation::Flush { .. } => Op::Flush,
        Operation::Release { .. } => Op::Release,
        Operation::Sync { .. } | Operation::SyncDir => Op::Sync,
        Operation::SyncFs => Op::SyncFs,
        Operation::OpenDir => Op::OpenDir,
        Operation::ReadDir(_) => Op::ReadDir,
        Operation::ReadDirPlus(_) => Op::ReadDirPlus,
        Operation::ReleaseDir { .. } => Op::ReleaseDir,
        Operation::StatFs => Op::StatFs,
        Operation::SetXattr { .. } => Op::SetXattr,
        Operation::GetXattr { .. } => Op::GetXattr,
        Operation::ListXattr { .. } => Op::ListXattr,
        Operation::RemoveXattr(_) => Op::RemoveXattr,
        Operation::Allocate { .. } => Op::Allocate,
        Operation::Seek { .. } => Op::Seek,
        Operation::CopyRange(_) => Op::CopyRange,
        Operation::Ioctl { .. } => Op::Ioctl,
        Operation::GetLock(_) | Operation::SetLock { .. } => Op::Lock,
        Operation::Init
        | Operation::Interrupt(_)
        | Operation::Destroy
        | Operation::NotifyReply
        | Operation::Refused(_)
        | Operation::Unknown(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_come_back_as_they_were_sent() {
        let sent = Time { seconds: -2, nanos: 250_000_000 };
        let When::At(kept) = when(wire::When::At(sent)) else { panic!() };
        assert_eq!(kept, Timestamp(-1_750_000_000));
        assert_eq!(time(kept), sent);
    }

    #[test]
    fn kinds_are_those_of_readdir() {
        let kinds = [(Kind::File, libc::DT_REG), (Kind::Directory, libc::DT_DIR), (Kind::Socket, libc::DT_SOCK)];
        for (kind, expected) in kinds {
            assert_eq!(listed_kind(kind), u32::from(expected));
        }
    }
}
