//! Buckets and snapshots: requests and results.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::name::{BucketName, Hidden};
use crate::record::creator::Creator;

/// Whether a bucket keeps the versions of its objects (S3 API, PutBucketVersioning).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versioning {
    /// Never enabled: one version per key.
    #[default]
    Disabled,
    /// Each change keeps the version before it.
    Enabled,
    /// Versions made before stay; new ones replace the `null` version.
    Suspended,
}

/// A bucket, as others may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its name.
    pub name: BucketName,
    /// Never used twice, so a bucket made anew under an old name is told from the old one.
    pub id: u64,
    /// The account that owns it, by name.
    pub owner: String,
    /// The most bytes it may hold.
    pub quota_bytes: Option<u64>,
    /// Whether it keeps versions.
    pub versioning: Versioning,
    /// When it was made.
    pub created: Timestamp,
    /// The snapshot or bucket it was cloned from, for display.
    pub source: Option<String>,
    /// What a provisioner keeps with it (for example the parameters it was made with).
    pub attributes: BTreeMap<String, String>,
    /// Set if this is a snapshot read under its own name: nothing can be written.
    pub snapshot: bool,
}

/// What a new bucket starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The state a snapshot holds.
    Snapshot(String),
    /// The state a bucket has now.
    Bucket(BucketName),
}

impl Source {
    /// The name of the snapshot or bucket.
    pub fn name(&self) -> &str {
        match self {
            Self::Snapshot(name) => name,
            Self::Bucket(name) => name.as_str(),
        }
    }
}

/// A request for a bucket.
#[derive(Clone, Debug)]
pub struct CreateBucket {
    /// Its name.
    pub name: BucketName,
    /// The owning account, by name.
    pub owner: String,
    /// The most bytes it may hold.
    pub quota_bytes: Option<u64>,
    /// Whether it keeps versions.
    pub versioning: Versioning,
    /// Clone this instead of starting empty.
    pub source: Option<Source>,
    /// Kept with the bucket; compared when the same name is asked for again.
    pub attributes: BTreeMap<String, String>,
    /// Owner, group and permission bits of the root directory.
    pub root: RootAttributes,
}

/// The root directory of a new bucket, as mounts show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootAttributes {
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its permission bits.
    pub mode: u32,
}

impl Default for RootAttributes {
    fn default() -> Self {
        Self { uid: 0, gid: 0, mode: 0o755 }
    }
}

/// Whether a request made the thing or found it made as asked before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Made by this request.
    Made,
    /// An earlier request made the same.
    Found,
}

/// Changes to a bucket; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct SetBucket {
    /// A new quota (`Some(None)`: no quota any more).
    pub quota_bytes: Option<Option<u64>>,
    /// A new versioning state.
    pub versioning: Option<Versioning>,
    /// Attributes to add or replace.
    pub attributes: BTreeMap<String, String>,
}

/// Whether a bucket that still holds something may be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// Only if it holds no object, version or delete marker (S3 API, DeleteBucket). What only mounts see does not count and
    /// goes with it, nor do uploads under way.
    IfNoObjects,
    /// Only if it is empty for S3 and for mounts. Uploads under way do not count: they are dropped.
    IfEmpty,
    /// With all that it holds, unless object lock protects some of it; snapshots of it stay.
    Force,
}

/// What a bucket holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Sum of the sizes of its files, in bytes.
    pub bytes: u64,
    /// Its files, directories and symlinks.
    pub inodes: u64,
    /// Bytes of multipart uploads under way.
    pub upload_bytes: u64,
    /// Its current objects, as a listing counts them; none in a clone of a snapshot that an earlier version took, until
    /// the store is opened again.
    pub objects: Option<u64>,
    /// Those of its current objects that a mount cannot show; none where `objects` is.
    pub hidden: Option<u64>,
    /// The most bytes it may hold.
    pub limit_bytes: Option<u64>,
}

/// A snapshot of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Its name, one for all snapshots and buckets.
    pub name: String,
    /// The bucket it was taken of (which may be gone by now).
    pub bucket: BucketName,
    /// When it was taken.
    pub created: Timestamp,
    /// Sum of the sizes of the files it holds, in bytes.
    pub size_bytes: u64,
    /// Who took it.
    pub creator: Creator,
}

/// A key that a mount cannot show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenKey {
    /// The key.
    pub key: String,
    /// Why.
    pub why: Hidden,
}

/// A page of keys that a mount cannot show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenPage {
    /// The keys.
    pub keys: Vec<HiddenKey>,
    /// The key to go on after; none at the end.
    pub next: Option<String>,
}
