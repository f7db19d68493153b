//! Verification of claims about a body that `s3s` reads whole: XML and JSON documents.
//!
//! - The layer computes the digests of such a body as it passes; the operation compares them with the claims before it
//!   acts.

use http::HeaderMap;
use http::request::Parts;
use s3s::{S3ErrorCode, S3Result};

use super::Kind;
use crate::checksum::Claims;
use crate::error::refuse;
use crate::request;

/// The claims about a document. [`prove`] refuses invalid ones.
pub(super) fn of_document(head: &Parts, kind: Kind) -> Option<Claims> {
    if kind == Kind::Document { Claims::from_headers(&head.headers).ok() } else { None }
}

/// Compares the claims in `headers` with the document of the current request.
pub(crate) fn prove(headers: &HeaderMap) -> S3Result<()> {
    prove_claims(&Claims::from_headers(headers)?)
}

/// Compares these claims only with the document of the current request.
pub(crate) fn prove_claims(claims: &Claims) -> S3Result<()> {
    match request::current()?.take_body_sums() {
        Some(sums) => claims.verify(&sums, None),
        None if claims.is_empty() => Ok(()),
        None => Err(refuse(S3ErrorCode::InvalidRequest, "The body's checksum could not be checked.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claims_of_a_document_are_kept() {
        for (method, uri, document) in [
            ("PUT", "/abc?tagging", true),
            ("PUT", "/abc/k?versionId=7&tagging=", true),
            ("PUT", "/abc", true),
            ("POST", "/abc?delete", true),
            ("POST", "/abc/k?uploadId=u", true),
            ("GET", "/abc?tagging", false),
            ("PUT", "/abc/k", false),
            ("PUT", "/abc/k?partNumber=1&uploadId=tagging", false),
        ] {
            let (head, ()) = http::Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
            assert_eq!(of_document(&head, Kind::of(&head, uri.contains("/k"))).is_some(), document, "{method} {uri}");
        }
    }
}
