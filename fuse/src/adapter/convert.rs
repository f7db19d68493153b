//! Between the protocol's types and ours.

use std::time::{SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, Request, TimeOrNow};
use objstore::clock::Timestamp;
use objstore::volume::{Attr, Kind};

use crate::ops::attributes::When;
use crate::view::Caller;

/// The unit of statfs(2), and the block size shown.
pub(super) const BLOCK_BYTES: u32 = 4096;

pub(super) fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid() }
}

pub(super) fn when(time: TimeOrNow) -> When {
    match time {
        TimeOrNow::Now => When::Now,
        TimeOrNow::SpecificTime(time) => When::At(timestamp(time)),
    }
}

/// Before 1970, `fuser` 0.18 takes the nanoseconds away where the protocol adds them to the seconds: undone here.
pub(super) fn timestamp(time: SystemTime) -> Timestamp {
    let (seconds, nanos) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            (i64::try_from(before.as_secs()).map_or(i64::MIN, |seconds| -seconds), before.subsec_nanos())
        }
    };
    Timestamp::from_parts(seconds, nanos)
}

pub(super) fn file_attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino),
        size: attr.size,
        blocks: attr.blocks,
        atime: attr.atime.into(),
        mtime: attr.mtime.into(),
        ctime: attr.ctime.into(),
        crtime: attr.btime.into(),
        kind: file_type(attr.kind),
        perm: u16::try_from(attr.mode & 0o7777).unwrap_or(0),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

/// Node 0 is the absence of the name, cached like its presence.
pub(super) fn entry_attr(found: Option<&Attr>) -> FileAttr {
    found.map_or_else(|| bare_attr(0, Kind::File), file_attr)
}

/// A node of which only number and kind matter.
pub(super) fn bare_attr(node: u64, kind: Kind) -> FileAttr {
    FileAttr {
        ino: INodeNo(node),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: file_type(kind),
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

pub(super) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_before_1970_come_back_as_they_were_sent() {
        // The protocol's (-2 s, 0.25 s) is 1.75 s before 1970; `fuser` makes it 2.25 s before.
        let as_fuser = UNIX_EPOCH - Duration::new(2, 250_000_000);
        assert_eq!(timestamp(as_fuser), Timestamp(-1_750_000_000));
        assert_eq!(timestamp(UNIX_EPOCH + Duration::new(2, 5)), Timestamp(2_000_000_005));
    }
}
