//! Continuation tokens of listings: opaque to clients, and made of the last key.
//!
//! - A token is a CRC and the key, in URL-safe base64, so that a truncated, altered or invented token is refused
//!   instead of listing from an arbitrary place.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use crc_fast::{CrcAlgorithm, checksum};
use s3s::S3Result;

use crate::error::bad_argument;

const CRC_BYTES: usize = 4;

/// The token for continuing after `key`.
pub(crate) fn encode(key: &str) -> String {
    let mut bytes = crc(key.as_bytes()).to_vec();
    bytes.extend_from_slice(key.as_bytes());
    BASE64.encode(bytes)
}

/// The key after which a token continues.
pub(crate) fn decode(token: &str) -> S3Result<String> {
    let bytes = BASE64.decode(token).unwrap_or_default();
    let key = bytes.split_at_checked(CRC_BYTES).filter(|(sum, key)| **sum == crc(key)).map(|(_, key)| key.to_vec());
    let key = key.and_then(|key| String::from_utf8(key).ok());
    key.ok_or_else(|| bad_argument("The continuation token provided is incorrect", "continuation-token", token))
}

fn crc(key: &[u8]) -> [u8; CRC_BYTES] {
    // A 32-bit algorithm leaves the upper half empty.
    let sum = checksum(CrcAlgorithm::Crc32Iscsi, key).to_be_bytes();
    [sum[4], sum[5], sum[6], sum[7]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_give_back_their_key() {
        for key in ["a", "a/b c", "ü/\u{10ffff}", ""] {
            assert_eq!(decode(&encode(key)).unwrap(), key);
        }
    }

    #[test]
    fn tokens_that_were_not_made_here_are_refused() {
        let mut changed = encode("photos/1").into_bytes();
        changed[7] ^= 1;
        for bad in ["", "a", "%%%", "bGFzdC1rZXk", std::str::from_utf8(&changed).unwrap()] {
            assert_eq!(decode(bad).unwrap_err().code().as_str(), "InvalidArgument", "{bad}");
        }
    }
}
