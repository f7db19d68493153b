//! Records of multipart uploads in progress and completed, and of the parts of an object.

use prost::Message;

use super::inode::{Extent, Object, StoredChecksum};

/// The record of an upload in progress.
#[derive(Clone, PartialEq, Message)]
pub struct Upload {
    /// When it began, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "1")]
    pub created: i64,
    /// What S3 is to store with the object.
    #[prost(message, optional, tag = "2")]
    pub object: Option<Object>,
    /// The name of the account that began it.
    #[prost(string, tag = "3")]
    pub initiator: String,
    /// The checksum algorithm that the request announced.
    #[prost(string, optional, tag = "4")]
    pub checksum_algorithm: Option<String>,
}

/// The record of a part.
#[derive(Clone, PartialEq, Message)]
pub struct Part {
    /// Its size, in bytes.
    #[prost(uint64, tag = "1")]
    pub size: u64,
    /// The MD5 of the part, in hex.
    #[prost(string, tag = "2")]
    pub etag: String,
    /// When it was stored, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "3")]
    pub modified: i64,
    /// The checksums of the part.
    #[prost(message, repeated, tag = "4")]
    pub checksums: Vec<StoredChecksum>,
    /// Its content, in order; a piece of blob zero is a hole.
    #[prost(message, repeated, tag = "5")]
    pub pieces: Vec<Extent>,
}

/// The record of a completed upload, to answer a client that repeats the request.
#[derive(Clone, PartialEq, Message)]
pub struct Completed {
    /// When it was completed, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "1")]
    pub at: i64,
    /// The MD5 of the numbers and entity tags of the parts that the request named.
    #[prost(bytes, tag = "2")]
    pub parts_digest: Vec<u8>,
    /// The object's entity tag.
    #[prost(string, tag = "3")]
    pub etag: String,
    /// The object's version, in a bucket that keeps versions.
    #[prost(string, optional, tag = "4")]
    pub version: Option<String>,
    /// The object's checksums.
    #[prost(message, repeated, tag = "5")]
    pub checksums: Vec<StoredChecksum>,
    /// The object's size, in bytes.
    #[prost(uint64, tag = "6")]
    pub size: u64,
    /// How many parts it has.
    #[prost(uint32, tag = "7")]
    pub parts: u32,
}

/// The record of the parts that an object was uploaded in. They are valid as long as the inode's `object.parts` is not
/// zero.
#[derive(Clone, PartialEq, Message)]
pub struct ObjectParts {
    /// The parts, in order.
    #[prost(message, repeated, tag = "1")]
    pub parts: Vec<ObjectPart>,
}

/// One of the parts an object was uploaded in.
#[derive(Clone, PartialEq, Message)]
pub struct ObjectPart {
    /// Its number, as in the upload.
    #[prost(uint32, tag = "1")]
    pub number: u32,
    /// Its size, in bytes.
    #[prost(uint64, tag = "2")]
    pub size: u64,
    /// Its checksums.
    #[prost(message, repeated, tag = "3")]
    pub checksums: Vec<StoredChecksum>,
}
