//! Fixes: what a repair does about each problem. They are collected while checking and carried out by
//! [`repair`](super::repair).

use bytes::Bytes;

use crate::meta::Pair;
use crate::record::bucket::Usage;
use crate::record::inode::InodeKind;
use crate::record::key::{Branch, Family};

/// One thing to mend.
#[derive(Clone, Debug)]
pub(super) enum Fix {
    /// A record follows from others: written, or removed if there is no value.
    Record { key: Vec<u8>, value: Option<Vec<u8>>, done: String },
    /// A record that cannot be read goes to a file in `quarantine/`, and a value that follows from others takes its place,
    /// if there is one.
    Aside { key: Vec<u8>, was: Bytes, value: Option<Vec<u8>>, done: String },
    /// The record of a name cannot be read.
    Name { key: Vec<u8>, tree: Seat, parent: u64, sort_name: String },
    /// The record of a version that is not current cannot be read.
    Version { key: Vec<u8>, tree: Seat, name: String, order: u64 },
    /// The record of an extent cannot be read.
    Extent { key: Vec<u8>, why: String },
    /// An inode that cannot be read and that no tree shows.
    Unseen { key: Vec<u8>, why: String },
    /// A branch that nobody shows gets a name.
    Found(Found),
    /// A blob's count of references.
    References { blob: u64, refs: u32 },
    /// Something refers to a blob that has no record.
    MissingBlob { blob: u64, refs: u32 },
    /// Nothing refers to a blob.
    Orphan { blob: u64 },
    /// What a branch holds: all but uploads, or bytes of uploads.
    Usage { tree: Seat, held: Option<Usage>, uploads: Option<u64> },
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

/// A branch whose bucket or snapshot lost its record.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The name it gets.
    pub name: String,
    /// The id that leads to the name, if one does.
    pub id: Option<u64>,
    pub family: Family,
    pub branch: Branch,
    /// Whether it is a snapshot's.
    pub snapshot: bool,
    /// When the branch was made.
    pub created: i64,
    /// The account that has it from now on.
    pub owner: u64,
    /// Whether there are versions in it.
    pub versions: bool,
    /// Whether something in it is locked.
    pub locked: bool,
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

    /// Sets a record aside, for a value in its place or none.
    pub(super) fn aside(pair: &Pair, value: Option<Vec<u8>>, done: String) -> Self {
        Self::Aside { key: pair.key.to_vec(), was: pair.value.clone(), value, done }
    }

    /// Whether others have to be counted again once this is done.
    pub(super) fn is_structural(&self) -> bool {
        match self {
            Self::Aside { .. }
            | Self::Name { .. }
            | Self::Version { .. }
            | Self::Extent { .. }
            | Self::Unseen { .. } => true,
            Self::Found(_)
            | Self::Unreadable { .. }
            | Self::NoInode { .. }
            | Self::NoName { .. }
            | Self::MissingBlob { .. } => true,
            Self::Record { .. } | Self::References { .. } | Self::Orphan { .. } | Self::Usage { .. } => false,
            Self::Counts { .. } | Self::Shown { .. } | Self::Content { .. } | Self::Segment { .. } => false,
        }
    }
}

impl super::Root {
    /// Where it is.
    pub(super) fn seat(&self) -> Seat {
        Seat { what: self.what.clone(), family: self.family, branch: self.branch }
    }
}
