//! Fixes: what a repair does about each problem. They are collected while checking and carried out by
//! [`repair`](super::repair).

use bytes::Bytes;

use crate::meta::Pair;
use crate::record::bucket::Usage;
use crate::record::inode::InodeKind;
use crate::record::key::{Branch, CloneGroup};

/// One fix.
#[derive(Clone, Debug)]
pub(super) enum Fix {
    /// Writes a record that follows from others, or removes it if there is no value.
    Record { key: Vec<u8>, value: Option<Vec<u8>>, done: String },
    /// Moves an unreadable record to a file in `quarantine/`, and writes its replacement if one follows from others.
    Aside { key: Vec<u8>, was: Bytes, value: Option<Vec<u8>>, done: String },
    /// The record of a name cannot be read.
    Name { key: Vec<u8>, tree: Seat, parent: u64, sort_name: String },
    /// The record of a version that is not current cannot be read.
    Version { key: Vec<u8>, tree: Seat, name: String, order: u64 },
    /// The record of an extent cannot be read.
    Extent { key: Vec<u8>, why: String },
    /// An unreadable inode that no tree shows.
    Unseen { key: Vec<u8>, why: String },
    /// Gives an orphan branch a name.
    Found(Found),
    /// The reference count of a blob.
    References { blob: u64, refs: u32 },
    /// A referenced blob without a record.
    MissingBlob { blob: u64, refs: u32 },
    /// An unreferenced blob.
    Orphan { blob: u64 },
    /// The usage of a branch: everything except uploads, or the bytes of uploads.
    Usage { tree: Seat, held: Option<Usage>, uploads: Option<u64> },
    /// The counts of an inode, as a tree sees it.
    Counts { tree: Seat, ino: u64, counts: Counts },
    /// How long the paths below a directory are at most.
    Reach { tree: Seat, ino: u64, length: u32 },
    /// The name of an inode carries wrong attributes for listings.
    Shown { tree: Seat, ino: u64 },
    /// The record of an inode cannot be read.
    Unreadable { key: Vec<u8>, tree: Seat, ino: u64, why: String },
    /// Names lead to a missing inode.
    NoInode { tree: Seat, ino: u64 },
    /// An inode without a name.
    NoName { tree: Seat, ino: u64 },
    /// A blob's bytes do not match its checksums.
    Content { blob: u64, why: String },
    /// A segment that cannot be scanned.
    Segment { segment: u64, why: String },
}

/// An orphan branch, whose bucket or snapshot lost its record.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The name that it gets.
    pub name: String,
    /// The id that leads to the name, if one does.
    pub id: Option<u64>,
    pub clone_group: CloneGroup,
    pub branch: Branch,
    /// Whether it belongs to a snapshot.
    pub snapshot: bool,
    /// Time of creation of the branch.
    pub created: i64,
    /// The account that owns it from now on.
    pub owner: u64,
    /// Whether it contains versions.
    pub versions: bool,
    /// Whether it contains locked versions.
    pub locked: bool,
}

/// The position of a tree of a bucket or snapshot.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    /// Its description for messages.
    pub what: String,
    pub clone_group: CloneGroup,
    pub branch: Branch,
}

/// The counts of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub kind: InodeKind,
    /// Number of names; for a directory, two plus its subdirectories.
    pub nlink: u32,
    /// For a directory: number of its names.
    pub entries: u64,
    /// For a directory: number of its names that S3 sees.
    pub keys: u64,
}

impl Fix {
    /// A fix that writes a record which follows from others.
    pub(super) fn put(key: Vec<u8>, value: Vec<u8>, done: String) -> Self {
        Self::Record { key, value: Some(value), done }
    }

    /// A fix that removes a meaningless record.
    pub(super) fn remove(key: Vec<u8>, done: String) -> Self {
        Self::Record { key, value: None, done }
    }

    /// A fix that quarantines a record, with an optional replacement.
    pub(super) fn quarantine_record(pair: &Pair, value: Option<Vec<u8>>, done: String) -> Self {
        Self::Aside { key: pair.key.to_vec(), was: pair.value.clone(), value, done }
    }

    /// Whether other records have to be recounted afterwards.
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
            Self::Counts { .. }
            | Self::Reach { .. }
            | Self::Shown { .. }
            | Self::Content { .. }
            | Self::Segment { .. } => false,
        }
    }
}

impl super::Root {
    /// The tree's position.
    pub(super) fn seat(&self) -> Seat {
        Seat { what: self.what.clone(), clone_group: self.clone_group, branch: self.branch }
    }
}
