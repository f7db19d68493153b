//! Objects: requests and results.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::content::Checksum;
use crate::expiry::Expiration;
use crate::name::{BucketName, Key};
use crate::record::access_list::AccessList;

/// The headers stored with an object.
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
    /// x-amz-storage-class; `None` is STANDARD. It is only a name and has no effect.
    pub storage_class: Option<String>,
    /// x-amz-website-redirect-location, as given
    pub website_redirect: Option<String>,
}

/// The retention of an object version (S3 API, PutObjectRetention).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The mode, which decides who may shorten it.
    pub mode: crate::record::inode::RetentionMode,
    /// The end of the retention.
    pub until: Timestamp,
}

/// The lock of an object version (S3 User Guide, "Locking objects with Object Lock").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// Its retention, even if it has ended.
    pub retention: Option<Retention>,
    /// Whether a legal hold is on; `None` in a request asks for nothing, in an answer there never was one.
    pub legal_hold: Option<bool>,
}

/// The owner of an object, and its access control list. By default the bucket's owner owns it, and has access
/// alone (S3 User Guide, "Access control list (ACL) overview").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectAccess {
    /// The id of the owning account; zero is the owner of the bucket.
    pub owner: u64,
    /// The list; none is `private`.
    pub acl: Option<AccessList>,
}

/// An object without its content.
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
    /// Time of the last change of its content.
    pub modified: Timestamp,
    /// Its headers.
    pub headers: Headers,
    /// User metadata: names in lower case without `x-amz-meta-`.
    pub metadata: BTreeMap<String, String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// The stored checksums.
    pub checksums: Vec<Checksum>,
    /// The number of parts of a multipart object.
    pub parts: Option<u32>,
    /// Its version id, in a bucket with versioning.
    pub version: Option<String>,
    /// Its lock.
    pub lock: Lock,
    /// Its owner and access control list.
    pub access: ObjectAccess,
    /// Its expiration, if it was just written or read as the current version of its key.
    pub expiration: Option<Expiration>,
}

/// The entity tags of a condition (RFC 9110, sections 13.1.1 and 13.1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntityTags {
    /// `*`: any object, with any tag.
    Any,
    /// One of these tags, without quotes. No object matches an empty list.
    OneOf(Vec<String>),
}

impl EntityTags {
    /// Whether they match an object with this entity tag.
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
    /// If-Match: entity tags, one of which the object must have.
    pub if_match: Option<EntityTags>,
    /// If-None-Match: entity tags the object must not have.
    pub if_none_match: Option<EntityTags>,
    /// The size the object must have, in bytes (S3 API, DeleteObject, `x-amz-if-match-size`).
    pub size: Option<u64>,
    /// The time of the object's last change, to the second (S3 API, DeleteObject, `x-amz-if-match-last-modified-time`).
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
    /// The MD5 of the content in hexadecimal.
    pub etag: String,
    /// The headers to store.
    pub headers: Headers,
    /// User metadata.
    pub metadata: BTreeMap<String, String>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// Checksums, already verified.
    pub checksums: Vec<Checksum>,
    /// The requested lock; without one, the bucket's default applies.
    pub lock: Lock,
    /// Its owner and access control list.
    pub access: ObjectAccess,
    /// The condition on the current object.
    pub condition: Condition,
}

/// The source of an attribute of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive<T> {
    /// The copy's source object.
    Copy,
    /// This value.
    Replace(T),
}

/// A request to copy an object without moving its bytes.
pub struct CopyObject {
    /// The source bucket.
    pub source_bucket: BucketName,
    /// The source key.
    pub source_key: Key,
    /// The source version.
    pub source_version: Option<String>,
    /// The condition on the source.
    pub source_condition: Condition,
    /// The target bucket.
    pub bucket: BucketName,
    /// The target key.
    pub key: Key,
    /// Headers and user metadata, without the storage class and the redirect of a website.
    pub metadata: Directive<(Headers, BTreeMap<String, String>)>,
    /// The storage class of the copy; `None` is STANDARD. The source's is not copied.
    pub storage_class: Option<String>,
    /// Where a website redirects requests for the copy. The source's stays behind.
    pub website_redirect: Option<String>,
    /// Tags.
    pub tags: Directive<BTreeMap<String, String>>,
    /// The copy's checksums, computed from the source that `source_condition` names; `None` copies the source's, except
    /// those of parts' checksums.
    pub checksums: Option<Vec<Checksum>>,
    /// The requested lock; without one, the bucket's default applies. The source's is not copied.
    pub lock: Lock,
    /// Owner and access control list of the copy; those of the source are not copied.
    pub access: ObjectAccess,
    /// The condition on the current object.
    pub condition: Condition,
}

/// A completed copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedObject {
    /// The copy.
    pub object: ObjectInfo,
    /// The version that was copied, in a bucket with versioning.
    pub source_version: Option<String>,
}

/// A request to delete an object or one of its versions.
#[derive(Clone, Debug)]
pub struct DeleteObject {
    /// The key.
    pub key: Key,
    /// The version; `None` deletes the current object.
    pub version: Option<String>,
    /// The condition on the named version, or the current object.
    pub condition: Condition,
    /// Whether the caller may, and wants to, delete a version under governance retention.
    pub bypass_governance: bool,
}

impl DeleteObject {
    /// A request to delete the object under a key, without conditions.
    pub fn new(key: Key) -> Self {
        Self { key, version: None, condition: Condition::default(), bypass_governance: false }
    }
}

/// The result of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Whether there was an object (S3 answers success either way).
    pub existed: bool,
    /// The delete marker created, or the version deleted.
    pub version: Option<String>,
    /// Whether `version` is a delete marker.
    pub marker: bool,
}
