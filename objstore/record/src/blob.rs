//! Records of blobs: content outside the metadata.

use prost::Message;

use objstore_blob::{BlobId, Place};

/// The record of a blob: where it is stored and how many records refer to it.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Blob {
    /// The number of inodes, extents and parts that refer to it.
    #[prost(uint32, tag = "1")]
    pub refs: u32,
    /// Its length in bytes when it was stored; zero for an in-place blob, whose length changes.
    #[prost(uint64, tag = "2")]
    pub length: u64,
    /// The place in a segment; absent if the blob has its own file.
    #[prost(message, optional, tag = "3")]
    pub packed: Option<PackedAt>,
    /// Whether there are checksum records ([`Sums`]); a packed blob's checksum is in its segment.
    #[prost(bool, tag = "4")]
    pub sums: bool,
}

/// The place of a packed blob.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct PackedAt {
    /// The segment.
    #[prost(uint64, tag = "1")]
    pub segment: u64,
    /// Where its record begins in the segment, in bytes.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
}

impl Blob {
    /// Where the blob is stored.
    pub fn place(&self) -> Place {
        match self.packed {
            Some(at) => Place::Packed { segment: at.segment, offset: at.offset },
            None => Place::File,
        }
    }
}

/// Checksums of [`SUMS_PER_RECORD`] blocks of a blob.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Sums {
    /// The CRC-32C of each block.
    #[prost(fixed32, repeated, tag = "1")]
    pub crc: Vec<u32>,
}

/// The number of blocks that a [`Sums`] record covers.
pub const SUMS_PER_RECORD: usize = 1024;

/// The record of a segment: how many of its bytes are still referenced.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Segment {
    /// The bytes of its blobs that records refer to.
    #[prost(uint64, tag = "1")]
    pub live_bytes: u64,
    /// The bytes of all blobs ever stored in it.
    #[prost(uint64, tag = "2")]
    pub stored_bytes: u64,
}

/// The record of a file that a program may write through a memory mapping of its blob file, without a request to the
/// server.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct WritableMapping {
    /// The file's in-place blob.
    #[prost(uint64, tag = "1")]
    pub blob: u64,
}

/// The record of a blob to be removed once no reader can need it.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Trash {
    /// The blob, if it has its own file.
    #[prost(uint64, tag = "1")]
    pub blob: u64,
}

impl Trash {
    /// The blob to remove.
    pub fn id(&self) -> BlobId {
        BlobId(self.blob)
    }
}
