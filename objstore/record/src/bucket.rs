//! Records of buckets, their branches and snapshots, and their usage.

use std::collections::BTreeMap;

use objstore_base::error::Result;
use prost::Message;

use super::creator::Creator;
use super::decode;
use super::settings::ObjectLock;

/// A bucket.
#[derive(Clone, PartialEq, Message)]
pub struct Bucket {
    /// Never used twice.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its clone group.
    #[prost(uint64, tag = "2")]
    pub clone_group: u64,
    /// The id of its writable branch.
    #[prost(uint32, tag = "3")]
    pub branch: u32,
    /// The id of the account that owns it.
    #[prost(uint64, tag = "4")]
    pub owner: u64,
    /// Its quota in bytes; absent if it has none.
    #[prost(uint64, optional, tag = "5")]
    pub quota_bytes: Option<u64>,
    /// Whether it keeps versions: a [`VersioningState`].
    #[prost(enumeration = "VersioningState", tag = "6")]
    pub versioning: i32,
    /// When it was created, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "7")]
    pub created: i64,
    /// What it was cloned from, if it is a clone.
    #[prost(message, optional, tag = "8")]
    pub source: Option<SourceName>,
    /// Attributes that a provisioner stores with it.
    #[prost(btree_map = "string, string", tag = "9")]
    pub attributes: BTreeMap<String, String>,
    /// The number of changes of its settings; zero if it has no settings record.
    #[prost(uint64, tag = "10")]
    pub settings: u64,
}

/// The most bytes that a bucket holds, with or without a quota: a change of its usage is a signed 64-bit number.
const BYTES_MAX: u64 = i64::MAX as u64;

impl Bucket {
    /// The most bytes that the bucket may hold: the quota, or [`BYTES_MAX`].
    pub fn limit_bytes(&self) -> u64 {
        self.quota_bytes.unwrap_or(BYTES_MAX).min(BYTES_MAX)
    }
}

/// What a bucket was cloned from.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct SourceName {
    /// Whether it is a snapshot rather than a bucket.
    #[prost(bool, tag = "1")]
    pub snapshot: bool,
    /// Its name at that time.
    #[prost(string, tag = "2")]
    pub name: String,
}

/// Whether a bucket keeps versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum VersioningState {
    /// The bucket never kept versions.
    Disabled = 0,
    /// The bucket keeps versions.
    Enabled = 1,
    /// The bucket kept versions, and adds none now.
    Suspended = 2,
}

/// The record of a clone group: the counters that its branches share.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct CloneGroup {
    /// The next inode number.
    #[prost(uint64, tag = "1")]
    pub next_ino: u64,
    /// The next branch id; these ids fall.
    #[prost(uint32, tag = "2")]
    pub next_branch: u32,
    /// The next version order; it falls, so that newer versions sort first.
    #[prost(uint64, tag = "3")]
    pub next_version: u64,
}

/// The record of a branch.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Branch {
    /// The branch it was made from; zero for the first.
    #[prost(uint32, tag = "1")]
    pub parent: u32,
    /// What the branch is: a [`BranchKind`].
    #[prost(enumeration = "BranchKind", tag = "2")]
    pub kind: i32,
    /// When it was made, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "3")]
    pub created: i64,
}

/// What a branch is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum BranchKind {
    /// Not set: the record is damaged.
    None = 0,
    /// A bucket's writable branch.
    Live = 1,
    /// A snapshot's branch.
    Snapshot = 2,
    /// A branch that only its descendants read.
    Interior = 3,
    /// A deleted branch that is to be collected.
    Dead = 4,
}

/// The record of a snapshot.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Snapshot {
    /// Its clone group.
    #[prost(uint64, tag = "1")]
    pub clone_group: u64,
    /// Its branch.
    #[prost(uint32, tag = "2")]
    pub branch: u32,
    /// The id of the bucket it was taken of.
    #[prost(uint64, tag = "3")]
    pub bucket: u64,
    /// The bucket's name at that time.
    #[prost(string, tag = "4")]
    pub bucket_name: String,
    /// When it was taken, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "5")]
    pub created: i64,
    /// Never used twice.
    #[prost(uint64, tag = "6")]
    pub id: u64,
    /// The account that owned the bucket.
    #[prost(uint64, tag = "7")]
    pub owner: u64,
    /// The bucket's [`VersioningState`] at that time.
    #[prost(enumeration = "VersioningState", tag = "8")]
    pub versioning: i32,
    /// The bucket's object lock at that time.
    #[prost(message, optional, tag = "9")]
    pub object_lock: Option<ObjectLock>,
    /// Who took it: a [`Creator`].
    #[prost(enumeration = "Creator", tag = "10")]
    pub creator: i32,
    /// The group snapshot that it belongs to; empty if it was taken alone.
    #[prost(string, tag = "11")]
    pub group: String,
}

/// The record of a group snapshot: an index of the snapshots that name the group.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct GroupSnapshot {
    /// The names of its snapshots, in order.
    #[prost(string, repeated, tag = "1")]
    pub snapshots: Vec<String>,
}

/// The record of a branch's usage.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Usage {
    /// The sum of all file sizes, in bytes.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
    /// The number of inodes.
    #[prost(uint64, tag = "2")]
    pub inodes: u64,
    /// The bytes of parts of uploads in progress.
    #[prost(uint64, tag = "3")]
    pub upload_bytes: u64,
    /// The number of current objects, as a listing counts them; without `counted`, only by how much it changed.
    #[prost(sint64, tag = "4")]
    pub objects: i64,
    /// The number of current objects that a mount cannot show; without `counted`, only by how much it changed.
    #[prost(sint64, tag = "5")]
    pub hidden: i64,
    /// Whether `objects` and `hidden` cover the whole tree. In a record that an earlier version wrote they hold the
    /// changes since, until the tree is counted once.
    #[prost(bool, tag = "6")]
    pub counted: bool,
}

impl Usage {
    /// The usage of an empty tree, for which there is no record.
    pub const EMPTY: Self = Self { bytes: 0, inodes: 0, upload_bytes: 0, objects: 0, hidden: 0, counted: true };

    /// Decodes a branch's usage record; without a record the tree is empty.
    ///
    /// # Errors
    /// [`Error::Corrupt`](objstore_base::error::Error::Corrupt) if the record cannot be decoded.
    pub fn recorded(value: Option<impl AsRef<[u8]>>) -> Result<Self> {
        value.map_or(Ok(Self::EMPTY), |value| decode("usage", value.as_ref()))
    }

    /// The numbers of objects and of hidden keys, if they are counted.
    pub fn keys(&self) -> Option<(u64, u64)> {
        self.counted.then(|| (self.objects.max(0).unsigned_abs(), self.hidden.max(0).unsigned_abs()))
    }
}
