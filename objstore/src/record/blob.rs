//! Records of blobs: content outside the metadata.

use prost::Message;

use crate::blob::{BlobId, Place};

/// A blob: where it lies and how many records refer to it.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Blob {
    /// Inodes, extents and parts that refer to it.
    #[prost(uint32, tag = "1")]
    pub refs: u32,
    /// Its length when it was stored; of an inode's own blob, which changes in place, zero.
    #[prost(uint64, tag = "2")]
    pub length: u64,
    /// Set if it lies in a segment.
    #[prost(message, optional, tag = "3")]
    pub packed: Option<PackedAt>,
    /// Whether it has checksum records ([`Sums`]); a packed blob's checksum lies in its segment.
    #[prost(bool, tag = "4")]
    pub sums: bool,
}

/// A place in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct PackedAt {
    /// The segment.
    #[prost(uint64, tag = "1")]
    pub segment: u64,
    /// Where its record begins.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
}

impl Blob {
    /// Where it lies.
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
    /// CRC-32C of each block.
    #[prost(fixed32, repeated, tag = "1")]
    pub crc: Vec<u32>,
}

/// Blocks a [`Sums`] record covers.
pub const SUMS_PER_RECORD: usize = 1024;

/// How much of a segment is still referred to.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Segment {
    /// Bytes of blobs referred to.
    #[prost(uint64, tag = "1")]
    pub live_bytes: u64,
    /// Bytes of blobs ever stored in it.
    #[prost(uint64, tag = "2")]
    pub stored_bytes: u64,
}

/// A file that a program may write past the server, through a mapping of its blob.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Exposed {
    /// Its blob.
    #[prost(uint64, tag = "1")]
    pub blob: u64,
}

/// Something to remove once no reader can need it.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Trash {
    /// A blob that has its own file.
    #[prost(uint64, tag = "1")]
    pub blob: u64,
}

impl Trash {
    /// The blob to remove.
    pub fn id(&self) -> BlobId {
        BlobId(self.blob)
    }
}
