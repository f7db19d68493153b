//! Headers in a presigned URL: `x-amz-…` parameters, which AWS treats as headers; with Signature Version 2 also
//! Content-Type and Content-MD5.
//!
//! - Only parameters covered by a signature in the URL become headers; they are verified as part of the query.
//! - A header that was sent as a header stays, and has to be signed as one.
//! - Forms are signed by their policy, so nothing is taken from their URLs.
//! - SDKs that sign before they know the content add the checksum of empty content to each URL (aws-sdk-js v3). It
//!   claims nothing, so it is ignored.

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use s3s::{S3ErrorCode, S3Result};

use super::presigned::PARAMETERS;
use crate::body::is_form;
use crate::checksum::is_of_nothing;
use crate::error::refuse;
use crate::query::{Query, signature_v2};

/// Parameters about the URL itself, besides those of the signature.
const NO_HEADERS: [&str; 2] = ["x-amz-security-token", "x-amz-sdk-checksum-algorithm"];

/// Parameters that are headers only in a URL of Signature Version 2.
const ONLY_V2: [&str; 2] = ["content-md5", "content-type"];

/// Turns parameters into headers and returns their names.
pub(crate) fn hoist(head: &mut Parts) -> Vec<HeaderName> {
    // Both versions have a parameter whose name contains it.
    let marked = head.uri.query().is_some_and(|query| query.contains("Signature"));
    if !marked || is_form(head) {
        return Vec::new();
    }
    let query = Query::of(&head.uri);
    let mut hoisted = HeaderMap::new();
    for (name, value) in of(&query) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value))
            && !head.headers.contains_key(&name)
        {
            hoisted.append(name, value);
        }
    }
    let names = hoisted.keys().cloned().collect();
    head.headers.extend(hoisted);
    names
}

/// Refuses a parameter that should have become a header and could not.
pub(super) fn check(query: &Query, headers: &HeaderMap) -> S3Result<()> {
    match of(query).find(|(name, _)| !headers.contains_key(*name)) {
        None => Ok(()),
        Some((name, _)) => {
            let words = format!("The URL parameter {name} has no valid header value; send it as a header.");
            Err(refuse(S3ErrorCode::InvalidArgument, words))
        }
    }
}

/// The parameters that are headers, if the query is signed.
fn of(query: &Query) -> impl Iterator<Item = (&str, &str)> {
    let (v4, v2) = (query.has("X-Amz-Signature"), signature_v2::is_claimed(query));
    let pairs = if v4 || v2 { query.pairs() } else { &[] };
    pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).filter(move |(name, value)| {
        let ours = name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("x-amz-"));
        let mut others = PARAMETERS.iter().chain(&NO_HEADERS);
        let by_v4 = ours && !others.any(|other| other.eq_ignore_ascii_case(name)) && !is_of_nothing(name, value);
        by_v4 || v2 && !v4 && ONLY_V2.iter().any(|other| other.eq_ignore_ascii_case(name))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{code, presigned};
    use super::*;

    fn hoisted(method: &str, query: &str, headers: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut request = http::Request::builder().method(method).uri(format!("/b/k?{query}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        let names = hoist(&mut head);
        let value = |name: &HeaderName| String::from_utf8(head.headers[name].as_bytes().to_vec()).unwrap();
        names.iter().map(|name| (name.to_string(), value(name))).collect()
    }

    #[test]
    fn parameters_of_a_signed_url_are_headers_and_no_others_are() {
        let one = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let meta = "X-Amz-Meta-A=%C3%A9+1";
        let signed = format!("X-Amz-Date=20260131T120000Z&x-id=PutObject&X-Amz-Signature=0&{meta}");
        assert_eq!(hoisted("PUT", &signed, &[]), one("x-amz-meta-a", "é 1"));
        assert_eq!(hoisted("PUT", meta, &[]), []);
        assert_eq!(hoisted("PUT", &signed.replace("X-Amz-S", "X%2dAmz-S"), &[]), one("x-amz-meta-a", "é 1"));
        assert_eq!(hoisted("PUT", &signed, &[("x-amz-meta-a", "2")]), []);
        assert_eq!(hoisted("POST", &signed, &[("content-type", "multipart/form-data; boundary=b")]), []);
        let sums = "X-Amz-Signature=0&x-amz-sdk-checksum-algorithm=CRC32&x-amz-checksum-crc32=";
        assert_eq!(hoisted("PUT", &format!("{sums}AAAAAA%3D%3D"), &[]), []);
        assert_eq!(hoisted("PUT", &format!("{sums}y%2FQ5Jg%3D%3D"), &[]), one("x-amz-checksum-crc32", "y/Q5Jg=="));
        assert_eq!(hoisted("PUT", "X-Amz-Signature=0&content-type=a%2Fb", &[]), []);
        assert_eq!(hoisted("PUT", "Signature=0&Content-Type=a%2Fb", &[]), one("content-type", "a/b"));
    }

    #[test]
    fn what_cannot_be_a_header_is_refused() {
        let whole = presigned();
        for (more, expected) in [("x-amz-meta-a=1%0A", "InvalidArgument"), ("x-amz-a%20b=1", "InvalidArgument")] {
            assert_eq!(code("PUT", &format!("/abc/k?{whole}&{more}"), &[]), expected, "{more}");
        }
    }
}
