//! What a repair does about a problem: collected while checking, carried out by [`repair`](super::repair).

use crate::record::inode::InodeKind;
use crate::record::key::{Branch, Family};

/// One thing to mend.
#[derive(Clone, Debug)]
pub(super) enum Fix {
    /// A record follows from others: written, or removed if there is no value.
    Record { key: Vec<u8>, value: Option<Vec<u8>>, done: String },
    /// A blob's count of references.
    References { blob: u64, refs: u32 },
    /// Something refers to a blob that has no record.
    MissingBlob { blob: u64, refs: u32 },
    /// Nothing refers to a blob.
    Orphan { blob: u64 },
    /// What a branch holds: bytes and inodes, or bytes of uploads.
    Usage { tree: Seat, held: Option<(u64, u64)>, uploads: Option<u64> },
    /// An inode's counts, as a tree sees it.
    Counts { tree: Seat, ino: u64, counts: Counts },
    /// The name of an inode shows something else in listings than the inode says.
    Shown { tree: Seat, ino: u64 },
    /// The record of an inode cannot be read.
    Unreadable { key: Vec<u8>, tree: Seat, ino: u64, why: String },
    /// Names lead to an inode that is not there.
    NoInode { tree: Seat, ino: u64 },
    /// No name leads to an inode.
    NoName { tree: Seat, ino: u64 },
    /// A blob's bytes are not what was written.
    Content { blob: u64, why: String },
    /// A segment cannot be walked.
    Segment { segment: u64, why: String },
}

/// A tree somebody reads, by where it is.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    /// For people.
    pub what: String,
    pub family: Family,
    pub branch: Branch,
}

/// What an inode counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub kind: InodeKind,
    /// Names, or of a directory two and the directories in it.
    pub nlink: u32,
    /// Of a directory: names in it.
    pub entries: u64,
    /// Of a directory: names in it that S3 sees.
    pub keys: u64,
}

impl Fix {
    /// Writes a record that follows from others.
    pub(super) fn put(key: Vec<u8>, value: Vec<u8>, done: String) -> Self {
        Self::Record { key, value: Some(value), done }
    }

    /// Removes a record that means nothing.
    pub(super) fn remove(key: Vec<u8>, done: String) -> Self {
        Self::Record { key, value: None, done }
    }

    /// Whether others have to be counted again once this is done.
    pub(super) fn is_structural(&self) -> bool {
        matches!(self, Self::Unreadable { .. } | Self::NoInode { .. } | Self::NoName { .. } | Self::MissingBlob { .. })
    }
}

impl super::Root {
    /// Where it is.
    pub(super) fn seat(&self) -> Seat {
        Seat { what: self.what.clone(), family: self.family, branch: self.branch }
    }
}
