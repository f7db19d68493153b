//! Uploads by HTML forms (S3 API, POST Object).

use std::io::Write as _;

use objstore::store::Mode;

use crate::endpoint::{Answer, Endpoint, head, receive};
use crate::sign::{Key, sign_form};

const BUCKET: &str = r#"{"bucket": "wire"}"#;
const END: &str = "\r\n--limit--\r\n";

/// The body of a form, without the boundary after its file.
fn body(fields: &[(&str, &str)], content: &[u8]) -> Vec<u8> {
    let mut form = String::new();
    for (name, value) in fields {
        form += &format!("--limit\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    }
    form += "--limit\r\nContent-Disposition: form-data; name=\"file\"; filename=\"C:\\\\me\\photo.jpg\"\r\n";
    form += "Content-Type: image/jpeg\r\n\r\n";
    [form.as_bytes(), content].concat()
}

fn headers(framing: Option<(&str, &str)>) -> Vec<(String, String)> {
    let all = [("host", "localhost"), ("content-type", "multipart/form-data; boundary=limit")];
    all.into_iter().chain(framing).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn post_to(endpoint: &Endpoint, path: &str, fields: &[(&str, &str)], content: &[u8]) -> Answer {
    let body = [body(fields, content), END.into()].concat();
    let mut stream = endpoint.connect();
    stream.write_all(head("POST", path, "", &headers(None), body.len()).as_bytes()).unwrap();
    // The server may refuse before it has read the body; only its answer counts.
    let _ = stream.write_all(&body);
    receive(&mut stream, "POST")
}

/// Posts a form whose policy has these conditions besides the bucket's.
fn post(endpoint: &Endpoint, key: &Key, conditions: &str, fields: &[(&str, &str)], content: &[u8]) -> Answer {
    let signed = sign_form(key, &format!("{BUCKET}{conditions}"));
    let all: Vec<(&str, &str)> =
        fields.iter().copied().chain(signed.iter().map(|(name, value)| (*name, value.as_str()))).collect();
    post_to(endpoint, "/wire", &all, content)
}

fn read(endpoint: &Endpoint, path: &str) -> Answer {
    endpoint.send("GET", path, "", &[], b"")
}

#[test]
fn a_form_becomes_an_object() {
    let endpoint = Endpoint::start();
    let conditions = r#", ["starts-with", "$key", "user/"], ["eq", "$Content-Type", "image/jpeg"], {"acl": "private"},
        ["starts-with", "$x-amz-meta-who", ""], ["starts-with", "$tagging", ""], ["content-length-range", 1, 10]"#;
    let fields = [
        ("key", "user/${filename}"),
        ("Content-Type", "image/jpeg"),
        ("acl", "private"),
        ("X-Amz-Meta-Who", "me"),
        ("tagging", "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>"),
        ("x-ignore-this", "at all"),
        ("x-amz-checksum-crc32", "NSRBwg=="),
    ];
    let answer = post(&endpoint, &endpoint.root, conditions, &fields, b"abc");
    assert_eq!((answer.code().as_str(), answer.status, answer.body.len()), ("OK", 204, 0), "{answer:?}");
    assert_eq!(answer.header("etag"), Some("\"900150983cd24fb0d6963f7d28e17f72\""));
    assert_eq!(answer.header("location"), Some("http://localhost/wire/user/photo.jpg"));
    assert_eq!(answer.header("x-amz-checksum-crc32"), Some("NSRBwg=="));
    let object = read(&endpoint, "/wire/user/photo.jpg");
    assert_eq!(object.body, b"abc");
    let kept = [("content-type", "image/jpeg"), ("x-amz-meta-who", "me"), ("x-amz-tagging-count", "1")];
    for (name, value) in kept {
        assert_eq!(object.header(name), Some(value), "{name}");
    }
}

#[test]
fn a_form_chooses_its_answer() {
    let endpoint = Endpoint::start();
    let send = |name: &str, value: &str| {
        let conditions = format!(", {{\"key\": \"a b\"}}, {{\"{name}\": \"{value}\"}}");
        post(&endpoint, &endpoint.root, &conditions, &[("key", "a b"), (name, value)], b"abc")
    };
    assert_eq!(send("success_action_status", "200").status, 200);
    assert_eq!(send("success_action_status", "404").status, 204);
    let created = send("success_action_status", "201");
    let xml = String::from_utf8(created.body.clone()).unwrap();
    assert_eq!(created.status, 201);
    for element in ["<Bucket>wire</Bucket>", "<Key>a b</Key>", "<Location>http://localhost/wire/a%20b</Location>"] {
        assert!(xml.contains(element), "{xml}");
    }
    let redirected = send("success_action_redirect", "http://localhost/done?by=form");
    let to = "http://localhost/done?by=form&bucket=wire&key=a%20b&etag=%22900150983cd24fb0d6963f7d28e17f72%22";
    assert_eq!((redirected.status, redirected.header("location")), (303, Some(to)));
    assert_eq!(send("success_action_redirect", "/relative").status, 204);
}

#[test]
fn files_of_any_size_are_streamed_within_the_range_of_the_policy() {
    let endpoint = Endpoint::start();
    let content: Vec<u8> = (0..3 * 1024 * 1024 + 77).map(|at: u32| (at % 251) as u8).collect();
    let send = |range: &str, content: &[u8]| {
        let conditions = format!(", {{\"key\": \"k\"}}, [\"content-length-range\", {range}]");
        post(&endpoint, &endpoint.root, &conditions, &[("key", "k")], content).code()
    };
    assert_eq!(send("1, 9", b""), "EntityTooSmall");
    assert_eq!(send("0, 9", &content[..10]), "EntityTooLarge");
    assert_eq!(send("0, 3000000", &content), "EntityTooLarge");
    assert_eq!(send("4000000, 9000000", &content), "EntityTooSmall");
    assert_eq!(read(&endpoint, "/wire/k").code(), "NoSuchKey");
    for content in [&content[..], &content[..1024 * 1024], &content[..200_000], b"1", b""] {
        assert_eq!(send("0, 9000000", content), "OK");
        assert!(read(&endpoint, "/wire/k").body == content, "{} bytes", content.len());
    }
}

#[test]
fn a_form_needs_no_declared_length_and_a_cut_one_leaves_nothing() {
    let endpoint = Endpoint::start();
    let signed = sign_form(&endpoint.root, &format!("{BUCKET}, {{\"key\": \"k\"}}"));
    let fields: Vec<(&str, &str)> =
        [("key", "k")].into_iter().chain(signed.iter().map(|(name, value)| (*name, value.as_str()))).collect();
    let chunked = |body: &[u8]| {
        let head = head("POST", "/wire", "", &headers(Some(("transfer-encoding", "chunked"))), 0);
        let mut stream = endpoint.connect();
        stream.write_all(head.replace("content-length: 0\r\n", "").as_bytes()).unwrap();
        for piece in body.chunks(7) {
            stream.write_all(&[format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()).unwrap();
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
        receive(&mut stream, "POST").code()
    };
    let whole = [body(&fields, b"content"), END.into()].concat();
    assert_eq!(chunked(&whole[..whole.len() - 8]), "IncompleteBody");
    assert_eq!(chunked(&whole[..300]), "MalformedPOSTRequest");
    assert_eq!(read(&endpoint, "/wire/k").code(), "NoSuchKey");
    assert_eq!(chunked(&whole), "OK");
    assert_eq!(read(&endpoint, "/wire/k").body, b"content");
}

#[test]
fn a_form_names_the_acl_of_its_object_where_acls_are_enabled() {
    let endpoint = Endpoint::start_with(|config| config.block_public_access = false);
    let rule = "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>";
    assert_eq!(endpoint.send("PUT", "/wire", "ownershipControls=", &[], rule.as_bytes()).code(), "OK");
    let conditions = r#", ["starts-with", "$key", "user/"], ["starts-with", "$acl", ""]"#;
    let fields = |acl| [("key", "user/1"), ("acl", acl)];
    assert_eq!(post(&endpoint, &endpoint.root, conditions, &fields("public-read"), b"abc").code(), "OK");
    let acl = String::from_utf8(endpoint.send("GET", "/wire/user/1", "acl=", &[], b"").body).unwrap();
    assert!(acl.contains("AllUsers"), "{acl}");
    assert_eq!(post(&endpoint, &endpoint.root, conditions, &fields("everybody"), b"abc").code(), "InvalidArgument");
    let carol = endpoint.account("carol", Some(Mode::Write));
    assert_eq!(post(&endpoint, &carol, conditions, &fields("private"), b"abc").code(), "OK");
    let acl = String::from_utf8(endpoint.send("GET", "/wire/user/1", "acl=", &[], b"").body).unwrap();
    assert!(acl.contains("<Owner><ID>carol</ID>") && !acl.contains("AllUsers"), "{acl}");
}

#[test]
fn what_the_policy_does_not_allow_is_refused() {
    let endpoint = Endpoint::start();
    let conditions = r#", ["starts-with", "$key", "user/"], ["starts-with", "$acl", ""]"#;
    let table: [(&[(&str, &str)], &str); 9] = [
        (&[("key", "user/1")], "AccessDenied"),
        (&[("key", "user/1"), ("acl", "public-read")], "AccessControlListNotSupported"),
        (&[("key", "other/1"), ("acl", "private")], "AccessDenied"),
        (&[("key", "user/1"), ("acl", "private"), ("x-amz-meta-a", "1")], "AccessDenied"),
        (&[("key", "user/1"), ("key", "user/2")], "InvalidArgument"),
        (&[("acl", "private")], "InvalidArgument"),
        (&[("key", "user/1"), ("x-amz-security-token", "t")], "InvalidToken"),
        (&[("key", "user/1"), ("signature", "s"), ("policy", "p")], "InvalidArgument"),
        (&[("key", "user/1"), ("tagging", "<a/>")], "AccessDenied"),
    ];
    for (fields, code) in table {
        let found = post(&endpoint, &endpoint.root, conditions, fields, b"abc").code();
        assert_eq!(found, code, "{fields:?}");
    }
    let encrypted = r#", {"key": "k"}, ["starts-with", "$x-amz-server-side-encryption", ""]"#;
    let fields = [("key", "k"), ("x-amz-server-side-encryption", "AES256")];
    assert_eq!(post(&endpoint, &endpoint.root, encrypted, &fields, b"abc").code(), "NotImplemented");
    let only = r#", ["starts-with", "$key", ""]"#;
    let lying = [("key", "k"), ("x-amz-checksum-crc32", "AAAAAA==")];
    assert_eq!(post(&endpoint, &endpoint.root, only, &lying, b"abc").code(), "BadDigest");
    let unreadable = [("key", "k"), ("x-amz-checksum-sha256", "sailor")];
    assert_eq!(post(&endpoint, &endpoint.root, only, &unreadable, b"abc").code(), "InvalidRequest");
    let listed = String::from_utf8(read(&endpoint, "/wire").body).unwrap();
    assert!(!listed.contains("<Key>"), "{listed}");
}

#[test]
fn a_form_is_worth_what_its_signer_may() {
    let endpoint = Endpoint::start();
    let (only, fields) = (r#", ["starts-with", "$key", ""]"#, [("key", "k")]);
    let reader = endpoint.account("reader", Some(Mode::Read));
    let writer = endpoint.account("writer", Some(Mode::Write));
    assert_eq!(post(&endpoint, &reader, only, &fields, b"1").code(), "AccessDenied");
    assert_eq!(post(&endpoint, &writer, only, &fields, b"2").code(), "OK");
    let forger = Key { id: writer.id.clone(), secret: "guess".into() };
    assert_eq!(post(&endpoint, &forger, only, &fields, b"3").code(), "SignatureDoesNotMatch");
    endpoint.revoke(&writer);
    assert_eq!(post(&endpoint, &writer, only, &fields, b"4").code(), "InvalidAccessKeyId");
    assert_eq!(post_to(&endpoint, "/wire", &fields, b"5").code(), "AccessDenied");
    assert_eq!(post_to(&endpoint, "/wire/k", &fields, b"6").code(), "MethodNotAllowed");
    let signed = sign_form(&endpoint.root, &format!("{BUCKET}{only}"));
    let all: Vec<(&str, &str)> =
        fields.into_iter().chain(signed.iter().map(|(name, value)| (*name, value.as_str()))).collect();
    assert_eq!(endpoint.send("PUT", "/other", "", &[], b"").code(), "OK");
    assert_eq!(post_to(&endpoint, "/other", &all, b"7").code(), "AccessDenied");
    assert_eq!(read(&endpoint, "/wire/k").body, b"2");
}

#[test]
fn a_form_is_for_the_owner_that_is_expected() {
    let endpoint = Endpoint::start();
    let signed = sign_form(&endpoint.root, &format!("{BUCKET}, {{\"key\": \"k\"}}"));
    let fields = [("key", "k")].into_iter().chain(signed.iter().map(|(name, value)| (*name, value.as_str())));
    let form = [body(&fields.collect::<Vec<_>>(), b"1"), END.into()].concat();
    let send = |owner: &str| {
        let headers = headers(Some(("x-amz-expected-bucket-owner", owner)));
        let mut stream = endpoint.connect();
        stream.write_all(head("POST", "/wire", "", &headers, form.len()).as_bytes()).unwrap();
        // The server may refuse before it has read the body; only its answer counts.
        let _ = stream.write_all(&form);
        receive(&mut stream, "POST").code()
    };
    assert_eq!(send("another"), "AccessDenied");
    assert_eq!(read(&endpoint, "/wire/k").code(), "NoSuchKey");
    assert_eq!(send("root"), "OK");
}

#[test]
fn an_unsigned_form_gets_what_the_bucket_policy_gives_to_anybody() {
    let endpoint = Endpoint::start_with(|config| config.block_public_access = false);
    let policy = r#"{"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::wire/public/*"},
        {"Effect": "Allow", "Principal": "*", "Action": "s3:PutObjectTagging", "Resource": "arn:aws:s3:::wire/public/*",
         "Condition": {"StringEquals": {"s3:RequestObjectTag/of": "anybody"}}}]}"#;
    assert_eq!(endpoint.send("PUT", "/wire", "policy=", &[], policy.as_bytes()).code(), "OK");
    let tags = |of: &str| format!("<Tagging><TagSet><Tag><Key>of</Key><Value>{of}</Value></Tag></TagSet></Tagging>");
    let (own, foreign) = (tags("anybody"), tags("others"));
    let send = |fields: &[(&str, &str)]| post_to(&endpoint, "/wire", fields, b"abc").code();
    assert_eq!(send(&[("key", "private/1")]), "AccessDenied");
    assert_eq!(send(&[("key", "public/1")]), "OK");
    assert_eq!(send(&[("key", "public/2"), ("tagging", &foreign)]), "AccessDenied");
    assert_eq!(send(&[("key", "public/2"), ("tagging", &own)]), "OK");
    assert_eq!(read(&endpoint, "/wire/public/2").body, b"abc");
    assert_eq!(read(&endpoint, "/wire/private/1").code(), "NoSuchKey");
}

#[test]
fn a_post_that_is_an_operation_is_no_form() {
    let endpoint = Endpoint::start();
    let form = "multipart/form-data; boundary=x";
    let begun = endpoint.send("POST", "/wire/k", "uploads=", &[("content-type", form)], b"");
    assert_eq!(begun.code(), "OK");
    let xml = String::from_utf8(begun.body).unwrap();
    let id = xml.split_once("<UploadId>").and_then(|(_, rest)| rest.split_once('<')).unwrap().0;
    let part = endpoint.send("PUT", "/wire/k", &format!("partNumber=1&uploadId={id}"), &[], b"1");
    let etag = part.header("etag").unwrap();
    let parts = format!("<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>");
    let parts = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
    let query = format!("uploadId={id}");
    assert_eq!(endpoint.send("POST", "/wire/k", &query, &[("content-type", form)], parts.as_bytes()).code(), "OK");
    assert_eq!(endpoint.send("HEAD", "/wire/k", "", &[], b"").header("content-type"), Some(form));
}
