//! Multipart uploads under way.

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
