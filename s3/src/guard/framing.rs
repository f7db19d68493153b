//! Chunked uploads (`aws-chunked`): accepted only where `s3s` removes the chunk framing, which is for `STREAMING-…`
//! payloads of requests signed by a header.
//!
//! - Chunks are for object content: around a document they are refused, because `s3s` would report broken ones as an
//!   internal error.

use http::HeaderMap;
use http::header::{AUTHORIZATION, CONTENT_ENCODING};
use s3s::{S3ErrorCode, S3Result};

use super::text;
use crate::body::Kind;
use crate::error::refuse;

/// Refuses chunk framing that would be stored as content, and framing around a document.
pub(super) fn check(headers: &HeaderMap, kind: Kind) -> S3Result<()> {
    let declared = headers.contains_key("x-amz-decoded-content-length");
    let encoded = headers.get_all(CONTENT_ENCODING).iter().any(|value| names_framing(value.as_bytes()));
    let payload = text(headers, "x-amz-content-sha256").unwrap_or_default();
    let decoded = payload.starts_with("STREAMING-");
    if decoded && kind == Kind::Document {
        let words = "Only objects and parts are sent in chunks: x-amz-content-sha256 is the hash of the body here.";
        return Err(refuse(S3ErrorCode::InvalidRequest, words));
    }
    if decoded && !headers.contains_key(AUTHORIZATION) {
        let words = "A body in chunks is signed by the Authorization header: send the body as it is.";
        return Err(refuse(S3ErrorCode::InvalidRequest, words));
    }
    let hashed = payload.len() == 64 && payload.bytes().all(|byte| byte.is_ascii_hexdigit());
    if decoded || !(declared || encoded && !hashed) {
        return Ok(());
    }
    Err(refuse(
        S3ErrorCode::InvalidRequest,
        "The body is said to be aws-chunked, and x-amz-content-sha256 does not say so: use STREAMING-….",
    ))
}

fn names_framing(encoding: &[u8]) -> bool {
    encoding.split(|byte| *byte == b',').any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"aws-chunked"))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const SIGNED: (&str, &str) = ("authorization", "AWS4-HMAC-SHA256 …");

    fn taken(headers: &[(&str, &str)], kind: Kind) -> bool {
        let header = |(name, value): &(&str, &str)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        };
        check(&headers.iter().map(header).collect(), kind).is_ok()
    }

    #[test]
    fn framing_is_taken_off_or_refused() {
        let (encoding, sha, length) = ("content-encoding", "x-amz-content-sha256", "x-amz-decoded-content-length");
        let trailed = (sha, "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
        let table: [(&[(&str, &str)], bool); 9] = [
            (&[(sha, "UNSIGNED-PAYLOAD")], true),
            (&[(encoding, "aws-chunked"), trailed, (length, "5"), SIGNED], true),
            (&[(encoding, "aws-chunked"), trailed, (length, "5")], false),
            (&[(encoding, "gzip"), (sha, "UNSIGNED-PAYLOAD")], true),
            // The hash covers the bytes as sent, so they are the content; only the name of the coding is dropped.
            (&[(encoding, "aws-chunked"), (sha, HASH)], true),
            (&[(encoding, "aws-chunked"), (sha, "UNSIGNED-PAYLOAD")], false),
            (&[(encoding, "gzip, AWS-chunked")], false),
            (&[(length, "5"), (sha, "UNSIGNED-PAYLOAD")], false),
            (&[(length, "5"), (sha, HASH)], false),
        ];
        for (headers, expected) in table {
            assert_eq!(taken(headers, Kind::Content), expected, "{headers:?}");
        }
        let framed = [(sha, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), (length, "5"), SIGNED];
        assert!(taken(&framed, Kind::Chunks) && !taken(&framed, Kind::Document));
    }
}
