//! Entity tags as S3 makes them: the MD5 of the content, or of the MD5s of the parts.

use md5::{Digest, Md5};

use super::reader::Reader;
use crate::error::Result;

/// Bytes hashed at a time.
const CHUNK: usize = 1 << 20;

/// The MD5, in hex, of a range of an object.
pub(crate) fn md5_of(reader: &Reader, offset: u64, length: u64) -> Result<String> {
    hash_of(reader, offset, length, |_| Ok(()))
}

/// The same, and hands the bytes on.
pub(crate) fn hash_of(
    reader: &Reader,
    offset: u64,
    length: u64,
    mut hand_on: impl FnMut(&[u8]) -> Result<()>,
) -> Result<String> {
    let mut hash = Md5::new();
    let mut at = offset;
    while at < offset + length {
        let len = usize::try_from(offset + length - at).unwrap_or(CHUNK).min(CHUNK);
        let data = reader.read(at, len)?;
        hash.update(&data);
        hand_on(&data)?;
        at += data.len().max(1) as u64;
    }
    Ok(hex_simd::encode_to_string(hash.finalize(), hex_simd::AsciiCase::Lower))
}

/// The entity tag of an object made of parts with these entity tags.
pub(crate) fn multipart_etag<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let mut hash = Md5::new();
    let mut count = 0;
    for etag in parts {
        hash.update(hex_simd::decode_to_vec(etag).unwrap_or_default());
        count += 1;
    }
    format!("{}-{count}", hex_simd::encode_to_string(hash.finalize(), hex_simd::AsciiCase::Lower))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_parts_is_the_hash_of_their_hashes() {
        // md5("") twice: as `aws s3api complete-multipart-upload` would show it.
        let empty = "d41d8cd98f00b204e9800998ecf8427e";
        assert_eq!(multipart_etag([empty].into_iter()), "59adb24ef3cdbe0297f05b395827453f-1");
    }
}
