//! Query parameters of a presigned URL that replace headers: they have effect or are refused, and are never ignored.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::endpoint::Endpoint;
use crate::sign::{Scope, Signed, presign_with, sha256};

const KEY: &str = "/wire/url";

/// Requests a presigned URL of a PUT that was signed with `more`; returns the code of the answer.
fn put(endpoint: &Endpoint, more: &str, headers: &[(&str, &str)], body: &[u8]) -> String {
    let query = presign_with(Scope::HERE, &endpoint.root, "PUT", KEY, more);
    let headers = [&[("host", "localhost")], headers].concat();
    endpoint.send_signed("PUT", KEY, &query, &Signed::bare(&headers), body).code()
}

fn sha256_parameter(body: &[u8]) -> String {
    let value = BASE64.encode(hex_simd::decode_to_vec(sha256(body)).unwrap());
    format!("x-amz-checksum-sha256={}", value.replace('/', "%2F").replace('+', "%2B").replace('=', "%3D"))
}

#[test]
fn what_is_offered_is_done() {
    let endpoint = Endpoint::start();
    let more = "x-amz-acl=bucket-owner-full-control&x-amz-meta-a=b%20c&x-amz-tagging=t%3D1";
    assert_eq!(put(&endpoint, more, &[], b"content"), "OK");
    let kept = endpoint.send("GET", KEY, "", &[], b"");
    let headers = [kept.header("x-amz-meta-a"), kept.header("x-amz-tagging-count")];
    assert_eq!((kept.body.as_slice(), headers), (&b"content"[..], [Some("b c"), Some("1")]));

    assert_eq!(put(&endpoint, &sha256_parameter(b"content"), &[], b"content"), "OK");
    assert_eq!(put(&endpoint, &sha256_parameter(b"other"), &[], b"content"), "BadDigest");

    assert_eq!(endpoint.send("PUT", "/wire/source", "", &[], b"source").code(), "OK");
    assert_eq!(put(&endpoint, "x-amz-copy-source=%2Fwire%2Fsource", &[], b""), "OK");
    assert_eq!(endpoint.send("GET", KEY, "", &[], b"").body, b"source");
}

#[test]
fn what_is_not_offered_is_refused() {
    let endpoint = Endpoint::start();
    for (more, code) in [
        ("x-amz-server-side-encryption=AES256", "NotImplemented"),
        ("x-amz-acl=public-read", "AccessControlListNotSupported"),
        ("x-amz-storage-class=GLACIER", "InvalidStorageClass"),
        ("x-amz-object-lock-legal-hold=ON", "InvalidRequest"),
        ("x-amz-meta-a=%0A", "InvalidArgument"),
        ("x-amz-content-sha256=STREAMING-UNSIGNED-PAYLOAD-TRAILER", "InvalidRequest"),
    ] {
        assert_eq!(put(&endpoint, more, &[], b"content"), code, "{more}");
    }
    assert_eq!(endpoint.send("HEAD", KEY, "", &[], b"").status, 404);
}

#[test]
fn only_what_is_signed_counts() {
    let endpoint = Endpoint::start();
    let meta = "x-amz-meta-a=1";
    assert_eq!(put(&endpoint, meta, &[("x-amz-meta-a", "2")], b"1"), "AccessDenied");
    assert_eq!(put(&endpoint, meta, &[("x-amz-meta-b", "2")], b"1"), "AccessDenied");
    let good = presign_with(Scope::HERE, &endpoint.root, "PUT", KEY, meta);
    let bare = Signed::bare(&[("host", "localhost")]);
    let send = |query: &str| endpoint.send_signed("PUT", KEY, query, &bare, b"1").code();
    assert_eq!(send(&good.replace("meta-a=1", "meta-a=2")), "SignatureDoesNotMatch");
    assert_eq!(send(&format!("{good}&x-amz-tagging=t%3D1")), "SignatureDoesNotMatch");
    assert_eq!(send(&format!("{meta}&X-Amz-Signature=0")), "AuthorizationQueryParametersError");
    assert_eq!(endpoint.send("HEAD", KEY, "", &[], b"").status, 404);
    assert_eq!(send(&good), "OK");
}

#[test]
fn what_sdks_put_into_each_url_does_no_harm() {
    let endpoint = Endpoint::start();
    let js = "x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-content-sha256=UNSIGNED-PAYLOAD\
              &x-amz-sdk-checksum-algorithm=CRC32&x-id=PutObject";
    assert_eq!(put(&endpoint, js, &[], b"content"), "OK");
    assert_eq!(endpoint.send("GET", KEY, "", &[], b"").body, b"content");
}
