//! Objects: requests and results.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::lifecycle::Expiration;
use crate::name::{BucketName, Key};

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
    /// x-amz-storage-class; none is STANDARD. It is a name alone: nothing is kept otherwise for it.
    pub storage_class: Option<String>,
}

/// A checksum the client asked to keep (S3 User Guide, "Checking object integrity").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// `CRC32`, `CRC32C`, `CRC64NVME`, `SHA1`, `SHA256`, `SHA512`, `MD5`, `XXHASH64`, `XXHASH3` or `XXHASH128`.
    pub algorithm: String,
    /// The value in base64, with `-N` behind it if it is made of N parts' checksums.
    pub value: String,
}

/// How long an object version has to be kept (S3 API, PutObjectRetention).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Who may shorten it.
    pub mode: crate::record::inode::RetentionMode,
    /// Until when.
    pub until: Timestamp,
}

/// What protects an object version (S3 User Guide, "Locking objects with Object Lock").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// Its retention, also one that has ended.
    pub retention: Option<Retention>,
    /// Whether a legal hold is on; `None` asks for nothing, and tells that there never was one.
    pub legal_hold: Option<bool>,
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
    /// What protects it.
    pub lock: Lock,
    /// When it expires, if it was just written or read as the current one of its key.
    pub expiration: Option<Expiration>,
}

/// The entity tags that a condition names (RFC 9110, sections 13.1.1 and 13.1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntityTags {
    /// `*`: any object, whatever its tag.
    Any,
    /// One of these tags, without their quotes. No object has one of none.
    OneOf(Vec<String>),
}

impl EntityTags {
    /// Whether an object with this entity tag is meant.
    pub fn name(&self, etag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(tags) => tags.iter().any(|tag| tag == etag),
        }
    }
}

impl From<String> for EntityTags {
    /// Exactly this entity tag.
    fn from(tag: String) -> Self {
        Self::OneOf(vec![tag])
    }
}

/// Conditions of a write or read (RFC 9110, section 13).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// If-Match: the entity tags of which the object must have one.
    pub if_match: Option<EntityTags>,
    /// If-None-Match: entity tags the object must not have.
    pub if_none_match: Option<EntityTags>,
    /// The size the object must have, in bytes (S3 API, DeleteObject, `x-amz-if-match-size`).
    pub size: Option<u64>,
    /// When the object must have changed last, to the second (S3 API, DeleteObject,
    /// `x-amz-if-match-last-modified-time`).
    pub modified: Option<Timestamp>,
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
    /// What is to protect it; where nothing is asked for, the bucket's default.
    pub lock: Lock,
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
    /// Headers and user metadata, but for the storage class.
    pub metadata: Directive<(Headers, BTreeMap<String, String>)>,
    /// The storage class of the copy; none is STANDARD. The source's stays behind.
    pub storage_class: Option<String>,
    /// Tags.
    pub tags: Directive<BTreeMap<String, String>>,
    /// The copy's checksums, worked out of the source that `source_condition` names; `None` takes over the source's,
    /// but for those of parts' checksums.
    pub checksums: Option<Vec<Checksum>>,
    /// What is to protect the copy; where nothing is asked for, the bucket's default. The source's stays behind.
    pub lock: Lock,
    /// What must hold for the object now there.
    pub condition: Condition,
}

/// A copy that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedObject {
    /// The copy.
    pub object: ObjectInfo,
    /// The version copied, in a bucket that keeps versions.
    pub source_version: Option<String>,
}

/// A request to delete an object or one of its versions.
#[derive(Clone, Debug)]
pub struct DeleteObject {
    /// The key.
    pub key: Key,
    /// The version; `None` deletes as a request without one does.
    pub version: Option<String>,
    /// What must hold for the version named, or the current object.
    pub condition: Condition,
    /// Whether the caller may and wants to delete what governance retains.
    pub bypass_governance: bool,
}

impl DeleteObject {
    /// Deletes the object under a key without further conditions.
    pub fn new(key: Key) -> Self {
        Self { key, version: None, condition: Condition::default(), bypass_governance: false }
    }
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
