//! Buckets and snapshots: requests and results.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::name::BucketName;
use crate::record::creator::Creator;

/// The versioning state of a bucket (S3 API, PutBucketVersioning).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versioning {
    /// Never enabled: one version per key.
    #[default]
    Disabled,
    /// Each change keeps the previous version.
    Enabled,
    /// Earlier versions stay; new ones replace the `null` version.
    Suspended,
}

/// A bucket as its users see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its name.
    pub name: BucketName,
    /// Its id, never reused: a later bucket of the same name has another.
    pub id: u64,
    /// The account that owns it, by name.
    pub owner: String,
    /// The quota in bytes.
    pub quota_bytes: Option<u64>,
    /// Its versioning state.
    pub versioning: Versioning,
    /// Time of creation.
    pub created: Timestamp,
    /// The snapshot or bucket it was cloned from, for display.
    pub source: Option<String>,
    /// Attributes of a provisioner, such as the parameters it was created with.
    pub attributes: BTreeMap<String, String>,
    /// Whether this is a snapshot read under its own name, which cannot be written.
    pub snapshot: bool,
}

/// The source of a clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A snapshot.
    Snapshot(String),
    /// The current state of a bucket.
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

/// A request to create a bucket.
#[derive(Clone, Debug)]
pub struct CreateBucket {
    /// Its name.
    pub name: BucketName,
    /// The owning account, by name.
    pub owner: String,
    /// The quota in bytes.
    pub quota_bytes: Option<u64>,
    /// Its versioning state.
    pub versioning: Versioning,
    /// Clone this instead of starting empty.
    pub source: Option<Source>,
    /// Attributes to store, and to compare when the same name is requested again.
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

/// Whether a request created the resource or found it as created by an identical request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Created by this request.
    Made,
    /// Created by an earlier, identical request.
    Found,
}

/// Changes to a bucket; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct SetBucket {
    /// A new quota; `Some(None)` removes it.
    pub quota_bytes: Option<Option<u64>>,
    /// A new versioning state.
    pub versioning: Option<Versioning>,
    /// Attributes to add or replace.
    pub attributes: BTreeMap<String, String>,
}

/// A copy of the objects below a prefix into a new bucket, page by page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The bucket to fill.
    pub bucket: BucketName,
    /// Its id: another bucket of the name is not filled.
    pub id: u64,
    /// The bucket or snapshot to copy from.
    pub source: BucketName,
    /// Its id: another one of the name is not read.
    pub source_id: u64,
    /// The prefix of the keys to copy, which their copies do not have.
    pub prefix: String,
    /// The attribute that the bucket has until it is whole. At its creation it has the value of [`Fill::mark`].
    pub attribute: String,
}

/// A change of the root directory of a bucket; `None` leaves a field as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RootChange {
    /// A new owner.
    pub uid: Option<u32>,
    /// A new group.
    pub gid: Option<u32>,
    /// New permission bits.
    pub mode: Option<u32>,
}

/// Changes to a bucket that are made together; `None` leaves a field as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modification {
    /// A new versioning state.
    pub versioning: Option<Versioning>,
    /// The root directory, as mounts show it.
    pub root: RootChange,
    /// After how many days noncurrent versions expire, by a lifecycle rule of its own; `Some(None)` is never.
    pub noncurrent_days: Option<Option<u32>>,
    /// After how many days uploads in progress are aborted, by the same rule; `Some(None)` is never.
    pub abort_upload_days: Option<Option<u32>>,
}

/// Which buckets a deletion accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// Only one without objects, versions or delete markers (S3 API, DeleteBucket). Entries that only mounts see do not
    /// count and are deleted with it, as are uploads in progress.
    IfNoObjects,
    /// Only one that is empty for S3 and for mounts. Uploads in progress do not count and are aborted.
    IfEmpty,
    /// Any, with all its content, unless object lock protects some of it; its snapshots stay.
    Force,
}

/// The usage of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Sum of the sizes of its files, in bytes.
    pub bytes: u64,
    /// Its files, directories and symlinks.
    pub inodes: u64,
    /// Bytes of multipart uploads in progress.
    pub upload_bytes: u64,
    /// Its current objects, as a listing counts them; `None` in a clone of a snapshot from an earlier version, until
    /// the store is opened again.
    pub objects: Option<u64>,
    /// The hidden keys among its current objects; `None` if `objects` is.
    pub hidden: Option<u64>,
    /// The quota in bytes.
    pub limit_bytes: Option<u64>,
}

/// A snapshot of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Its name, unique among all snapshots and buckets.
    pub name: String,
    /// Its id: of two snapshots, the later one has the larger id.
    pub id: u64,
    /// The bucket it was taken from, which may be deleted.
    pub bucket: BucketName,
    /// The id of that bucket: a later bucket of the same name has another.
    pub bucket_id: u64,
    /// Time of creation.
    pub created: Timestamp,
    /// Sum of the sizes of the files it holds, in bytes.
    pub size_bytes: u64,
    /// The creator.
    pub creator: Creator,
    /// The group snapshot that it belongs to, if it was not taken alone.
    pub group: Option<String>,
}

/// A bucket of a group snapshot, and the name of the snapshot that is taken of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// The bucket.
    pub bucket: BucketName,
    /// The name of its snapshot.
    pub snapshot: BucketName,
}

/// Snapshots of several buckets, taken at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSnapshotInfo {
    /// Its name, unique among group snapshots.
    pub name: String,
    /// Its snapshots, ordered by name. All have the same time of creation. A snapshot that the administrator deleted is
    /// missing.
    pub snapshots: Vec<SnapshotInfo>,
}
