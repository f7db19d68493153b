//! What the metadata records of files that are written in place and whose bytes are in a bucket.
//!
//! - A file is cut into chunks of [`CHUNK_BYTES`]. A chunk is an object, or a part of the object that the file began as,
//!   or zeros; over it lie patches: short ranges whose bytes are in the metadata itself.
//! - Objects are named by records alone. So an owner that lost its lease cannot change what a file is: its records are
//!   refused, and its objects are orphans.

use std::collections::HashSet;

use bytes::Bytes;
use objstore_base::error::Result;

use crate::id::BlobId;

/// The size of a chunk, in bytes.
pub const CHUNK_BYTES: u64 = 512 * 1024;

/// Where the bytes of a chunk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkAt {
    /// The object's id; 0 for zeros.
    pub object: u64,
    /// Its length in bytes; what a file has beyond it is zeros.
    pub length: u32,
    /// The CRC-32C of its bytes.
    pub crc: u32,
}

/// A short range whose bytes lie in the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The chunk.
    pub chunk: u32,
    /// Its number in the chunk: later ones lie over earlier ones.
    pub number: u32,
    /// The offset in the chunk, in bytes.
    pub offset: u32,
    /// The bytes.
    pub bytes: Bytes,
}

/// Attributes of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileHead {
    /// Its length, in bytes.
    pub length: u64,
    /// Its modification time, in nanoseconds since 1970.
    pub modified_ns: u64,
    /// How many bytes of the object that it began as still count; 0 if it began empty.
    pub whole: u64,
}

/// A file as it is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Its attributes.
    pub head: FileHead,
    /// Its chunks.
    pub chunks: Vec<(u32, ChunkAt)>,
    /// For each patch: its chunk, its number, and the number of its bytes.
    pub patches: Vec<(u32, u32, u32)>,
}

/// A change of a file's record.
#[derive(Clone, Debug)]
pub struct Change {
    /// The file.
    pub blob: BlobId,
    /// Its attributes from now on.
    pub head: FileHead,
    /// Chunks from this one on, with their patches, are removed first.
    pub cut: Option<u32>,
    /// Chunks that are somewhere else now; patches of these are removed.
    pub chunks: Vec<(u32, ChunkAt)>,
    /// Patches added.
    pub patches: Vec<Patch>,
}

/// The records, as the metadata keeps them.
pub trait Places: Send + Sync {
    /// The record of a file; `None` for one that was never written in place.
    fn load(&self, blob: BlobId) -> Result<Option<Saved>>;

    /// The patches of a chunk, in the order of their numbers.
    fn patches(&self, blob: BlobId, chunk: u32) -> Result<Vec<Patch>>;

    /// Makes all changes, durably and in one transaction.
    fn save(&self, changes: Vec<Change>) -> Result<()>;

    /// Removes the record of a file. It does not wait, and may be called while a transaction runs.
    fn forget(&self, blob: BlobId);

    /// All files that have a record.
    fn ids(&self) -> Result<Vec<BlobId>>;

    /// All objects that chunks are in.
    fn objects(&self) -> Result<HashSet<u64>>;
}
