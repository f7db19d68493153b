//! Routing: method, path and subresource select the operation, and nothing else does.

use std::io::Write as _;

use crate::endpoint::{Answer, EXPECT, Endpoint, head, receive};
use crate::sign::{Key, Signed, sha256, sign, with};

const TAGGING: &[u8] = b"<Tagging><TagSet/></Tagging>";
const DELETE: &[u8] = b"<Delete><Object><Key>none</Key></Object></Delete>";
const COMPLETE: &[u8] =
    b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>e</ETag></Part></CompleteMultipartUpload>";

/// Requests that can be repeated: method, path, query, body, and the code of the answer.
const REQUESTS: [(&str, &str, &str, &[u8], &str); 14] = [
    ("PUT", "/wire/k", "", b"content", "OK"),
    ("PUT", "/wire/k", "tagging=", TAGGING, "OK"),
    ("PUT", "/wire/k", "partNumber=1&uploadId=none", b"part", "NoSuchUpload"),
    ("DELETE", "/wire/k", "tagging=", b"", "OK"),
    ("DELETE", "/wire/k", "uploadId=none", b"", "NoSuchUpload"),
    ("POST", "/wire/k", "uploadId=none", COMPLETE, "NoSuchUpload"),
    ("POST", "/wire", "delete=", DELETE, "OK"),
    ("GET", "/wire/k", "", b"", "OK"),
    ("GET", "/wire/k", "tagging=", b"", "OK"),
    ("GET", "/wire/k", "uploadId=none", b"", "NoSuchUpload"),
    ("GET", "/wire", "list-type=2", b"", "OK"),
    ("GET", "/wire", "policy=", b"", "NoSuchBucketPolicy"),
    ("DELETE", "/wire", "cors=", b"", "OK"),
    ("GET", "/", "", b"", "OK"),
];

#[test]
fn no_name_of_an_operation_in_the_url_chooses_another() {
    let endpoint = Endpoint::start();
    for (method, path, query, body, expected) in REQUESTS {
        for operation in s3::operations().chain(["PostObject", "SelectObjectContent", "Nonsense", ""]) {
            let query = with(query, &format!("x-id={operation}"));
            let answer = endpoint.send(method, path, &query, &[], body);
            assert_eq!(answer.code(), expected, "{method} {path}?{query}");
        }
        let twice = with(&with(query, "x-id=PutObject"), "x-id=GetObject");
        assert_eq!(endpoint.send(method, path, &twice, &[], body).code(), expected, "{method} {path}?{twice}");
    }
    assert_eq!(endpoint.send("GET", "/wire/k", "", &[], b"").body, b"content", "the object is unchanged");
}

#[test]
fn a_name_in_the_url_neither_hides_a_copy_nor_makes_a_part_an_object() {
    let endpoint = Endpoint::start();
    let put = |path: &str, query: &str, headers: &[(&str, &str)], body: &[u8]| {
        endpoint.send("PUT", path, query, headers, body).code()
    };
    assert_eq!(put("/wire/source", "", &[], b"source"), "OK");
    let deny = r#"{"Version": "2012-10-17", "Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject",
        "Resource": "arn:aws:s3:::wire/*", "Condition": {"Null": {"s3:x-amz-copy-source": "false"}}}}"#;
    assert_eq!(put("/wire", "policy=", &[], deny.as_bytes()), "OK");
    let copy = [("x-amz-copy-source", "/wire/source")];
    for query in ["", "x-id=CopyObject", "x-id=PutObject", "x-id=UploadPart"] {
        assert_eq!(put("/wire/k", query, &copy, b""), "AccessDenied", "{query}");
    }
    assert_eq!(put("/wire/k", "partNumber=1&uploadId=none&x-id=PutObject", &[], b"part"), "NoSuchUpload");
    assert_eq!(endpoint.send("HEAD", "/wire/k", "", &[], b"").status, 404);
}

#[test]
fn a_request_is_about_one_subresource() {
    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], b"content").code(), "OK");
    for (method, path, query, body) in [
        ("PUT", "/wire/k", "partNumber=1&tagging=&uploadId=none", &b"part"[..]),
        ("PUT", "/wire/k", "acl=&tagging=", TAGGING),
        ("DELETE", "/wire/k", "tagging=&uploadId=none", b""),
        ("DELETE", "/wire", "cors=&policy=", b""),
        ("POST", "/wire/k", "uploadId=none&uploads=", COMPLETE),
        ("PUT", "/wire/k", "Tagging=", TAGGING),
        ("PUT", "/wire/k", "PartNumber=1&uploadId=none", b"part"),
        ("DELETE", "/wire/k", "Tagging=", b""),
        ("DELETE", "/wire/k", "versionID=1", b""),
    ] {
        assert_eq!(endpoint.send(method, path, query, &[], body).code(), "InvalidArgument", "{method} {path}?{query}");
    }
    assert_eq!(endpoint.send("GET", "/wire/k", "", &[], b"").body, b"content");
}

/// `s3s` ignores a subresource that a method does not have, and would change the bucket or the object itself.
#[test]
fn a_method_that_a_resource_does_not_have_changes_nothing() {
    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("PUT", "/empty", "", &[], b"").code(), "OK");
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], b"content").code(), "OK");
    let object = "HEAD, DELETE, GET, PUT";
    for (method, path, query, allow) in [
        ("DELETE", "/empty", "versioning=", "GET, PUT"),
        ("DELETE", "/empty", "acl=", "GET, PUT"),
        ("DELETE", "/empty", "torrent=", ""),
        ("DELETE", "/wire/k", "acl=", "GET, PUT"),
        ("DELETE", "/wire/k", "retention=", "GET, PUT"),
        ("DELETE", "/wire/k", "policy=", ""),
        ("PUT", "/wire/k", "uploads=", "POST"),
        ("PUT", "/wire/k", "cors=", ""),
        ("PUT", "/wire/k", "versioning=", ""),
        ("PUT", "/wire/k", "torrent=", "GET"),
        ("GET", "/wire/k", "restore=", "POST"),
        ("GET", "/wire", "delete=", "POST"),
        ("PATCH", "/wire/k", "", object),
        ("BREW", "/wire/k", "", object),
        ("TRACE", "/wire/k", "", object),
        ("POST", "/wire/k", "", object),
        ("PATCH", "/wire", "", "HEAD, DELETE, GET, POST, PUT"),
        ("PUT", "/", "", "GET"),
        ("DELETE", "/", "", "GET"),
    ] {
        let answer = endpoint.send(method, path, query, &[], b"");
        let said = format!("{method} {path}?{query}");
        assert_eq!((answer.status, answer.code().as_str()), (405, "MethodNotAllowed"), "{said}");
        assert_eq!(answer.header("allow").unwrap_or_default().trim(), allow, "{said}");
    }
    assert_eq!(endpoint.send("HEAD", "/wire", "policy=", &[], b"").status, 405);
    assert_eq!(endpoint.send("POST", "/wire", "", &[], b"").code(), "PreconditionFailed");
    assert_eq!(endpoint.send("GET", "/wire/k", "", &[], b"").body, b"content");
    assert_eq!(endpoint.send("HEAD", "/empty", "", &[], b"").status, 200);
}

#[test]
fn chunks_that_nobody_takes_apart_are_not_stored() {
    let endpoint = Endpoint::start_with(|config| config.block_public_access = false);
    let open = r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject",
        "Resource": "arn:aws:s3:::wire/*"}}"#;
    assert_eq!(endpoint.send("PUT", "/wire", "policy=", &[], open.as_bytes()).code(), "OK");
    let payload = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
    let headers = [("host", "localhost"), ("x-amz-content-sha256", payload), ("x-amz-decoded-content-length", "5")];
    let framed = b"5\r\nhello\r\n0\r\n\r\n";
    let put = endpoint.send_signed("PUT", "/wire/k", "", &Signed::bare(&headers), framed);
    assert_eq!(put.code(), "InvalidRequest");
    assert_eq!(endpoint.send_signed("PUT", "/wire/k", "", &Signed::bare(&headers[..1]), b"hello").code(), "OK");
    assert_eq!(endpoint.send("GET", "/wire/k", "", &[], b"").body, b"hello");
}

/// The answer to a head with `expect: 100-continue`, whose body is not sent.
fn told(endpoint: &Endpoint, method: &str, path: &str, query: &str, signed: &Signed) -> Answer {
    let mut stream = endpoint.connect();
    stream.write_all(head(method, path, query, &signed.headers, 8 << 20).as_bytes()).unwrap();
    receive(&mut stream, method)
}

/// Every operation that reads a document: method, path and query.
const DOCUMENTS: [(&str, &str, &str); 18] = [
    ("PUT", "/other", ""),
    ("POST", "/wire", "delete="),
    ("POST", "/wire/k", "uploadId=none"),
    ("PUT", "/wire/k", "tagging="),
    ("PUT", "/wire/k", "tagging=&versionId=1"),
    ("PUT", "/wire/k", "retention="),
    ("PUT", "/wire/k", "legal-hold="),
    ("PUT", "/wire/k", "acl="),
    ("PUT", "/wire", "acl="),
    ("PUT", "/wire", "cors="),
    ("PUT", "/wire", "lifecycle="),
    ("PUT", "/wire", "object-lock="),
    ("PUT", "/wire", "ownershipControls="),
    ("PUT", "/wire", "policy="),
    ("PUT", "/wire", "publicAccessBlock="),
    ("PUT", "/wire", "requestPayment="),
    ("PUT", "/wire", "tagging="),
    ("PUT", "/wire", "versioning="),
];

#[test]
fn no_body_is_taken_of_whom_nothing_could_allow() {
    let endpoint = Endpoint::start_with(|config| config.block_public_access = false);
    let bob = endpoint.account("bob", None);
    let forger = Key { id: endpoint.root.id.clone(), secret: "guessed".into() };
    let policies = [
        // Statements about another account, another action, and another address.
        r#"{"Effect": "Allow", "Principal": {"AWS": "carol"}, "Action": "s3:*", "Resource": "arn:aws:s3:::wire/*"}"#,
        r#"{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::wire/*"}"#,
        r#"{"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::wire/*",
            "Condition": {"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}}}"#,
    ];
    endpoint.account("carol", None);
    for policy in [None].into_iter().chain(policies.map(Some)) {
        if let Some(statement) = policy {
            let text = format!(r#"{{"Version": "2012-10-17", "Statement": {statement}}}"#);
            assert_eq!(endpoint.send("PUT", "/wire", "policy=", &[], text.as_bytes()).code(), "OK");
        }
        for (method, path, query) in DOCUMENTS {
            for query in [query.to_owned(), with(query, "x-id=PutObject"), with(query, "x-id=PutObjectTagging")] {
                let said = format!("{policy:?}, {method} {path}?{query}");
                let bare = Signed::bare(&[("host", "localhost"), EXPECT]);
                assert_eq!(told(&endpoint, method, path, &query, &bare).status, 403, "{said}");
                let signed = |key: &Key| sign(key, method, path, &query, &[EXPECT], &sha256(b"some document"));
                assert_eq!(told(&endpoint, method, path, &query, &signed(&bob)).status, 403, "{said}");
                let forged = told(&endpoint, method, path, &query, &signed(&forger));
                assert!(forged.status == 403, "{said}: {}", forged.status);
            }
        }
    }
}

#[test]
fn a_body_is_taken_of_whom_something_may_allow() {
    let endpoint = Endpoint::start_with(|config| config.block_public_access = false);
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], b"1").code(), "OK");
    let bob = endpoint.account("bob", None);
    let only = r#"{"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": "bob"}, "Action": "s3:PutObjectTagging", "Resource":
         "arn:aws:s3:::wire/${aws:username}*", "Condition": {"StringEquals": {"s3:RequestObjectTag/a": "1"}}},
        {"Effect": "Allow", "Principal": {"AWS": "bob"}, "Action": "s3:DeleteObjectVersion",
         "Resource": "arn:aws:s3:::wire/k", "Condition": {"StringEquals": {"s3:VersionId": "1"}}}]}"#;
    assert_eq!(endpoint.send("PUT", "/wire", "policy=", &[], only.as_bytes()).code(), "OK");
    assert_eq!(endpoint.send("PUT", "/wire/bobs", "", &[], b"1").code(), "OK");
    let tag = |path: &str, value: &str| {
        let xml = format!("<Tagging><TagSet><Tag><Key>a</Key><Value>{value}</Value></Tag></TagSet></Tagging>");
        endpoint.send_as(&bob, "PUT", path, "tagging=", &[], xml.as_bytes()).code()
    };
    assert_eq!((tag("/wire/bobs", "1").as_str(), tag("/wire/bobs", "2").as_str()), ("OK", "AccessDenied"));
    assert_eq!(tag("/wire/k", "1"), "AccessDenied");
    let deleted = endpoint.send_as(&bob, "POST", "/wire", "delete=", &[], DELETE);
    let text = String::from_utf8(deleted.body).unwrap();
    assert!(deleted.status == 200 && text.contains("<Code>AccessDenied</Code><Key>none</Key>"), "{text}");
    assert_eq!(endpoint.send_as(&bob, "GET", "/wire/k", "", &[], b"").code(), "AccessDenied");
}
