//! Bodies that do not match their headers, and chunked bodies.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::endpoint::{Answer, Endpoint, head, receive};
use crate::sign::{EMPTY, Signed, sha256, sign};

const KEY: &str = "/wire/body";
const CHUNK: usize = 64 * 1024;
const UNSIGNED: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
const SIGNED: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";

/// Content for a segment, and content large enough for a separate file.
fn contents() -> [Vec<u8>; 2] {
    [1_000, 300_000].map(|len| (0..len).map(|index: u32| (index % 251) as u8).collect())
}

fn crc32(content: &[u8]) -> String {
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, content);
    BASE64.encode(&sum.to_be_bytes()[4..])
}

/// The head of an upload in chunks (`aws-chunked`).
fn framed(endpoint: &Endpoint, payload: &str, length: usize, trailer: Option<&str>) -> Signed {
    let length = length.to_string();
    let mut headers = vec![("content-encoding", "gzip,aws-chunked"), ("x-amz-decoded-content-length", &*length)];
    headers.extend(trailer.map(|trailer| ("x-amz-trailer", trailer)));
    sign(&endpoint.root, "PUT", KEY, "", &headers, payload)
}

fn unsigned_frames(content: &[u8], trailer: &str) -> Vec<u8> {
    [format!("{:x}\r\n", content.len()).as_bytes(), content, b"\r\n0\r\n", trailer.as_bytes(), b"\r\n"].concat()
}

fn put(endpoint: &Endpoint, signed: &Signed, body: &[u8]) -> Answer {
    endpoint.send_signed("PUT", KEY, "", signed, body)
}

#[test]
fn frames_come_off_and_their_checksums_are_kept() {
    let endpoint = Endpoint::start();
    for content in contents() {
        let crc = crc32(&content);
        let name = "x-amz-checksum-crc32";
        let chunked = framed(&endpoint, SIGNED, content.len(), None);
        let trailed = framed(&endpoint, &format!("{SIGNED}-TRAILER"), content.len(), Some(name));
        let unsigned = framed(&endpoint, UNSIGNED, content.len(), Some(name));
        let uploads = [
            (&chunked, chunked.chunks(&content, CHUNK, None), None),
            (&trailed, trailed.chunks(&content, CHUNK, Some((name, &crc))), Some(&*crc)),
            (&unsigned, unsigned_frames(&content, &format!("{name}:{crc}\r\n")), Some(&*crc)),
        ];
        for (signed, body, kept) in uploads {
            let answer = put(&endpoint, signed, &body);
            assert_eq!((answer.code().as_str(), answer.header(name)), ("OK", kept), "{}", answer.head);
            let read = endpoint.send("GET", KEY, "", &[("x-amz-checksum-mode", "ENABLED")], b"");
            assert!(read.body == content, "{} bytes came back", read.body.len());
            assert_eq!(read.header("content-encoding"), Some("gzip"));
            assert_eq!(read.header(name), kept);
        }
    }
}

#[test]
fn lying_frames_are_refused_and_leave_nothing() {
    let endpoint = Endpoint::start();
    for content in contents() {
        let (crc, other) = (crc32(&content), crc32(b"other"));
        let name = "x-amz-checksum-crc32";
        let trailer = |value: &str| format!("{name}:{value}\r\n");
        let head = |payload: &str, length| framed(&endpoint, payload, length, Some(name));
        let whole = head(UNSIGNED, content.len());
        let table = [
            (&whole, unsigned_frames(&content, &trailer(&other)), "BadDigest"),
            (&whole, unsigned_frames(&content, ""), "MalformedTrailerError"),
            (
                &framed(&endpoint, UNSIGNED, content.len(), None),
                unsigned_frames(&content, &trailer(&crc)),
                "InvalidRequest",
            ),
            (&head(UNSIGNED, content.len() + 1), unsigned_frames(&content, &trailer(&crc)), "IncompleteBody"),
            (&head(UNSIGNED, content.len() - 1), unsigned_frames(&content, &trailer(&crc)), "IncompleteBody"),
        ];
        for (signed, body, code) in &table {
            assert_eq!(put(&endpoint, signed, body).code(), *code);
        }

        let signed = head(&format!("{SIGNED}-TRAILER"), content.len());
        let good = signed.chunks(&content, CHUNK, Some((name, &crc)));
        let forged_content = flipped(&good, good.len() - 400);
        let forged_trailer = flipped(&good, good.len() - 10);
        assert_eq!(put(&endpoint, &signed, &forged_content).code(), "SignatureDoesNotMatch");
        assert_eq!(put(&endpoint, &signed, &forged_trailer).code(), "SignatureDoesNotMatch");
        let lying = signed.chunks(&content, CHUNK, Some((name, &other)));
        assert_eq!(put(&endpoint, &signed, &lying).code(), "BadDigest");
        assert_eq!(endpoint.send("HEAD", KEY, "", &[], b"").status, 404);
    }
}

/// `bytes` with another digit at `at`.
fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
    bytes
}

#[test]
fn frames_cut_before_their_very_end_are_refused() {
    let endpoint = Endpoint::start();
    for mut content in contents() {
        // Content that ends as a body of chunks does.
        content.extend(b"\r\n\r\n");
        let (name, crc) = ("x-amz-checksum-crc32", crc32(&content));
        let chunked = framed(&endpoint, SIGNED, content.len(), None);
        let trailed = framed(&endpoint, &format!("{SIGNED}-TRAILER"), content.len(), Some(name));
        let unsigned = framed(&endpoint, UNSIGNED, content.len(), Some(name));
        let last = "0;chunk-signature=".len() + 64 + 4;
        for (signed, body, cuts) in [
            (&chunked, chunked.chunks(&content, CHUNK, None), &[1, 2, 3, 4, last][..]),
            (&trailed, trailed.chunks(&content, CHUNK, Some((name, &crc))), &[1, 2, 3, 4]),
            (&unsigned, unsigned_frames(&content, &format!("{name}:{crc}\r\n")), &[1, 2, 3, 4]),
        ] {
            for cut in cuts {
                let answer = put(&endpoint, signed, &body[..body.len() - cut]);
                assert_eq!((answer.status, answer.code().as_str()), (400, "IncompleteBody"), "{cut}");
            }
        }
        assert_eq!(endpoint.send("HEAD", KEY, "", &[], b"").status, 404);
    }
}

#[test]
fn trailers_are_those_announced_each_once() {
    let endpoint = Endpoint::start();
    let content = &contents()[0];
    let (name, crc) = ("x-amz-checksum-crc32", crc32(content));
    let signed = framed(&endpoint, UNSIGNED, content.len(), Some(name));
    let good = format!("{name}:{crc}\r\n");
    for (trailers, code) in [
        (format!("{good}x-amz-meta-evil:1\r\n"), "MalformedTrailerError"),
        (format!("{good}{good}"), "MalformedTrailerError"),
        (good.replace("crc32", "sha1"), "MalformedTrailerError"),
        (good, "OK"),
    ] {
        let answer = put(&endpoint, &signed, &unsigned_frames(content, &trailers));
        assert_eq!(answer.code(), code, "{trailers}");
    }
}

#[test]
fn lying_plain_bodies_are_refused_and_leave_nothing() {
    let endpoint = Endpoint::start();
    for content in contents() {
        let (hash, crc) = (sha256(&content), crc32(b"other"));
        let unsigned = |headers: &[(&str, &str)]| sign(&endpoint.root, "PUT", KEY, "", headers, "UNSIGNED-PAYLOAD");
        let length = content.len().to_string();
        let table = [
            (sign(&endpoint.root, "PUT", KEY, "", &[], &sha256(b"other")), "XAmzContentSHA256Mismatch"),
            (sign(&endpoint.root, "PUT", KEY, "", &[("x-amz-checksum-crc32", &crc)], &hash), "BadDigest"),
            (unsigned(&[("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==")]), "BadDigest"),
            (unsigned(&[("content-md5", "1B2M2Y8=")]), "InvalidDigest"),
            (unsigned(&[("content-md5", "")]), "InvalidDigest"),
            (unsigned(&[("x-amz-checksum-crc32", "bad")]), "InvalidRequest"),
            (unsigned(&[("x-amz-sdk-checksum-algorithm", "CRC32")]), "InvalidRequest"),
            (unsigned(&[("x-amz-checksum-sha512", "AAAA")]), "InvalidRequest"),
            (unsigned(&[("content-encoding", "aws-chunked")]), "InvalidRequest"),
            (unsigned(&[("x-amz-decoded-content-length", &length)]), "InvalidRequest"),
        ];
        for (signed, code) in &table {
            assert_eq!(put(&endpoint, signed, &content).code(), *code);
        }
        let short = endpoint.send_cut("PUT", KEY, "", &unsigned(&[]), &content, content.len() + 1);
        assert_eq!(short.code(), "IncompleteBody");
        assert_eq!(endpoint.send("HEAD", KEY, "", &[], b"").status, 404);
    }
}

#[test]
fn a_refusal_before_the_body_ends_the_connection_and_says_so() {
    let endpoint = Endpoint::start();
    let waiting = [("expect", "100-continue"), ("x-amz-server-side-encryption", "AES256")];
    let signed = sign(&endpoint.root, "PUT", KEY, "", &waiting, "UNSIGNED-PAYLOAD");
    let mut stream = endpoint.connect();
    stream.write_all(head("PUT", KEY, "", &signed.headers, 7).as_bytes()).unwrap();
    let refused = receive(&mut stream, "PUT");
    assert_eq!(refused.code(), "NotImplemented");
    assert_eq!(refused.header("connection"), Some("close"));
    let missing = endpoint.send("GET", KEY, "", &[], b"");
    assert_eq!((missing.status, missing.header("connection")), (404, None));
}

#[test]
fn an_expectation_that_is_not_met_ends_the_connection_and_says_so() {
    let endpoint = Endpoint::start();
    // The request has no body, so the server sends no `100 Continue`.
    let empty = endpoint.send("PUT", KEY, "", &[("expect", "100-continue")], b"");
    assert_eq!((empty.status, empty.header("connection")), (200, Some("close")));
    let reading = endpoint.send("GET", KEY, "", &[("expect", "100-continue")], b"");
    assert_eq!((reading.status, reading.header("connection")), (200, Some("close")));

    let signed = sign(&endpoint.root, "PUT", KEY, "", &[("expect", "100-continue")], &sha256(b"content"));
    let mut stream = endpoint.connect();
    stream.write_all(head("PUT", KEY, "", &signed.headers, 7).as_bytes()).unwrap();
    assert_eq!(receive(&mut stream, "PUT").status, 100);
    stream.write_all(b"content").unwrap();
    let stored = receive(&mut stream, "PUT");
    assert_eq!((stored.status, stored.header("connection")), (200, None));
    let other = sign(&endpoint.root, "GET", KEY, "", &[], EMPTY);
    stream.write_all(head("GET", KEY, "", &other.headers, 0).as_bytes()).unwrap();
    assert_eq!(receive(&mut stream, "GET").body, b"content");
}

#[test]
fn a_document_is_the_one_its_hash_was_made_of() {
    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("PUT", KEY, "", &[], b"kept").code(), "OK");
    let place = "<CreateBucketConfiguration/>";
    let deletion = "<Delete><Object><Key>body</Key></Object></Delete>";
    let tags = "<Tagging><TagSet/></Tagging>";
    for (method, path, query, xml) in [
        ("POST", "/wire", "delete=", deletion),
        ("PUT", "/other", "", place),
        ("PUT", KEY, "tagging=", tags),
        ("POST", KEY, "uploadId=u", "<CompleteMultipartUpload/>"),
    ] {
        let signed = sign(&endpoint.root, method, path, query, &[], &sha256(xml.replace('<', " ").as_bytes()));
        let answer = endpoint.send_signed(method, path, query, &signed, xml.as_bytes());
        assert_eq!((answer.status, answer.code().as_str()), (400, "XAmzContentSHA256Mismatch"), "{method} {path}");
        let signed = sign(&endpoint.root, method, path, query, &[], &sha256(xml.as_bytes()));
        let cut = endpoint.send_cut(method, path, query, &signed, xml.as_bytes(), xml.len() + 1);
        assert_eq!((cut.status, cut.code().as_str()), (400, "IncompleteBody"), "{method} {path}");
    }
    assert_eq!(endpoint.send("HEAD", KEY, "", &[], b"").status, 200);
    assert_eq!(endpoint.send("HEAD", "/other", "", &[], b"").status, 404);
}

#[test]
fn a_bucket_is_made_by_the_body_that_was_sent() {
    let endpoint = Endpoint::start();
    let xml = b"<CreateBucketConfiguration/>";
    let make = |name: &str, value: &str, body: &[u8]| endpoint.send("PUT", "/made", "", &[(name, value)], body).code();
    let none = "1B2M2Y8AsgTpgAmY7PhCfg==";
    assert_eq!(make("content-md5", none, xml), "BadDigest");
    assert_eq!(make("content-md5", "1B2M", b""), "InvalidDigest");
    assert_eq!(make("x-amz-checksum-crc32", &crc32(b"other"), xml), "BadDigest");
    assert_eq!(make("x-amz-checksum-crc32", &crc32(b"other"), b""), "BadDigest");
    assert_eq!(endpoint.send("HEAD", "/made", "", &[], b"").status, 404);
    assert_eq!(make("x-amz-checksum-crc32", &crc32(xml), xml), "OK");
    assert_eq!(make("content-md5", none, b""), "OK");
}

#[test]
fn the_body_of_a_deletion_is_proved_too() {
    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("PUT", KEY, "", &[], b"kept").code(), "OK");
    let xml = b"<Delete><Object><Key>body</Key></Object></Delete>";
    let deletion = |crc: &str| {
        let headers = [("x-amz-checksum-crc32", crc)];
        let signed = sign(&endpoint.root, "POST", "/wire", "delete=", &headers, "UNSIGNED-PAYLOAD");
        endpoint.send_signed("POST", "/wire", "delete=", &signed, xml).code()
    };
    assert_eq!(deletion(&crc32(b"other")), "BadDigest");
    assert_eq!(endpoint.send("HEAD", KEY, "", &[], b"").status, 200);
    assert_eq!(deletion(&crc32(xml)), "OK");
    assert_eq!(endpoint.send("HEAD", KEY, "", &[], b"").status, 404);
}
