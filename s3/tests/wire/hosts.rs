//! Buckets addressed by host, and by path on the same endpoint.

use objstore::store::Mode;

use crate::endpoint::{Answer, Endpoint};
use crate::sign::{EMPTY, sign};

fn start() -> Endpoint {
    Endpoint::start_with(|config| {
        config.domains = ["s3.example.org", "localhost"].map(|name| name.parse().unwrap()).into_iter().collect();
    })
}

fn ask(endpoint: &Endpoint, host: &str, method: &str, path: &str, query: &str, body: &[u8]) -> Answer {
    endpoint.send(method, path, query, &[("host", host)], body)
}

#[test]
fn host_and_path_lead_to_the_same_objects() {
    let endpoint = start();
    assert_eq!(ask(&endpoint, "wire.s3.example.org", "PUT", "/a/b", "", b"1").code(), "OK");
    for (host, path) in [
        ("s3.example.org", "/wire/a/b"),
        ("127.0.0.1:9000", "/wire/a/b"),
        ("[::1]:9000", "/wire/a/b"),
        ("elsewhere.net", "/wire/a/b"),
        ("WIRE.S3.example.org", "/a/b"),
        ("wire.s3.example.org:9000", "/a/b"),
        ("wire.localhost:9000", "/a/b"),
    ] {
        assert_eq!(ask(&endpoint, host, "GET", path, "", b"").body, b"1", "{host}{path}");
    }
    let listed = |host: &str| String::from_utf8(ask(&endpoint, host, "GET", "/", "", b"").body).unwrap();
    assert!(listed("wire.s3.example.org").contains("<Key>a/b</Key>"));
    assert!(listed("s3.example.org").contains("<Name>wire</Name>"));
    assert_eq!(ask(&endpoint, "wire.s3.example.org", "GET", "/wire/a/b", "", b"").code(), "NoSuchKey");
    assert_eq!(ask(&endpoint, "Bad_Name.s3.example.org", "GET", "/", "", b"").code(), "InvalidBucketName");
    assert_eq!(ask(&endpoint, "none.s3.example.org", "GET", "/a/b", "", b"").code(), "NoSuchBucket");
}

#[test]
fn names_with_dots_are_whole() {
    let endpoint = start();
    let made = ask(&endpoint, "a.b.c.s3.example.org", "PUT", "/", "", b"");
    assert_eq!((made.code().as_str(), made.header("location")), ("OK", Some("/a.b.c")));
    assert_eq!(ask(&endpoint, "a.b.c.s3.example.org", "PUT", "/k", "", b"1").code(), "OK");
    assert_eq!(ask(&endpoint, "s3.example.org", "GET", "/a.b.c/k", "", b"").body, b"1");
    assert_eq!(ask(&endpoint, "a.b.c.s3.example.org", "DELETE", "/k", "", b"").code(), "OK");
    assert_eq!(ask(&endpoint, "a.b.c.s3.example.org", "DELETE", "/", "", b"").code(), "OK");
}

#[test]
fn grants_and_signatures_go_by_the_host() {
    let endpoint = start();
    assert_eq!(ask(&endpoint, "other.s3.example.org", "PUT", "/", "", b"").code(), "OK");
    assert_eq!(ask(&endpoint, "other.s3.example.org", "PUT", "/wire/k", "", b"1").code(), "OK");
    assert_eq!(ask(&endpoint, "wire.s3.example.org", "PUT", "/k", "", b"1").code(), "OK");
    let key = endpoint.account("reader", Some(Mode::Read));
    let get = |host: &str, path: &str| endpoint.send_as(&key, "GET", path, "", &[("host", host)], b"").code();
    assert_eq!(get("wire.s3.example.org", "/k"), "OK");
    assert_eq!(get("other.s3.example.org", "/wire/k"), "AccessDenied");
    let mut signed = sign(&key, "GET", "/k", "", &[("host", "wire.s3.example.org")], EMPTY);
    for (name, value) in &mut signed.headers {
        if name == "host" {
            *value = "other.s3.example.org".into();
        }
    }
    assert_eq!(endpoint.send_signed("GET", "/k", "", &signed, b"").code(), "SignatureDoesNotMatch");
}

#[test]
fn a_completed_upload_is_located_as_it_was_addressed() {
    let endpoint = start();
    for (host, path, url) in [
        ("s3.example.org:9000", "/wire/up", "http://s3.example.org:9000/wire/up"),
        ("wire.s3.example.org:9000", "/up", "http://wire.s3.example.org:9000/up"),
    ] {
        let between = |answer: &Answer, start: &str, end: &str| {
            let text = String::from_utf8(answer.body.clone()).unwrap();
            let rest = text.split_once(start).unwrap_or_else(|| panic!("{text}")).1.to_owned();
            rest.split_once(end).unwrap().0.to_owned()
        };
        let begun = ask(&endpoint, host, "POST", path, "uploads=", b"");
        let upload = between(&begun, "<UploadId>", "</UploadId>");
        let part = ask(&endpoint, host, "PUT", path, &format!("partNumber=1&uploadId={upload}"), b"1");
        let etag = part.header("etag").unwrap();
        let part = format!("<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>");
        let parts = format!("<CompleteMultipartUpload>{part}</CompleteMultipartUpload>");
        let done = ask(&endpoint, host, "POST", path, &format!("uploadId={upload}"), parts.as_bytes());
        assert_eq!(between(&done, "<Location>", "</Location>"), url);
    }
}
