//! The byte format of a backup: manifests, and the messages in chunks.
//!
//! ```text
//! manifest   AMPHORA1 (8 bytes), a Manifest, the SHA-256 of both (32 bytes)
//! chunk      its bytes and nothing else; its name is their SHA-256
//! ```
//!
//! Chunks of records hold [`Entry`] messages, chunks of blobs [`BlobEntry`] messages, each preceded by its length as a
//! varint. Chunks of content hold the bytes of blobs.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The format version of a backup without access control lists; unknown versions are refused.
pub(super) const FORMAT: u32 = 1;
/// That of a bucket with some: a build that does not know them would take their accounts for those of another store.
pub(super) const FORMAT_WITH_LISTS: u32 = 2;
const MAGIC: &[u8; 8] = b"AMPHORA1";
const DIGEST_BYTES: usize = 32;

/// The largest manifest in bytes: some 500 million objects.
pub(super) const MANIFEST_MAX: u64 = 64 << 20;
/// The largest message in a chunk: a blob with more than a million holes.
pub(super) const MESSAGE_MAX: u64 = 64 << 20;
/// A chunk of messages ends with the message that exceeds this size.
pub(super) const MESSAGES_CUT: u64 = 4 << 20;
/// The largest chunk of messages.
pub(super) const MESSAGES_MAX: u64 = MESSAGES_CUT + MESSAGE_MAX;
/// The most bytes of one blob in a chunk of content.
pub(super) const PIECE_MAX: u64 = 8 << 20;
/// Larger blobs have separate chunks.
pub(super) const SMALL_MAX: u64 = 256 << 10;
/// The largest chunk of content: small blobs fill it until it is as long as a piece.
pub(super) const CONTENT_MAX: u64 = PIECE_MAX + SMALL_MAX;

/// The SHA-256 of a chunk.
pub(super) type Hash = [u8; DIGEST_BYTES];

/// A backup.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Manifest {
    #[prost(uint32, tag = "1")]
    pub format: u32,
    /// The bucket's name.
    #[prost(string, tag = "2")]
    pub bucket: String,
    /// The bucket's record in the store's encoding.
    #[prost(bytes = "vec", tag = "3")]
    pub record: Vec<u8>,
    /// Its settings in the store's encoding; empty if there are none.
    #[prost(bytes = "vec", tag = "4")]
    pub settings: Vec<u8>,
    /// The name of its owner.
    #[prost(string, tag = "5")]
    pub owner: String,
    #[prost(message, repeated, tag = "6")]
    pub grants: Vec<Grant>,
    /// The snapshot's record in the store's encoding, which is unique.
    #[prost(bytes = "vec", tag = "7")]
    pub snapshot: Vec<u8>,
    #[prost(string, tag = "8")]
    pub snapshot_name: String,
    /// When the snapshot was taken, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "9")]
    pub created: i64,
    /// The next inode number and version order.
    #[prost(uint64, tag = "10")]
    pub next_ino: u64,
    #[prost(uint64, tag = "11")]
    pub next_version: u64,
    /// Chunks of records, in order.
    #[prost(message, repeated, tag = "12")]
    pub records: Vec<Chunk>,
    /// Chunks of blob entries, by rising id.
    #[prost(message, repeated, tag = "13")]
    pub blobs: Vec<Chunk>,
    #[prost(uint64, tag = "14")]
    pub objects: u64,
    #[prost(uint64, tag = "15")]
    pub bytes: u64,
    #[prost(uint64, tag = "16")]
    pub content_bytes: u64,
    #[prost(uint64, tag = "17")]
    pub sent_bytes: u64,
    #[prost(string, repeated, tag = "18")]
    pub damaged: Vec<String>,
    /// The accounts in access control lists and that own objects, by their ids in the store it came from. Those that
    /// were deleted there are not among them.
    #[prost(btree_map = "uint64, string", tag = "19")]
    pub listed_accounts: BTreeMap<u64, String>,
}

/// A grant.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Grant {
    #[prost(string, tag = "1")]
    pub account: String,
    #[prost(enumeration = "crate::record::account::GrantMode", tag = "2")]
    pub mode: i32,
}

/// A chunk.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Chunk {
    #[prost(bytes = "vec", tag = "1")]
    pub hash: Vec<u8>,
    /// Its length in bytes.
    #[prost(uint64, tag = "2")]
    pub length: u64,
}

/// A record of the bucket's tree.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Entry {
    /// Its kind: the first byte of its key.
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    /// Its key, without kind, clone group and branch.
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub value: Vec<u8>,
}

/// A blob.
#[derive(Clone, PartialEq, Message)]
pub(super) struct BlobEntry {
    /// Its id in the original store.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(uint64, tag = "2")]
    pub length: u64,
    /// Whether the store has checksums of it; otherwise a mount wrote it, possibly with holes.
    #[prost(bool, tag = "3")]
    pub summed: bool,
    /// Its bytes, in order; empty if it was damaged.
    #[prost(message, repeated, tag = "4")]
    pub pieces: Vec<Piece>,
    /// Why the backup lacks its content.
    #[prost(string, optional, tag = "5")]
    pub damaged: Option<String>,
}

/// A run of bytes of a blob.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Piece {
    /// The chunk that contains it; empty for zeros.
    #[prost(bytes = "vec", tag = "1")]
    pub hash: Vec<u8>,
    /// The offset in the chunk.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    #[prost(uint64, tag = "3")]
    pub length: u64,
}

pub(super) fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

pub(super) fn hex(hash: &[u8]) -> String {
    hex_simd::encode_to_string(hash, hex_simd::AsciiCase::Lower)
}

/// Whether a message has so many fields that it would take many times its length in memory. A message of a store has
/// some thousand short fields at most; all others are longer.
pub(super) fn is_bloated(message: &[u8]) -> bool {
    const SHORT_FIELDS: usize = 1 << 14;
    const FIELD_BYTES: usize = 16;
    let (mut rest, mut fields) = (message, 0);
    while !rest.is_empty() {
        let skipped =
            decode_key(&mut rest).and_then(|(tag, wire)| skip_field(wire, tag, &mut rest, DecodeContext::default()));
        // A malformed message is refused where it is decoded.
        if skipped.is_err() {
            return false;
        }
        fields += 1;
    }
    fields > SHORT_FIELDS + message.len() / FIELD_BYTES
}

/// Takes the next message from the bytes of a chunk.
pub(super) fn next_message<M: Message + Default>(chunk: &mut Bytes) -> Result<M> {
    let odd = |found: String| Error::corrupt("a backup", "messages in its chunks", found);
    let length = prost::decode_length_delimiter(&mut *chunk).map_err(|error| odd(error.to_string()))?;
    if length > chunk.len() {
        return Err(odd(format!("{length} bytes of which {} are there", chunk.len())));
    }
    let message = chunk.split_to(length);
    if length as u64 > MESSAGE_MAX || is_bloated(&message) {
        return Err(odd(format!("one of {length} bytes with more fields than a store writes")));
    }
    M::decode(message).map_err(|error| odd(error.to_string()))
}

impl Manifest {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &self.encode_to_vec()].concat();
        let digest = hash(&bytes);
        bytes.extend_from_slice(&digest);
        bytes
    }

    /// Decodes a manifest; one that is damaged or of another format is refused.
    pub(super) fn from_bytes(what: &str, bytes: &[u8]) -> Result<Self> {
        let damaged = |found: &str| Error::corrupt(what, "a whole manifest", found);
        let (body, digest) = bytes.split_last_chunk::<DIGEST_BYTES>().ok_or_else(|| damaged("too few bytes"))?;
        let message = body.strip_prefix(MAGIC).ok_or_else(|| damaged("other bytes at its beginning"))?;
        if hash(body) != *digest {
            return Err(damaged("another checksum"));
        }
        if is_bloated(message) {
            return Err(damaged("more fields than a store writes"));
        }
        let manifest = Self::decode(message).map_err(|error| damaged(&error.to_string()))?;
        if !(FORMAT..=FORMAT_WITH_LISTS).contains(&manifest.format) {
            let why = format!(
                "{what} is of format {}, this build reads {FORMAT} to {FORMAT_WITH_LISTS}: use the one that made it",
                manifest.format
            );
            return Err(Error::Unusable { why });
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_would_fill_the_memory_is_not_decoded() {
        let piece = Piece { hash: vec![7; DIGEST_BYTES], offset: 1, length: 4096 };
        let hole = Piece { hash: Vec::new(), offset: 0, length: 4096 };
        let dense = BlobEntry { id: 1, pieces: vec![[piece, hole]; 1 << 16].concat(), ..BlobEntry::default() };
        let mut chunk = Bytes::from(dense.encode_length_delimited_to_vec());
        assert_eq!(next_message::<BlobEntry>(&mut chunk).unwrap(), dense);
        assert!(chunk.is_empty());
        let bloated = BlobEntry { id: 1, pieces: vec![Piece::default(); 1 << 20], ..BlobEntry::default() };
        let mut chunk = Bytes::from(bloated.encode_length_delimited_to_vec());
        assert!(next_message::<BlobEntry>(&mut chunk).unwrap_err().to_string().contains("more fields"));
        let mut cut = Bytes::from_static(&[200, 1, 8]);
        assert!(next_message::<BlobEntry>(&mut cut).unwrap_err().to_string().contains("200 bytes of which 1"));
    }

    #[test]
    fn a_manifest_round_trips_and_no_changed_byte_is_read() {
        let manifest = Manifest { format: FORMAT, bucket: "jar".into(), objects: 7, ..Manifest::default() };
        let bytes = manifest.to_bytes();
        assert_eq!(Manifest::from_bytes("it", &bytes).unwrap(), manifest);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            assert!(Manifest::from_bytes("it", &damaged).is_err(), "byte {at}");
        }
        assert!(Manifest::from_bytes("it", &bytes[..20]).is_err());
        let bloated = Manifest { records: vec![Chunk::default(); 1 << 20], ..manifest.clone() }.to_bytes();
        assert!(Manifest::from_bytes("it", &bloated).unwrap_err().to_string().contains("more fields"));
        let full = Chunk { hash: vec![7; DIGEST_BYTES], length: 1 << 20 };
        let large = Manifest { records: vec![full; 1 << 20], ..manifest.clone() };
        assert_eq!(Manifest::from_bytes("it", &large.to_bytes()).unwrap(), large);
        let listed = Manifest { format: FORMAT_WITH_LISTS, ..manifest.clone() };
        assert_eq!(Manifest::from_bytes("it", &listed.to_bytes()).unwrap(), listed);
        let other = Manifest { format: 3, ..manifest };
        assert!(Manifest::from_bytes("it", &other.to_bytes()).unwrap_err().to_string().contains("format 3"));
    }
}
