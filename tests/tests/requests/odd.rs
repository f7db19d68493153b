//! Odd, empty or misplaced conditions.

use super::*;

const CONTENT: &str = "0123456789";

#[tokio::test]
async fn a_signed_malformed_range_or_date_is_ignored() {
    let world = World::new().await;
    world.put("k", CONTENT);
    let odd = [
        ("range", "bytes=0-1,3-4"),
        ("range", "bytes=5-2"),
        ("range", "bytes=a-b"),
        ("range", "lines=1-2"),
        ("range", "bytes="),
        ("range", "0-3"),
        ("if-modified-since", "tomorrow"),
        ("if-modified-since", "0"),
        ("if-unmodified-since", "long ago"),
    ];
    for (name, value) in odd {
        let signed = world.signer.now().sign(&request("GET", "k", &[(name, value)]));
        assert!(signed.header("authorization").is_some_and(|header| header.contains(name)), "{name} is signed");
        assert_eq!(status_and_body(&world.send_wire(&signed)), (200, CONTENT), "{name}: {value}");
        let url = world.url(request("GET", "k", &[(name, value)]));
        assert_eq!(status_and_body(&world.send_wire(&url)), (200, CONTENT), "{name}: {value}, in a URL");
        let head = world.send(&request("HEAD", "k", &[(name, value)]));
        assert_eq!((head.status, header(&head, "content-length").as_str()), (200, "10"), "{name}: {value}, HEAD");
        // The signature covers these headers, although the server then ignores them.
        let forged = world.send_wire(&signed.with_header(name, format!("{value}x")));
        assert_eq!((forged.status, forged.code.as_str()), (403, "SignatureDoesNotMatch"), "{name}: {value}, forged");
    }
    let twice = world.get("k", &[("range", "bytes=0-1"), ("range", "bytes=3-4")]);
    assert_eq!(status_and_body(&twice), (200, CONTENT));
    // Dates in HTTP's obsolete formats are valid.
    assert_eq!(world.get("k", &[("if-unmodified-since", "Sun Nov  6 08:49:37 1994")]).status, 412);
    assert_eq!(world.get("k", &[("if-modified-since", "Sunday, 06-Nov-94 08:49:37 GMT")]).status, 200);
}

#[tokio::test]
async fn entity_tags_are_opaque_and_weak_ones_match_no_write() {
    let world = World::new().await;
    let etag = world.put("k", CONTENT);
    let (bare, weak) = (etag.trim_matches('"').to_owned(), format!("W/{etag}"));
    let others = ["a_b", "a b", "a,b", "\"a_b\"", "\"a b\"", "\"a,b\"", "\"\"", "\"*\"", "\"open", "W/\"x\"", ","];
    for tag in others {
        assert_eq!(world.get("k", &[("if-match", tag)]).code, "PreconditionFailed", "{tag}");
        assert_eq!(world.get("k", &[("if-none-match", tag)]).status, 200, "{tag}");
        for method in ["PUT", "DELETE"] {
            let answer = world.send(&request(method, "k", &[("if-match", tag)]));
            assert_eq!((answer.status, answer.code.as_str()), (412, "PreconditionFailed"), "{method} {tag}");
        }
        let copy = [("x-amz-copy-source", "/requests/k"), ("x-amz-copy-source-if-match", tag)];
        assert_eq!(world.send(&request("PUT", "copy", &copy)).code, "PreconditionFailed", "copy {tag}");
    }
    for tag in [etag.clone(), bare, format!("a_b, {etag}"), format!("\"x\",{etag}"), "*".to_owned()] {
        assert_eq!(world.get("k", &[("if-match", &tag)]).status, 200, "{tag}");
        assert_eq!(world.get("k", &[("if-none-match", &tag)]).status, 304, "{tag}");
        let put = world.send(&request("PUT", "k", &[("if-match", &tag)]).body(CONTENT));
        assert_eq!(put.status, 200, "{tag}: {put}");
    }
    assert_eq!(
        world.get("k", &[("if-match", "x"), ("if-match", &etag)]).status,
        200,
        "several header lines are one list"
    );
    assert_eq!(world.get("k", &[("if-none-match", &weak)]).status, 304, "If-None-Match compares weakly");
    assert_eq!(world.get("k", &[("if-match", &weak)]).status, 412);
    assert_eq!(world.send(&request("PUT", "k", &[("if-match", &weak)])).status, 412);
    assert_eq!(status_and_body(&world.get("k", &[])), (200, CONTENT));
}

#[tokio::test]
async fn an_empty_condition_is_not_ignored() {
    let world = World::new().await;
    world.put("k", CONTENT);
    let source = ("x-amz-copy-source", "/requests/k");
    for (method, headers, status, code) in [
        ("PUT", vec![("if-match", "")], 412, "PreconditionFailed"),
        ("DELETE", vec![("if-match", "")], 412, "PreconditionFailed"),
        ("PUT", vec![("if-none-match", "")], 400, "InvalidArgument"),
        ("DELETE", vec![("x-amz-if-match-size", "")], 400, "InvalidArgument"),
        ("DELETE", vec![("x-amz-if-match-size", "10 bytes")], 400, "InvalidArgument"),
        ("DELETE", vec![("x-amz-if-match-last-modified-time", "")], 400, "InvalidArgument"),
        ("DELETE", vec![("if-none-match", "*")], 501, "NotImplemented"),
        ("PUT", vec![("if-unmodified-since", "Sun, 06 Nov 1994 08:49:37 GMT")], 501, "NotImplemented"),
        ("PUT", vec![source, ("x-amz-copy-source-if-match", "")], 412, "PreconditionFailed"),
        ("PUT", vec![source, ("x-amz-copy-source-if-none-match", "")], 400, "InvalidArgument"),
        ("PUT", vec![source, ("x-amz-copy-source-if-modified-since", "")], 400, "InvalidArgument"),
        ("PUT", vec![source, ("x-amz-copy-source-if-modified-since", "soon")], 400, "InvalidArgument"),
        ("PUT", vec![source, ("x-amz-source-expected-bucket-owner", "")], 403, "AccessDenied"),
        ("PUT", vec![("x-amz-expected-bucket-owner", "")], 403, "AccessDenied"),
        ("GET", vec![("x-amz-expected-bucket-owner", "")], 403, "AccessDenied"),
    ] {
        let key = if headers.contains(&source) { "copy" } else { "k" };
        let answer = world.send(&request(method, key, &headers));
        assert_eq!((answer.status, answer.code.as_str()), (status, code), "{method} {headers:?}: {answer}");
    }
    assert_eq!(status_and_body(&world.get("k", &[])), (200, CONTENT));
    assert_eq!(world.get("copy", &[]).status, 404);
    assert_eq!(world.get("k", &[("if-match", "")]).status, 412);
    assert_eq!(world.get("k", &[("if-none-match", "")]).status, 200);
    let entry = "<Delete><Object><Key>k</Key><ETag></ETag></Object></Delete>";
    let many = Request::new("POST", format!("/{BUCKET}")).query("delete=").body(entry);
    let answer = world.send(&many.header("x-amz-checksum-crc32", crc32(entry)));
    assert_eq!((answer.status, answer.code.as_str()), (200, "PreconditionFailed"), "{}", answer.text);
    assert_eq!(status_and_body(&world.get("k", &[])), (200, CONTENT));
}

#[tokio::test]
async fn a_version_or_the_time_of_another_upload_is_refused() {
    let world = World::new().await;
    world.put("k", CONTENT);
    let copy = [("x-amz-copy-source", "/requests/k")];
    for (what, request) in [
        ("PUT", request("PUT", "k", &[]).query("versionId=null").body("x")),
        ("PUT, empty", request("PUT", "k", &[]).query("versionId=").body("x")),
        ("copy", request("PUT", "k", &copy).query("versionId=null")),
        ("begin", request("POST", "k", &[]).query("uploads=&versionId=null")),
    ] {
        let answer = world.send(&request);
        assert_eq!((answer.status, answer.code.as_str()), (400, "InvalidArgument"), "{what}: {answer}");
        assert!(answer.text.contains("This operation does not accept a version-id."), "{what}: {answer}");
    }
    assert_eq!(status_and_body(&world.get("k", &[])), (200, CONTENT));

    let begun = world.client.create_multipart_upload().bucket(BUCKET).key("u").send().await.expect("begun");
    let query = format!("uploadId={}", begun.upload_id().expect("an id"));
    let listed = || async {
        let uploads = world.client.list_multipart_uploads().bucket(BUCKET).send().await.expect("listed");
        uploads.uploads().first().map(|upload| upload.initiated().copied().expect("a time"))
    };
    let time = listed().await.expect("it is there").fmt(aws_sdk_s3::primitives::DateTimeFormat::HttpDate);
    let time = time.expect("a date");
    let abort =
        |value: &str| world.send(&request("DELETE", "u", &[("x-amz-if-match-initiated-time", value)]).query(&query));
    let other = abort("Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!((other.status, other.code.as_str()), (412, "PreconditionFailed"), "{other}");
    assert_eq!(abort("").code, "InvalidArgument");
    assert!(listed().await.is_some(), "a refused abort leaves the upload");
    assert_eq!(abort(&time).status, 204);
    assert!(listed().await.is_none());
}

#[tokio::test]
async fn lines_of_the_same_metadata_are_joined_and_stay_signed() {
    let world = World::new().await;
    let request = request("PUT", "k", &[("x-amz-meta-a", "1"), ("x-amz-meta-b", "x"), ("x-amz-meta-a", "2, 3")]);
    let wire = world.signer.now().sign(&request);
    assert_eq!(world.send_wire(&wire).status, 200);
    let head = world.send(&super::request("HEAD", "k", &[]));
    assert_eq!((header(&head, "x-amz-meta-a"), header(&head, "x-amz-meta-b")), ("1,2, 3".into(), "x".into()));
    let forged = world.send_wire(&wire.and_header("x-amz-meta-a", "4"));
    assert_eq!((forged.status, forged.code.as_str()), (403, "SignatureDoesNotMatch"));
}

/// The checksum of a body, in base64.
fn crc32(body: &str) -> String {
    use base64::Engine as _;
    let mut crc = !0u32;
    for byte in body.bytes() {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (!(crc & 1)).wrapping_add(1));
        }
    }
    base64::engine::general_purpose::STANDARD.encode((!crc).to_be_bytes())
}
