//! The entity tag of a multipart object: the MD5 of the parts' MD5s, and their count.

use md5::{Digest, Md5};

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
