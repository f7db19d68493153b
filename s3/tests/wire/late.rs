//! Slow completions of multipart uploads: the answer begins with 200 and white space, and its body has the result.

use std::io::{Read as _, Write as _};

use crate::endpoint::{EXPECT, Endpoint, goes_on, head};
use crate::sign::{sha256, sign};

const KEY: &str = "/wire/late";

/// Completes an upload of one part while the store does not respond for longer than an answer is delayed. Returns the
/// bytes of the answer that arrived before the store responded, and the whole answer.
fn completed(endpoint: &Endpoint, upload: &str, etag: &str) -> (String, String) {
    let part = format!("<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>");
    let body = format!("<CompleteMultipartUpload>{part}</CompleteMultipartUpload>");
    let query = format!("uploadId={upload}");
    let signed =
        sign(&endpoint.root, "POST", KEY, &query, &[EXPECT, ("connection", "close")], &sha256(body.as_bytes()));
    let mut stream = endpoint.connect();
    stream.write_all(head("POST", KEY, &query, &signed.headers, body.len()).as_bytes()).unwrap();
    goes_on(&mut stream);
    let occupied = endpoint.occupied();
    stream.write_all(body.as_bytes()).unwrap();
    let mut begun = vec![0; 4096];
    let read = stream.read(&mut begun).unwrap();
    begun.truncate(read);
    drop(occupied);
    let mut whole = begun.clone();
    stream.read_to_end(&mut whole).unwrap();
    (String::from_utf8(begun).unwrap(), String::from_utf8(whole).unwrap())
}

fn begin(endpoint: &Endpoint) -> (String, String) {
    let begun = String::from_utf8(endpoint.send("POST", KEY, "uploads=", &[], b"").body).unwrap();
    let (_, rest) = begun.split_once("<UploadId>").unwrap();
    let upload = rest.split_once("</UploadId>").unwrap().0.to_owned();
    let part = endpoint.send("PUT", KEY, &format!("partNumber=1&uploadId={upload}"), &[], b"part");
    (upload, part.header("etag").unwrap().to_owned())
}

/// The text between two strings.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let found = text.split_once(begin).and_then(|(_, rest)| rest.split_once(end));
    found.unwrap_or_else(|| panic!("no {begin} in {text}")).0
}

#[test]
fn a_failure_after_the_answer_began_is_told_as_aws_tells_it() {
    let endpoint = Endpoint::start();
    let (upload, _) = begin(&endpoint);
    let (begun, whole) = completed(&endpoint, &upload, "&quot;other&quot;");
    assert!(begun.starts_with("HTTP/1.1 200 OK\r\n") && !begun.contains("<Error>"), "{begun}");
    let id = between(&whole, "x-amz-request-id: ", "\r\n");
    assert_eq!(whole.matches("<?xml").count(), 1, "{whole}");
    for (element, value) in [
        ("Code", "InvalidPart"),
        (
            "Message",
            "One or more of the specified parts could not be found.  The part may not have been uploaded, or the \
             specified entity tag may not match the part's entity tag.",
        ),
        ("UploadId", upload.as_str()),
        ("PartNumber", "1"),
        ("ETag", "other"),
        ("Resource", KEY),
        ("RequestId", id),
    ] {
        assert_eq!(between(&whole, &format!("<{element}>"), &format!("</{element}>")), value, "{whole}");
    }
    assert_eq!(endpoint.send("HEAD", KEY, "", &[], b"").status, 404);
}

#[test]
fn a_success_after_the_answer_began_is_its_body() {
    let endpoint = Endpoint::start();
    let (upload, etag) = begin(&endpoint);
    let (begun, whole) = completed(&endpoint, &upload, &etag);
    assert!(begun.starts_with("HTTP/1.1 200 OK\r\n"), "{begun}");
    assert!(!begun.contains("<CompleteMultipartUploadResult"), "{begun}");
    assert_eq!(between(&whole, "<Key>", "</Key>"), "late");
    assert_eq!(endpoint.send("GET", KEY, "", &[], b"").body, b"part");
}
