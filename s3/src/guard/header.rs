//! The `Authorization` header: malformed values that `s3s` accepts, or refuses with other codes and words than AWS.
//!
//! - It is parsed as `s3s` parses it, so both see the same.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use s3s::{S3ErrorCode, S3Result};
use s3s_sigv4::{AmzContentSha256, AuthorizationV4, ParseAuthorizationError};

use super::scope::{ALGORITHM, Place, Scope};
use super::text;
use crate::error::{Detail as _, bad_argument, refuse, says};
use crate::query::Query;

/// The fields of an `Authorization` header.
const FIELDS: [&str; 3] = ["Credential=", "SignedHeaders=", "Signature="];
/// `20260131T120000Z`
const DATE_BYTES: usize = 16;
const DAY_BYTES: usize = 8;
/// AWS's message for a request that is signed twice.
pub(super) const ONE_MECHANISM: &str = "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, \
                                        Signature query string parameter or the Authorization header should be specified";
const PAYLOAD: &str = "x-amz-content-sha256";

/// Checks the header, if present.
pub(super) fn check(headers: &HeaderMap, query: &Query, region: &str) -> S3Result<()> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let Some(given) = all.next().map(|value| value.to_str().unwrap_or("?").trim()) else { return Ok(()) };
    if given.is_empty() {
        return Err(refuse(S3ErrorCode::AccessDenied, "The Authorization header is empty; sign the request."));
    }
    if all.next().is_some() || signs(query) {
        return Err(says(S3ErrorCode::InvalidArgument, ONE_MECHANISM).with("ArgumentName", "Authorization"));
    }
    if given.split_ascii_whitespace().next() != Some(ALGORITHM) {
        let kind = given.split_ascii_whitespace().next().unwrap_or_default();
        let error = says(S3ErrorCode::InvalidArgument, "Unsupported Authorization Type");
        let error = error.with("ArgumentName", "Authorization").with("ArgumentValue", kind);
        return Err(error.hint(format!("Sign with {ALGORITHM}.")));
    }
    let parsed = AuthorizationV4::parse(given);
    if matches!(parsed, Err(ParseAuthorizationError::Malformed)) {
        return Err(Place::Header.refuse(&malformed(given)));
    }
    let date = text(headers, "x-amz-date").unwrap_or_default();
    if date.len() != DATE_BYTES || !date.ends_with('Z') || date.as_bytes().get(DAY_BYTES) != Some(&b'T') {
        let words = "AWS authentication requires a valid Date or x-amz-date header";
        return Err(says(S3ErrorCode::AccessDenied, words).hint("Give x-amz-date as in 20260131T120000Z."));
    }
    if let Some(payload) = text(headers, PAYLOAD).filter(|payload| AmzContentSha256::parse(payload).is_err()) {
        let words = "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, \
                     STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, \
                     STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD, STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER or a valid \
                     sha256 value.";
        return Err(bad_argument(words, PAYLOAD, payload));
    }
    // The remaining mistakes make an invalid signature, which `s3s` refuses as a mismatch.
    let Ok(AuthorizationV4 { credential, signed_headers, .. }) = parsed else { return Ok(()) };
    let day = date.get(..DAY_BYTES).unwrap_or_default();
    Scope { place: Place::Header, credential: &credential, day, signed: &signed_headers }.check(region)
}

/// Whether the URL is signed too, with either version.
fn signs(query: &Query) -> bool {
    query.has("Signature") || ["X-Amz-Algorithm", "X-Amz-Signature"].iter().any(|name| query.has_in_any_case(name))
}

/// What is wrong with a header that cannot be parsed.
fn malformed(given: &str) -> String {
    match FIELDS.iter().find(|name| !given.contains(**name)) {
        Some(missing) => format!("it lacks {}.", missing.trim_end_matches('=')),
        None => format!(
            "it is written {ALGORITHM} Credential=KEY/YYYYMMDD/REGION/s3/aws4_request, SignedHeaders=NAME;NAME, \
             Signature=HEX."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::code;

    #[test]
    fn broken_credentials_are_told_as_aws_tells_them() {
        let whole = format!(
            "AWS4-HMAC-SHA256 Credential=AKID/20260131/us-east-1/s3/aws4_request, SignedHeaders=host, Signature={}",
            "0".repeat(64)
        );
        let malformed = "AuthorizationHeaderMalformed";
        let table = [
            ("", whole.clone(), ""),
            ("", String::new(), "AccessDenied"),
            ("", "Basic YTpi".to_owned(), "InvalidArgument"),
            ("", whole.replace("SHA256 ", "SHA512 "), "InvalidArgument"),
            ("", whole.replace("SHA256 ", "SHA2567 "), "InvalidArgument"),
            ("", "AWS4-HMAC-SHA256 Credential=AKID".to_owned(), malformed),
            ("", whole.replace("/s3/", "/"), malformed),
            ("", whole.replace("aws4_", ""), malformed),
            ("", whole.replace("/20260131/", "/202601311/"), malformed),
            ("", whole.replace("/20260131/", "/20260130/"), malformed),
            ("", whole.replace("/s3/", "/ec2/"), malformed),
            ("", whole.replace("us-east-1", "eu-west-1"), malformed),
            ("", whole.replace("=host,", "=range;x-amz-date,"), "AccessDenied"),
            ("", whole.replace("=host,", "=Host,"), ""),
            ("?X-Amz-Signature=0", whole.clone(), "InvalidArgument"),
            ("?X%2DAmz%2DSignature=0", whole.clone(), "InvalidArgument"),
            ("?x-amz-algorithm=AWS4-HMAC-SHA256", whole, "InvalidArgument"),
        ];
        for (query, authorization, expected) in table {
            let headers = [("x-amz-date", "20260131T120000Z"), ("authorization", &*authorization)];
            assert_eq!(code("GET", &format!("/abc/k{query}"), &headers), expected, "{query} {authorization}");
        }
    }

    #[test]
    fn a_signature_has_a_date_and_stands_alone() {
        let whole =
            "AWS4-HMAC-SHA256 Credential=AKID/20260131/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        let signed = ("authorization", whole);
        for dates in [&[][..], &[("x-amz-date", "Tue, 07 Jul 2010 21:53:04 GMT")]] {
            assert_eq!(code("GET", "/abc/k", &[&[signed], dates].concat()), "AccessDenied");
        }
        let twice = [("x-amz-date", "20260131T120000Z"), signed, signed];
        assert_eq!(code("GET", "/abc/k", &twice), "InvalidArgument");
    }
}
