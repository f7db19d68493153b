//! Multipart uploads: requests and results.

use std::collections::BTreeMap;

use super::object::{Condition, Headers, Lock, ObjectAccess};
use crate::clock::Timestamp;
use crate::content::Checksum;
use crate::name::{BucketName, Key};

/// A request to create a multipart upload.
#[derive(Clone, Debug)]
pub struct CreateUpload {
    /// The bucket.
    pub bucket: BucketName,
    /// The key.
    pub key: Key,
    /// The headers to store.
    pub headers: Headers,
    /// User metadata.
    pub metadata: BTreeMap<String, String>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// The requested lock; without one, the bucket's default at completion applies.
    pub lock: Lock,
    /// Owner and access control list of the object.
    pub access: ObjectAccess,
    /// The checksum plan that the client requested.
    pub checksum_algorithm: Option<String>,
    /// The account that created it, for listings.
    pub initiator: String,
}

/// A multipart upload in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadInfo {
    /// Its id.
    pub id: String,
    /// The key of its object.
    pub key: String,
    /// Time of creation.
    pub created: Timestamp,
    /// The account that created it.
    pub initiator: String,
    /// The checksum plan.
    pub checksum_algorithm: Option<String>,
    /// The storage class of its object; `None` is STANDARD.
    pub storage_class: Option<String>,
}

/// The address of an upload.
#[derive(Clone, Debug)]
pub struct UploadRef {
    /// The bucket.
    pub bucket: BucketName,
    /// The key.
    pub key: Key,
    /// The upload's id.
    pub id: String,
}

/// A request to store a part; an earlier part with the number is replaced.
pub struct PutPart {
    /// The upload.
    pub upload: UploadRef,
    /// 1 to 10,000.
    pub number: u32,
    /// The content, staged before.
    pub content: crate::content::Staged,
    /// The MD5 of the content in hexadecimal.
    pub etag: String,
    /// Checksums, already verified.
    pub checksums: Vec<Checksum>,
}

/// A request to create a part from a range of an object, without copying its bytes.
#[derive(Clone, Debug)]
pub struct CopyPart {
    /// The upload.
    pub upload: UploadRef,
    /// 1 to 10,000.
    pub number: u32,
    /// The source bucket.
    pub source_bucket: BucketName,
    /// The source key.
    pub source_key: Key,
    /// The source version.
    pub source_version: Option<String>,
    /// The condition on the source.
    pub source_condition: Condition,
    /// First byte and length; `None` is the whole object.
    pub range: Option<(u64, u64)>,
}

/// Computes digests of the bytes of a copied part: the store reads them and knows no algorithms.
pub trait PartHash: Send {
    /// Adds bytes.
    fn update(&mut self, data: &[u8]);
    /// The entity tag (the MD5 in hexadecimal) and the checksums to store.
    fn finish(self: Box<Self>) -> (String, Vec<Checksum>);
}

/// A stored part.
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
    /// The number after which to continue, if there is more.
    pub next: Option<u32>,
}

/// A page of uploads, by key and then by age.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UploadListing {
    /// The uploads.
    pub uploads: Vec<UploadInfo>,
    /// The common prefixes.
    pub prefixes: Vec<String>,
    /// The key and upload id after which to continue, if there is more.
    pub next: Option<(String, String)>,
}

/// A request to complete an upload.
#[derive(Clone, Debug)]
pub struct CompleteUpload {
    /// The upload.
    pub upload: UploadRef,
    /// Number and entity tag of each part, in ascending order.
    pub parts: Vec<(u32, String)>,
    /// The condition on the current object.
    pub condition: Condition,
    /// Checksums of the whole object, already verified or derived.
    pub checksums: Vec<Checksum>,
}

/// The result of completing an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedUpload {
    /// The object's entity tag, without quotes.
    pub etag: String,
    /// Its version id, in a bucket with versioning.
    pub version: Option<String>,
    /// Its checksums.
    pub checksums: Vec<Checksum>,
    /// Its size, in bytes.
    pub size: u64,
    /// The number of parts.
    pub parts: u32,
}
