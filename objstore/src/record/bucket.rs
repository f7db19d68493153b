//! Records of buckets, their branches and snapshots, and their usage.

use std::collections::BTreeMap;

use prost::Message;

use super::creator::Creator;
use super::decode;
use super::settings::ObjectLock;
use crate::error::Result;

/// A bucket.
#[derive(Clone, PartialEq, Message)]
pub struct Bucket {
    /// Never used twice.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its family.
    #[prost(uint64, tag = "2")]
    pub family: u64,
    /// The live branch it shows.
    #[prost(uint32, tag = "3")]
    pub branch: u32,
    /// The owning account's id.
    #[prost(uint64, tag = "4")]
    pub owner: u64,
    /// The most bytes it may hold.
    #[prost(uint64, optional, tag = "5")]
    pub quota_bytes: Option<u64>,
    /// Whether it keeps versions.
    #[prost(enumeration = "VersioningState", tag = "6")]
    pub versioning: i32,
    /// Made, nanoseconds since 1970.
    #[prost(sfixed64, tag = "7")]
    pub created: i64,
    /// The kind and name of what it was cloned from.
    #[prost(message, optional, tag = "8")]
    pub source: Option<SourceName>,
    /// What a provisioner keeps with it.
    #[prost(btree_map = "string, string", tag = "9")]
    pub attributes: BTreeMap<String, String>,
    /// Changes of its settings, counted; zero: it has no settings record.
    #[prost(uint64, tag = "10")]
    pub settings: u64,
}

/// The most bytes a bucket holds, quota or not: any change of what it uses is a number of 63 bits and a sign.
const BYTES_MAX: u64 = i64::MAX as u64;

impl Bucket {
    /// The most bytes it may hold.
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
    /// Its name then.
    #[prost(string, tag = "2")]
    pub name: String,
}

/// Whether a bucket keeps versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum VersioningState {
    /// Never did.
    Disabled = 0,
    /// Does.
    Enabled = 1,
    /// Did.
    Suspended = 2,
}

/// What the branches of a family share.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Family {
    /// The next inode number.
    #[prost(uint64, tag = "1")]
    pub next_ino: u64,
    /// The next branch id; they fall.
    #[prost(uint32, tag = "2")]
    pub next_branch: u32,
    /// The next version order; it falls.
    #[prost(uint64, tag = "3")]
    pub next_version: u64,
}

/// A branch.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Branch {
    /// The branch it came from; zero for the first.
    #[prost(uint32, tag = "1")]
    pub parent: u32,
    /// What it is.
    #[prost(enumeration = "BranchKind", tag = "2")]
    pub kind: i32,
    /// Made, nanoseconds since 1970.
    #[prost(sfixed64, tag = "3")]
    pub created: i64,
}

/// What a branch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum BranchKind {
    /// Not set: the record is damaged.
    None = 0,
    /// A bucket writes it.
    Live = 1,
    /// A snapshot reads it.
    Snapshot = 2,
    /// Only its descendants read it.
    Interior = 3,
    /// Deleted: to be collected.
    Dead = 4,
}

/// A snapshot.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Snapshot {
    /// Its family.
    #[prost(uint64, tag = "1")]
    pub family: u64,
    /// Its branch.
    #[prost(uint32, tag = "2")]
    pub branch: u32,
    /// The id of the bucket it was taken of.
    #[prost(uint64, tag = "3")]
    pub bucket: u64,
    /// The name of that bucket then.
    #[prost(string, tag = "4")]
    pub bucket_name: String,
    /// Taken, nanoseconds since 1970.
    #[prost(sfixed64, tag = "5")]
    pub created: i64,
    /// Never used twice.
    #[prost(uint64, tag = "6")]
    pub id: u64,
    /// The account that owned the bucket.
    #[prost(uint64, tag = "7")]
    pub owner: u64,
    /// Whether the bucket kept versions then.
    #[prost(enumeration = "VersioningState", tag = "8")]
    pub versioning: i32,
    /// The object lock the bucket had then.
    #[prost(message, optional, tag = "9")]
    pub object_lock: Option<ObjectLock>,
    /// Who took it.
    #[prost(enumeration = "Creator", tag = "10")]
    pub creator: i32,
}

/// What a branch holds.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Usage {
    /// Sum of file sizes.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
    /// Inodes.
    #[prost(uint64, tag = "2")]
    pub inodes: u64,
    /// Bytes of parts of uploads under way.
    #[prost(uint64, tag = "3")]
    pub upload_bytes: u64,
    /// Current objects, as a listing counts them. Without `counted`: by how much they changed.
    #[prost(sint64, tag = "4")]
    pub objects: i64,
    /// Those of them that a mount cannot show. Without `counted`: by how much they changed.
    #[prost(sint64, tag = "5")]
    pub hidden: i64,
    /// Whether `objects` and `hidden` count the whole tree. In a record that an earlier version wrote they count the
    /// changes since, until the tree is counted once.
    #[prost(bool, tag = "6")]
    pub counted: bool,
}

impl Usage {
    /// The usage of an empty tree, which needs no record.
    pub const EMPTY: Self = Self { bytes: 0, inodes: 0, upload_bytes: 0, objects: 0, hidden: 0, counted: true };

    /// The usage that a branch's record says; without a record the tree is empty.
    ///
    /// # Errors
    /// Corruption, if the record cannot be decoded.
    pub fn recorded(value: Option<impl AsRef<[u8]>>) -> Result<Self> {
        value.map_or(Ok(Self::EMPTY), |value| decode("usage", value.as_ref()))
    }

    /// Objects and hidden keys, where they are counted.
    pub fn keys(&self) -> Option<(u64, u64)> {
        self.counted.then(|| (self.objects.max(0).unsigned_abs(), self.hidden.max(0).unsigned_abs()))
    }
}
