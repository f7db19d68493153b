//! What is refused before `s3s` sees a request, because it would let it pass, or tell it otherwise than AWS does.
//!
//! - `s3s` itself refuses: a repeated Host, a clock more than 15 minutes off, unsigned `x-amz-…` headers, bodies over
//!   5 GiB.
//! - Nothing here depends on who asks, so a refusal tells a stranger nothing.

mod framing;
mod header;
mod hoisted;
mod presigned;
mod query;
mod scope;
mod subresource;

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Method};
use s3s::{S3ErrorCode, S3Result};

use crate::body::Kind;
use crate::error::refuse;
use crate::xml;

pub(crate) use hoisted::hoist;
pub(crate) use presigned::EXPIRES_SECONDS_MAX;
pub(crate) use query::{Query, order_repeated};

/// Names and values of all headers together, in bytes. A presigned URL is not among them.
const HEADER_BYTES_MAX: usize = 32 * 1024;

/// Parameters that hold keys, parts of keys and ids, which may have any character.
const TEXTS: [&str; 10] = [
    "prefix",
    "delimiter",
    "marker",
    "key-marker",
    "start-after",
    "continuation-token",
    "version-id-marker",
    "upload-id-marker",
    "versionId",
    "uploadId",
];

/// Checks the head of a request to an endpoint in `region`, with a body of this kind.
pub(crate) fn check(head: &Parts, body: Kind, region: &str) -> S3Result<()> {
    check_size(&head.headers)?;
    let query = Query::of(&head.uri);
    check_characters(&query)?;
    subresource::check(&query)?;
    check_version(&query, &head.headers)?;
    header::check(&head.headers, &query, region)?;
    presigned::check(&query, region)?;
    hoisted::check(&query, &head.headers)?;
    check_token(&query, &head.headers)?;
    check_part(&head.method, &query)?;
    framing::check(&head.headers, body)
}

/// Refuses headers too large to be worked on.
pub(crate) fn check_size(headers: &HeaderMap) -> S3Result<()> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > HEADER_BYTES_MAX {
        let words = format!("The headers take {bytes} bytes; at most {HEADER_BYTES_MAX} are read.");
        return Err(refuse(S3ErrorCode::RequestHeaderSectionTooLarge, words));
    }
    Ok(())
}

/// Refuses control characters where no key or id stands: `s3s` quotes what it cannot read, and fails at writing it.
fn check_characters(query: &Query) -> S3Result<()> {
    let odd = |(name, value): &&(String, String)| {
        !xml::takes(name) || (!xml::takes(value) && !TEXTS.contains(&name.as_str()))
    };
    match query.pairs().iter().find(odd) {
        None => Ok(()),
        Some(_) => Err(refuse(S3ErrorCode::InvalidArgument, "A parameter of the URL holds a control character.")),
    }
}

/// `s3s` refuses Signature Version 2 too, without saying what to use; some clients still presign with it by default.
fn check_version(query: &Query, headers: &HeaderMap) -> S3Result<()> {
    let header = text(headers, AUTHORIZATION.as_str()).is_some_and(|value| value.starts_with("AWS "));
    if header || query.has_in_any_case("AWSAccessKeyId") {
        return Err(refuse(
            S3ErrorCode::InvalidRequest,
            "Signature Version 2 is not supported; sign with Version 4 (AWS4-HMAC-SHA256, signature_version s3v4).",
        ));
    }
    Ok(())
}

/// No session tokens are given out, so each that comes is foreign.
fn check_token(query: &Query, headers: &HeaderMap) -> S3Result<()> {
    if headers.contains_key("x-amz-security-token") || query.has_in_any_case("x-amz-security-token") {
        return Err(refuse(S3ErrorCode::InvalidToken, "Amphora gives out no session tokens; use a key without one."));
    }
    Ok(())
}

/// A part that lost half of its address would be stored as the object, in place of what is there.
fn check_part(method: &Method, query: &Query) -> S3Result<()> {
    if *method != Method::PUT || query.has_in_any_case("partNumber") == query.has_in_any_case("uploadId") {
        return Ok(());
    }
    let words = "partNumber and uploadId go together: a part is stored with both, an object with neither.";
    Err(refuse(S3ErrorCode::InvalidArgument, words))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code a head is refused with, or nothing.
    pub(super) fn code(method: &str, uri: &str, headers: &[(&str, &str)]) -> String {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let of_object = head.uri.path().trim_matches('/').contains('/');
        check(&head, Kind::of(&head, of_object), "us-east-1")
            .err()
            .map(|error| error.code().as_str().to_owned())
            .unwrap_or_default()
    }

    /// The query of a presigned URL with nothing wrong but its signature.
    pub(super) fn presigned() -> String {
        format!(
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKID%2F20260131%2Fus-east-1%2Fs3%2Faws4_request\
             &X-Amz-Date=20260131T120000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature={}",
            "0".repeat(64)
        )
    }

    #[test]
    fn old_signatures_foreign_tokens_and_huge_headers_are_refused() {
        assert_eq!(code("GET", "/abc", &[("authorization", "AWS AKID:c2ln")]), "InvalidRequest");
        assert_eq!(code("GET", "/abc?AWSAccessKeyId=AKID&Signature=c2ln&Expires=1", &[]), "InvalidRequest");
        assert_eq!(code("GET", "/abc", &[("x-amz-security-token", "t")]), "InvalidToken");
        assert_eq!(code("GET", "/abc?X-Amz-Security-Token=t", &[]), "InvalidToken");
        assert_eq!(
            code("GET", "/abc", &[("x-amz-meta-a", &"x".repeat(HEADER_BYTES_MAX))]),
            "RequestHeaderSectionTooLarge"
        );
    }

    #[test]
    fn control_characters_stand_in_keys_alone() {
        assert_eq!(code("GET", "/abc?max-keys=9%00", &[]), "InvalidArgument");
        assert_eq!(code("GET", "/abc?a%19=b", &[]), "InvalidArgument");
        assert_eq!(code("GET", "/abc?prefix=%00&start-after=%19&versions", &[]), "");
    }

    #[test]
    fn half_a_part_is_refused() {
        assert_eq!(code("PUT", "/abc/k?partNumber=1", &[]), "InvalidArgument");
        assert_eq!(code("PUT", "/abc/k?uploadId=u", &[]), "InvalidArgument");
        assert_eq!(code("PUT", "/abc/k?partNumber=1&uploadId=u", &[]), "");
    }
}
