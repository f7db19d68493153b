//! Checks before `s3s` sees a request: refuses what it would accept, or refuse differently than AWS.
//!
//! - `s3s` itself refuses a repeated Host, a clock more than 15 minutes off, unsigned `x-amz-…` headers, and bodies
//!   over 5 GiB.
//! - These checks do not depend on the caller, so a refusal reveals nothing to a stranger.

mod framing;
mod header;
mod hoisted;
mod method;
mod presigned;
mod scope;
mod session_token;
mod subresource;

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Method};
use s3s::{S3ErrorCode, S3Result};

use crate::address::Resource;
use crate::body::{Kind, is_form};
use crate::error::{Detail as _, bad_argument, refuse, says};
use crate::query::{Query, chosen, signature_v2};
use crate::xml;

pub(crate) use hoisted::hoist;
pub(crate) use presigned::EXPIRES_SECONDS_MAX;
pub(crate) use session_token::find as session_token;

/// The most bytes of all header names and values; a presigned URL is not counted.
const HEADER_BYTES_MAX: usize = 32 * 1024;

/// Parameters that hold keys, key prefixes and ids, which may contain any character.
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

/// The settings that requests are checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint<'a> {
    /// The region of the endpoint.
    pub(crate) region: &'a str,
    /// Whether presigned URLs of Signature Version 2 are accepted.
    pub(crate) presigned_v2: bool,
}

/// Checks the head of a request on a resource of this kind, with a body of this kind.
pub(crate) fn check(head: &Parts, resource: Resource, body: Kind, endpoint: Endpoint<'_>) -> S3Result<()> {
    let region = endpoint.region;
    check_size(&head.headers)?;
    let query = Query::of(&head.uri);
    check_characters(&query)?;
    subresource::check(&query)?;
    method::check(&head.method, resource, chosen(&query), is_form(head))?;
    check_version(&query, &head.headers, endpoint)?;
    header::check(&head.headers, &query, region)?;
    presigned::check(&query, region)?;
    hoisted::check(&query, &head.headers)?;
    session_token::find(&query, &head.headers)?;
    check_part(&head.method, &query)?;
    framing::check(&head.headers, body)
}

/// Refuses headers that are too large.
pub(crate) fn check_size(headers: &HeaderMap) -> S3Result<()> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > HEADER_BYTES_MAX {
        let words = format!("The headers take {bytes} bytes; at most {HEADER_BYTES_MAX} are read.");
        let error = refuse(S3ErrorCode::RequestHeaderSectionTooLarge, words);
        return Err(error.with("MaxSizeAllowed", HEADER_BYTES_MAX));
    }
    Ok(())
}

/// Refuses control characters in parameters other than keys and ids: `s3s` quotes values that it cannot parse, and
/// fails to write them.
fn check_characters(query: &Query) -> S3Result<()> {
    let odd = |(name, value): &&(String, String)| {
        !xml::takes(name) || (!xml::takes(value) && !TEXTS.contains(&name.as_str()))
    };
    match query.pairs().iter().find(odd) {
        None => Ok(()),
        Some(_) => Err(refuse(S3ErrorCode::InvalidArgument, "A parameter of the URL holds a control character.")),
    }
}

/// Accepts Signature Version 2 in URLs only, and there only instead of another signature.
fn check_version(query: &Query, headers: &HeaderMap, endpoint: Endpoint<'_>) -> S3Result<()> {
    let header = text(headers, AUTHORIZATION.as_str()).is_some_and(|value| value.starts_with("AWS "));
    let url = signature_v2::is_claimed(query);
    if header || url && !endpoint.presigned_v2 {
        let sentence = "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.";
        let hint = "Sign with Version 4: set signature_version to s3v4.";
        return Err(says(S3ErrorCode::InvalidRequest, sentence).hint(hint));
    }
    if url && presigned::is_claimed(query) {
        return Err(says(S3ErrorCode::InvalidArgument, header::ONE_MECHANISM).with("ArgumentName", "Authorization"));
    }
    Ok(())
}

/// Refuses a part with an incomplete address, which would otherwise replace the object.
fn check_part(method: &Method, query: &Query) -> S3Result<()> {
    if *method != Method::PUT || query.has_in_any_case("partNumber") == query.has_in_any_case("uploadId") {
        return Ok(());
    }
    let (given, other) =
        if query.has_in_any_case("partNumber") { ("partNumber", "uploadId") } else { ("uploadId", "partNumber") };
    let words = format!("This operation does not accept {given} without {other}");
    Err(bad_argument(words, given, query.get(given).unwrap_or_default()))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Address, Domains};

    /// The code that a head is refused with; empty if it is accepted.
    pub(super) fn code(method: &str, uri: &str, headers: &[(&str, &str)]) -> String {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let address = Address::new(&Domains::default(), "", head.uri.path());
        let endpoint = Endpoint { region: "us-east-1", presigned_v2: false };
        check(&head, address.resource(), Kind::of(&head, address.key.is_some()), endpoint)
            .err()
            .map(|error| error.code().as_str().to_owned())
            .unwrap_or_default()
    }

    /// The query of a presigned URL that is correct except for its signature.
    pub(super) fn presigned() -> String {
        format!(
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKID%2F20260131%2Fus-east-1%2Fs3%2Faws4_request\
             &X-Amz-Date=20260131T120000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature={}",
            "0".repeat(64)
        )
    }

    #[test]
    fn old_signatures_and_huge_headers_are_refused() {
        assert_eq!(code("GET", "/abc", &[("authorization", "AWS AKID:c2ln")]), "InvalidRequest");
        assert_eq!(code("GET", "/abc?AWSAccessKeyId=AKID&Signature=c2ln&Expires=1", &[]), "InvalidRequest");
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
