//! Records of multipart uploads in progress and completed, and of the parts of an object.

use prost::Message;

use super::inode::{Extent, Object, StoredChecksum};

/// An upload.
#[derive(Clone, PartialEq, Message)]
pub struct Upload {
    /// Begun, nanoseconds since 1970.
    #[prost(sfixed64, tag = "1")]
    pub created: i64,
    /// What the object will carry.
    #[prost(message, optional, tag = "2")]
    pub object: Option<Object>,
    /// The account that began it.
    #[prost(string, tag = "3")]
    pub initiator: String,
    /// The checksum algorithm announced.
    #[prost(string, optional, tag = "4")]
    pub checksum_algorithm: Option<String>,
}

/// A part.
#[derive(Clone, PartialEq, Message)]
pub struct Part {
    /// Its size, in bytes.
    #[prost(uint64, tag = "1")]
    pub size: u64,
    /// MD5 in hex.
    #[prost(string, tag = "2")]
    pub etag: String,
    /// Stored, nanoseconds since 1970.
    #[prost(sfixed64, tag = "3")]
    pub modified: i64,
    /// Checksums.
    #[prost(message, repeated, tag = "4")]
    pub checksums: Vec<StoredChecksum>,
    /// Its content in order; a piece of blob zero is a hole.
    #[prost(message, repeated, tag = "5")]
    pub pieces: Vec<Extent>,
}

/// An upload that was completed: what a client that asks again is answered.
#[derive(Clone, PartialEq, Message)]
pub struct Completed {
    /// When, nanoseconds since 1970.
    #[prost(sfixed64, tag = "1")]
    pub at: i64,
    /// MD5 of the numbers and entity tags of the parts that were named.
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

/// The parts an object was uploaded in. They hold as long as its inode's `object.parts` is not zero.
#[derive(Clone, PartialEq, Message)]
pub struct ObjectParts {
    /// The parts, in order.
    #[prost(message, repeated, tag = "1")]
    pub parts: Vec<ObjectPart>,
}

/// One of the parts an object was uploaded in.
#[derive(Clone, PartialEq, Message)]
pub struct ObjectPart {
    /// Its number, as it was uploaded.
    #[prost(uint32, tag = "1")]
    pub number: u32,
    /// Its size, in bytes.
    #[prost(uint64, tag = "2")]
    pub size: u64,
    /// Its checksums.
    #[prost(message, repeated, tag = "3")]
    pub checksums: Vec<StoredChecksum>,
}
