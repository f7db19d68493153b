//! The records of content in a bucket of an S3 store: where the store's content is, and where the bytes of files lie that
//! are written in place.

use bytes::Bytes;
use prost::Message;

/// Where the content of the store is. Without this record it is in the data folder.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ContentPlace {
    /// The store's id, which the marker in the bucket contains.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The bucket and prefix where it was last opened, for people.
    #[prost(string, tag = "2")]
    pub location: String,
    /// Whether the marker was written: from then on a bucket without it is another one.
    #[prost(bool, tag = "3")]
    pub claimed: bool,
}

/// A file that is written in place.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct PlacedFile {
    /// Its length, in bytes.
    #[prost(uint64, tag = "1")]
    pub length: u64,
    /// Its modification time, in nanoseconds since 1970.
    #[prost(uint64, tag = "2")]
    pub modified_ns: u64,
    /// How many bytes of the object that it began as still count.
    #[prost(uint64, tag = "3")]
    pub whole: u64,
}

/// A chunk of such a file that is an object of its own.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct PlacedChunk {
    /// The object's id; 0 for zeros.
    #[prost(uint64, tag = "1")]
    pub object: u64,
    /// Its length, in bytes.
    #[prost(uint32, tag = "2")]
    pub length: u32,
    /// The CRC-32C of its bytes.
    #[prost(fixed32, tag = "3")]
    pub crc: u32,
}

/// A short range of a chunk.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PlacedPatch {
    /// Its offset in the chunk, in bytes.
    #[prost(uint32, tag = "1")]
    pub offset: u32,
    /// Its bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub bytes: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;

    #[test]
    fn placed_records_round_trip() {
        let chunk = PlacedChunk { object: 7 << 32 | 3, length: 512 * 1024, crc: 0xdead_beef };
        assert_eq!(decode::<PlacedChunk>("a chunk", &chunk.encode_to_vec()).unwrap(), chunk);
        let patch = PlacedPatch { offset: 4096, bytes: vec![1, 2, 3].into() };
        assert_eq!(decode::<PlacedPatch>("a patch", &patch.encode_to_vec()).unwrap(), patch);
        let file = PlacedFile { length: 10, modified_ns: 5, whole: 4 };
        assert_eq!(decode::<PlacedFile>("a file", &file.encode_to_vec()).unwrap(), file);
        let place = ContentPlace { id: "0a".into(), location: "s3://bucket/prefix".into(), claimed: true };
        assert_eq!(decode::<ContentPlace>("the place", &place.encode_to_vec()).unwrap(), place);
    }
}
