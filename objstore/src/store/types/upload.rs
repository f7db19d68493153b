//! Multipart uploads: requests and results.

use std::collections::BTreeMap;

use super::object::{Checksum, Condition, Headers, Lock};
use crate::clock::Timestamp;
use crate::name::{BucketName, Key};

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
    /// What is to protect the object; where nothing is asked for, the bucket's default when it is completed.
    pub lock: Lock,
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
    /// The storage class of the object it will become; none is STANDARD.
    pub storage_class: Option<String>,
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

/// Hashes the bytes of a part that is copied: the store reads them and knows no algorithms.
pub trait PartHash: Send {
    /// Adds bytes.
    fn update(&mut self, data: &[u8]);
    /// The entity tag (the MD5 in hex) and the checksums to keep.
    fn finish(self: Box<Self>) -> (String, Vec<Checksum>);
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

/// What completing an upload gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedUpload {
    /// The object's entity tag, without quotes.
    pub etag: String,
    /// Its version id, in a bucket that keeps versions.
    pub version: Option<String>,
    /// Its checksums.
    pub checksums: Vec<Checksum>,
    /// Its size, in bytes.
    pub size: u64,
    /// How many parts it has.
    pub parts: u32,
}

/// One of the parts an object was uploaded in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectPart {
    /// Its number, as it was uploaded.
    pub number: u32,
    /// Its first byte in the object.
    pub offset: u64,
    /// Its size, in bytes.
    pub size: u64,
    /// Its checksums.
    pub checksums: Vec<Checksum>,
}
