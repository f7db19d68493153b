//! The plain values that store operations take and give.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::name::{BucketName, Key};

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
    /// Only if it is empty (S3 API, DeleteBucket).
    IfEmpty,
    /// With all that it holds; snapshots of it stay.
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
}

/// The headers S3 keeps with an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Content-Type
    pub content_type: Option<String>,
    /// Cache-Control
    pub cache_control: Option<String>,
    /// Content-Disposition
    pub content_disposition: Option<String>,
    /// Content-Encoding, never `aws-chunked`
    pub content_encoding: Option<String>,
    /// Content-Language
    pub content_language: Option<String>,
    /// Expires, as given
    pub expires: Option<String>,
}

/// A checksum the client asked to keep (S3 User Guide, "Checking object integrity").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// `CRC32`, `CRC32C`, `CRC64NVME`, `SHA1` or `SHA256`.
    pub algorithm: String,
    /// The value in base64, with `-N` behind it if it is made of N parts' checksums.
    pub value: String,
}

/// An object, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its key.
    pub key: String,
    /// Its inode.
    pub ino: u64,
    /// Its size, in bytes.
    pub size: u64,
    /// Its entity tag, without quotes.
    pub etag: String,
    /// When its content last changed.
    pub modified: Timestamp,
    /// Its headers.
    pub headers: Headers,
    /// User metadata: names in lower case without `x-amz-meta-`.
    pub metadata: BTreeMap<String, String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// The checksums kept with it.
    pub checksums: Vec<Checksum>,
    /// How many parts it was uploaded in, if in parts.
    pub parts: Option<u32>,
    /// Its version id, in a bucket that keeps versions.
    pub version: Option<String>,
}

/// Conditions of a write or read, by entity tag (RFC 9110, section 13). `*` stands for any object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// If-Match: the entity tag the object must have.
    pub if_match: Option<String>,
    /// If-None-Match: an entity tag the object must not have.
    pub if_none_match: Option<String>,
}

/// A request to store an object.
pub struct PutObject {
    /// The bucket.
    pub bucket: BucketName,
    /// The key.
    pub key: Key,
    /// The content, staged before.
    pub content: crate::content::Staged,
    /// The MD5 of the content in hex.
    pub etag: String,
    /// Headers to keep.
    pub headers: Headers,
    /// User metadata.
    pub metadata: BTreeMap<String, String>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// Checksums, verified before.
    pub checksums: Vec<Checksum>,
    /// What must hold for the object now there.
    pub condition: Condition,
}

/// What a copy takes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive<T> {
    /// From the source.
    Copy,
    /// This instead.
    Replace(T),
}

/// A request to copy an object without moving its bytes.
pub struct CopyObject {
    /// The bucket copied from.
    pub source_bucket: BucketName,
    /// The key copied from.
    pub source_key: Key,
    /// The version copied from.
    pub source_version: Option<String>,
    /// What must hold for the source.
    pub source_condition: Condition,
    /// The bucket copied to.
    pub bucket: BucketName,
    /// The key copied to.
    pub key: Key,
    /// Headers and user metadata.
    pub metadata: Directive<(Headers, BTreeMap<String, String>)>,
    /// Tags.
    pub tags: Directive<BTreeMap<String, String>>,
    /// What must hold for the object now there.
    pub condition: Condition,
}

/// What a deletion did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Whether there was an object (S3 answers success either way).
    pub existed: bool,
    /// The delete marker made, or the version deleted.
    pub version: Option<String>,
    /// Whether `version` is a delete marker.
    pub marker: bool,
}

/// A request for a page of keys, in byte order.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// Only keys that begin so.
    pub prefix: String,
    /// Keys alike up to the next delimiter are one common prefix.
    pub delimiter: Option<String>,
    /// Only keys, and common prefixes, after this.
    pub after: Option<String>,
    /// At most so many keys and common prefixes together.
    pub limit: usize,
}

/// A page of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The objects.
    pub objects: Vec<ObjectInfo>,
    /// The common prefixes.
    pub prefixes: Vec<String>,
    /// If there is more: the `after` of the next page (the last key or common prefix of this one).
    pub next: Option<String>,
}

/// A version in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionInfo {
    /// The object; of a delete marker only key, time and version are meant.
    pub object: ObjectInfo,
    /// Whether this is a delete marker.
    pub marker: bool,
    /// Whether this is the current version.
    pub latest: bool,
}

/// A request for a page of versions: by key, then newest first.
#[derive(Clone, Debug, Default)]
pub struct ListVersions {
    /// Prefix, delimiter and limit; `after` is the key marker.
    pub list: List,
    /// Go on after this version of the key `after`.
    pub after_version: Option<String>,
}

/// A page of versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionListing {
    /// The versions and delete markers.
    pub versions: Vec<VersionInfo>,
    /// The common prefixes.
    pub prefixes: Vec<String>,
    /// If there is more: the key and version markers of the next page.
    pub next: Option<(String, Option<String>)>,
}

/// A request to begin a multipart upload.
#[derive(Clone, Debug)]
pub struct CreateUpload {
    /// The bucket.
    pub bucket: BucketName,
    /// The key.
    pub key: Key,
    /// Headers to keep.
    pub headers: Headers,
    /// User metadata.
    pub metadata: BTreeMap<String, String>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// The checksum algorithm the client announced.
    pub checksum_algorithm: Option<String>,
    /// The account that began it, for listings.
    pub initiator: String,
}

/// A multipart upload under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadInfo {
    /// Its id.
    pub id: String,
    /// The key it will become.
    pub key: String,
    /// When it was begun.
    pub created: Timestamp,
    /// The account that began it.
    pub initiator: String,
    /// The checksum algorithm announced.
    pub checksum_algorithm: Option<String>,
}

/// Names one upload.
#[derive(Clone, Debug)]
pub struct UploadRef {
    /// The bucket.
    pub bucket: BucketName,
    /// The key.
    pub key: Key,
    /// The upload's id.
    pub id: String,
}

/// A request to store a part; a part stored before under the number is replaced.
pub struct PutPart {
    /// The upload.
    pub upload: UploadRef,
    /// 1 to 10,000.
    pub number: u32,
    /// The content, staged before.
    pub content: crate::content::Staged,
    /// The MD5 of the content in hex.
    pub etag: String,
    /// Checksums, verified before.
    pub checksums: Vec<Checksum>,
}

/// A request to make a part of a range of an object, without moving its bytes.
#[derive(Clone, Debug)]
pub struct CopyPart {
    /// The upload.
    pub upload: UploadRef,
    /// 1 to 10,000.
    pub number: u32,
    /// The bucket copied from.
    pub source_bucket: BucketName,
    /// The key copied from.
    pub source_key: Key,
    /// The version copied from.
    pub source_version: Option<String>,
    /// What must hold for the source.
    pub source_condition: Condition,
    /// First byte and length; `None` is the whole object.
    pub range: Option<(u64, u64)>,
}

/// A part as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartInfo {
    /// Its number.
    pub number: u32,
    /// Its size, in bytes.
    pub size: u64,
    /// Its entity tag, without quotes.
    pub etag: String,
    /// When it was stored.
    pub modified: Timestamp,
    /// Its checksums.
    pub checksums: Vec<Checksum>,
}

/// A page of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartListing {
    /// The upload.
    pub upload: UploadInfo,
    /// The parts, by number.
    pub parts: Vec<PartInfo>,
    /// If there is more: the number to go on after.
    pub next: Option<u32>,
}

/// A page of uploads: by key, then by age.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UploadListing {
    /// The uploads.
    pub uploads: Vec<UploadInfo>,
    /// The common prefixes.
    pub prefixes: Vec<String>,
    /// If there is more: the key and upload id to go on after.
    pub next: Option<(String, String)>,
}

/// A request to turn an upload into its object.
#[derive(Clone, Debug)]
pub struct CompleteUpload {
    /// The upload.
    pub upload: UploadRef,
    /// Number and entity tag of each part, by rising number.
    pub parts: Vec<(u32, String)>,
    /// What must hold for the object now there.
    pub condition: Condition,
    /// Checksums of the whole object, verified or derived before.
    pub checksums: Vec<Checksum>,
}

/// What an account may do with a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Get and list.
    Read,
    /// Put and delete.
    Write,
    /// Both.
    ReadWrite,
    /// Both, and change or delete the bucket itself.
    Owner,
}

impl Mode {
    /// May it read?
    pub fn reads(self) -> bool {
        self != Self::Write
    }

    /// May it write?
    pub fn writes(self) -> bool {
        self != Self::Read
    }

    /// The short name on the command line and in class parameters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "ro",
            Self::Write => "wo",
            Self::ReadWrite => "rw",
            Self::Owner => "owner",
        }
    }
}

impl std::str::FromStr for Mode {
    type Err = crate::Error;

    fn from_str(name: &str) -> crate::Result<Self> {
        match name {
            "ro" => Ok(Self::Read),
            "wo" => Ok(Self::Write),
            "rw" => Ok(Self::ReadWrite),
            "owner" => Ok(Self::Owner),
            _ => Err(crate::Error::invalid("mode", name, "use ro, rw, wo or owner")),
        }
    }
}

/// An account: who keys and grants belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Never used twice.
    pub id: u64,
    /// Whether it may create buckets through S3.
    pub may_create_buckets: bool,
    /// Whether it is the root account, which may do everything.
    pub root: bool,
    /// When it was made.
    pub created: Timestamp,
}

/// An access key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// The public half.
    pub id: String,
    /// The account, by name.
    pub account: String,
    /// When it was made.
    pub created: Timestamp,
}

/// A new access key: the one time its secret is shown.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// The public half.
    pub id: String,
    /// The account, by name.
    pub account: String,
    /// The secret half.
    pub secret: Secret,
}

/// A secret that does not print itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself: never for a log or an error.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Whose request it is, found by access key.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The account.
    pub account: Account,
    /// The key's secret, to verify signatures.
    pub secret: Secret,
}

/// A grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The bucket.
    pub bucket: BucketName,
    /// The account, by name.
    pub account: String,
    /// What it may do.
    pub mode: Mode,
}

/// That a volume is attached to a node (CSI v1.12, ControllerPublishVolume).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The bucket.
    pub bucket: BucketName,
    /// The node.
    pub node: String,
    /// Whether the node may only read.
    pub read_only: bool,
    /// The access mode and capability it was asked with, compared on a repeated request.
    pub capability: String,
}
