//! What is refused before `s3s` sees a request, because it would let it pass.
//!
//! - `s3s` itself refuses: a repeated Host, a presigned URL over 7 days, a clock more than 15
//!   minutes off, another region in the credential scope, unsigned `x-amz-…` headers, bodies over 5 GiB.
//! - Nothing here depends on who asks, so a refusal tells a stranger nothing.

use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Uri};
use s3s::{S3ErrorCode, S3Result};

use crate::error::{custom, not_offered, refuse};

/// Names and values of all headers together, in bytes. A presigned URL is not among them.
const HEADER_BYTES_MAX: usize = 32 * 1024;

/// Checks the head of a request.
pub(crate) fn check(head: &Parts) -> S3Result<()> {
    check_size(&head.headers)?;
    check_signature(&head.uri, &head.headers)?;
    check_token(&head.uri, &head.headers)?;
    check_form(&head.method, &head.headers)?;
    check_part(&head.method, &head.uri)?;
    check_framing(&head.headers)
}

fn check_size(headers: &HeaderMap) -> S3Result<()> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > HEADER_BYTES_MAX {
        let words = format!("The headers take {bytes} bytes; at most {HEADER_BYTES_MAX} are read.");
        return Err(refuse(S3ErrorCode::RequestHeaderSectionTooLarge, words));
    }
    Ok(())
}

/// `s3s` refuses Signature Version 2 too, without saying what to use; some clients still presign with it by default.
fn check_signature(uri: &Uri, headers: &HeaderMap) -> S3Result<()> {
    let header = text(headers, AUTHORIZATION.as_str()).is_some_and(|value| value.starts_with("AWS "));
    if header || has_parameter(uri, "AWSAccessKeyId") {
        return Err(refuse(
            S3ErrorCode::InvalidRequest,
            "Signature Version 2 is not supported; sign with Version 4 (AWS4-HMAC-SHA256, signature_version s3v4).",
        ));
    }
    Ok(())
}

/// No session tokens are given out, so each that comes is foreign.
fn check_token(uri: &Uri, headers: &HeaderMap) -> S3Result<()> {
    if headers.contains_key("x-amz-security-token") || has_parameter(uri, "x-amz-security-token") {
        return Err(custom(
            "InvalidToken",
            StatusCode::BAD_REQUEST,
            "Amphora gives out no session tokens; use a key without one.",
        ));
    }
    Ok(())
}

/// `s3s` would read a whole form before anybody asked who sends it.
fn check_form(method: &Method, headers: &HeaderMap) -> S3Result<()> {
    let form = text(headers, CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with("multipart/form-data"));
    if *method == Method::POST && form { Err(not_offered("PostObject")) } else { Ok(()) }
}

/// A part that lost half of its address would be stored as the object, in place of what is there.
fn check_part(method: &Method, uri: &Uri) -> S3Result<()> {
    if *method != Method::PUT || has_parameter(uri, "partNumber") == has_parameter(uri, "uploadId") {
        return Ok(());
    }
    let words = "partNumber and uploadId go together: a part is stored with both, an object with neither.";
    Err(refuse(S3ErrorCode::InvalidArgument, words))
}

/// Framed bytes may be stored only if `s3s` takes the frames off, which it does for `STREAMING-…` payloads alone.
fn check_framing(headers: &HeaderMap) -> S3Result<()> {
    let declared = headers.contains_key("x-amz-decoded-content-length");
    let encoded = headers.get_all(CONTENT_ENCODING).iter().any(|value| names_framing(value.as_bytes()));
    let payload = text(headers, "x-amz-content-sha256").unwrap_or_default();
    let decoded = payload.starts_with("STREAMING-");
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

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether the query has a parameter, whatever its case.
pub(crate) fn has_parameter(uri: &Uri, name: &str) -> bool {
    let mut names = uri.query().unwrap_or_default().split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    names.any(|found| found.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn code(method: &str, uri: &str, headers: &[(&str, &str)]) -> String {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        check(&head).err().map(|error| error.code().as_str().to_owned()).unwrap_or_default()
    }

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
    }

    #[test]
    fn old_signatures_foreign_tokens_forms_and_huge_headers_are_refused() {
        assert_eq!(code("GET", "/abc", &[("authorization", "AWS AKID:c2ln")]), "InvalidRequest");
        assert_eq!(code("GET", "/abc?AWSAccessKeyId=AKID&Signature=c2ln&Expires=1", &[]), "InvalidRequest");
        assert_eq!(code("GET", "/abc", &[("x-amz-security-token", "t")]), "InvalidToken");
        assert_eq!(code("GET", "/abc?X-Amz-Security-Token=t", &[]), "InvalidToken");
        assert_eq!(code("POST", "/abc", &[("content-type", "multipart/form-data; boundary=x")]), "NotImplemented");
        assert_eq!(
            code("GET", "/abc", &[("x-amz-meta-a", &"x".repeat(HEADER_BYTES_MAX))]),
            "RequestHeaderSectionTooLarge"
        );
    }
}
