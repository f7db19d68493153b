//! Framed bytes may be stored only if `s3s` takes the frames off, which it does for `STREAMING-…` payloads alone.
//!
//! - Frames are for uploads: around a document they are refused. `s3s` would call broken ones the server's failure.

use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use s3s::{S3ErrorCode, S3Result};

use super::text;
use crate::body::Kind;
use crate::error::refuse;

/// Refuses frames that would stay on, and those around a document.
pub(super) fn check(headers: &HeaderMap, kind: Kind) -> S3Result<()> {
    let declared = headers.contains_key("x-amz-decoded-content-length");
    let encoded = headers.get_all(CONTENT_ENCODING).iter().any(|value| names_framing(value.as_bytes()));
    let payload = text(headers, "x-amz-content-sha256").unwrap_or_default();
    let decoded = payload.starts_with("STREAMING-");
    if decoded && kind == Kind::Document {
        let words = "Only objects and parts are sent in chunks: x-amz-content-sha256 is the hash of the body here.";
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
    use super::super::tests::code;

    const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn framing_is_taken_off_or_refused() {
        let (encoding, sha, length) = ("content-encoding", "x-amz-content-sha256", "x-amz-decoded-content-length");
        let table: [(&[(&str, &str)], &str); 8] = [
            (&[(sha, "UNSIGNED-PAYLOAD")], ""),
            (&[(encoding, "aws-chunked"), (sha, "STREAMING-UNSIGNED-PAYLOAD-TRAILER"), (length, "5")], ""),
            (&[(encoding, "gzip"), (sha, "UNSIGNED-PAYLOAD")], ""),
            // The hash is of the bytes as they come, so they are the content; only the name of the coding is dropped.
            (&[(encoding, "aws-chunked"), (sha, HASH)], ""),
            (&[(encoding, "aws-chunked"), (sha, "UNSIGNED-PAYLOAD")], "InvalidRequest"),
            (&[(encoding, "gzip, AWS-chunked")], "InvalidRequest"),
            (&[(length, "5"), (sha, "UNSIGNED-PAYLOAD")], "InvalidRequest"),
            (&[(length, "5"), (sha, HASH)], "InvalidRequest"),
        ];
        for (headers, expected) in table {
            assert_eq!(code("PUT", "/abc/k", headers), expected, "{headers:?}");
        }
        let framed = [(sha, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), (length, "5")];
        for (method, uri, expected) in [
            ("PUT", "/abc/k?partNumber=1&uploadId=u", ""),
            ("PUT", "/abc/k?tagging", "InvalidRequest"),
            ("PUT", "/abc?cors", "InvalidRequest"),
            ("POST", "/abc?delete", "InvalidRequest"),
        ] {
            assert_eq!(code(method, uri, &framed), expected, "{method} {uri}");
        }
    }
}
