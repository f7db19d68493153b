//! Resumed downloads (`If-Range`): if the object has changed, the whole new object is sent, never a range of it.

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{BucketVersioningStatus, CompletedMultipartUpload, CompletedPart, VersioningConfiguration};

use super::*;

const OLD: &str = "aaaaaaaaaabbbbbbbbbb";
const NEW: &str = "ccccccccccdddddddddd";
/// The smallest size of a part that is not the last.
const PART_BYTES: usize = 5 << 20;

#[tokio::test]
async fn a_resumed_download_across_an_overwrite_gets_the_whole_new_object() {
    let world = World::new().await;
    let old = world.put("k", OLD);
    let begun = world.get("k", &[("range", "bytes=0-9")]);
    assert_eq!(status_and_body(&begun), (206, &OLD[..10]));
    let old_date = header(&begun, "last-modified");
    // A date identifies the content only if the writes are in different seconds.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let new = world.put("k", NEW);
    let new_date = header(&world.get("k", &[]), "last-modified");

    let rest = ("range", "bytes=10-");
    let weak = format!("W/{new}");
    for changed in [old.as_str(), &weak, &old_date, "yesterday", "", "*", "\"a_b\""] {
        let request = request("GET", "k", &[rest, ("if-range", changed)]);
        for answer in [world.send(&request), world.send_wire(&world.url(request.clone()))] {
            assert_eq!(status_and_body(&answer), (200, NEW), "If-Range: {changed}");
            assert_eq!(header(&answer, "content-range"), "", "If-Range: {changed}");
        }
        let head = world.send(&super::request("HEAD", "k", &[rest, ("if-range", changed)]));
        assert_eq!((head.status, header(&head, "content-length").as_str()), (200, "20"), "If-Range: {changed}");
    }
    for same in [new.as_str(), new.trim_matches('"'), &new_date] {
        let answer = world.get("k", &[rest, ("if-range", same)]);
        assert_eq!(status_and_body(&answer), (206, &NEW[10..]), "If-Range: {same}");
        assert_eq!(header(&answer, "content-range"), "bytes 10-19/20", "If-Range: {same}");
        let head = world.send(&request("HEAD", "k", &[rest, ("if-range", same)]));
        assert_eq!((head.status, header(&head, "content-length").as_str()), (206, "10"), "If-Range: {same}");
    }
    // Two validators count as none. A range beyond the object is ignored if the validator does not match.
    assert_eq!(status_and_body(&world.get("k", &[rest, ("if-range", &new), ("if-range", &new)])), (200, NEW));
    assert_eq!(status_and_body(&world.get("k", &[("range", "bytes=99-"), ("if-range", &old)])), (200, NEW));
    assert_eq!(world.get("k", &[("range", "bytes=99-"), ("if-range", &new)]).status, 416);
    assert_eq!(
        status_and_body(&world.get("k", &[("if-range", &new)])),
        (200, NEW),
        "If-Range without a range has no effect"
    );
    assert_eq!(
        world.get("k", &[rest, ("if-range", &new), ("if-match", &old)]).status,
        412,
        "If-Match is evaluated first"
    );
}

#[tokio::test]
async fn a_resumed_download_of_a_version_or_a_part_continues_the_same_one() {
    let world = World::new().await;
    let enabled = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled).build();
    world.client.put_bucket_versioning().bucket(BUCKET).versioning_configuration(enabled).send().await.expect("set");
    let old = world.put("k", OLD);
    let id = header(&world.get("k", &[]), "x-amz-version-id");
    let new = world.put("k", NEW);
    let of_version = |validator: &str| {
        let headers = [("range", "bytes=10-"), ("if-range", validator)];
        world.send(&request("GET", "k", &headers).query(&format!("versionId={id}")))
    };
    assert_eq!(status_and_body(&of_version(&old)), (206, &OLD[10..]));
    assert_eq!(status_and_body(&of_version(&new)), (200, OLD), "the whole requested version");

    let etag = upload(&world, "parts").await;
    let of_part = |validator: &str| {
        let answer = world.send(&request("GET", "parts", &[("if-range", validator)]).query("partNumber=2"));
        (answer.status, status_and_body(&answer).1.len())
    };
    assert_eq!(of_part(&etag), (206, 4));
    assert_eq!(of_part(&old), (200, PART_BYTES + 4));
    let across = |validator: &str| {
        let range = format!("bytes={}-", PART_BYTES - 2);
        let answer = world.get("parts", &[("range", &range), ("if-range", validator)]);
        (answer.status, status_and_body(&answer).1.len())
    };
    assert_eq!(across(&etag), (206, 6));
    assert_eq!(across(&new), (200, PART_BYTES + 4));
}

/// Uploads an object of two parts; returns its entity tag.
async fn upload(world: &World, key: &str) -> String {
    let target = world.client.create_multipart_upload().bucket(BUCKET).key(key).send().await.expect("begun");
    let id = target.upload_id().expect("an id");
    let mut parts = CompletedMultipartUpload::builder();
    for (number, body) in [(1, vec![b'x'; PART_BYTES]), (2, b"last".to_vec())] {
        let part = world.client.upload_part().bucket(BUCKET).key(key).upload_id(id).part_number(number);
        let sent = part.body(ByteStream::from(body)).send().await.expect("sent");
        parts = parts.parts(CompletedPart::builder().part_number(number).set_e_tag(sent.e_tag).build());
    }
    let complete = world.client.complete_multipart_upload().bucket(BUCKET).key(key).upload_id(id);
    let done = complete.multipart_upload(parts.build()).send().await.expect("completed");
    done.e_tag.expect("an entity tag")
}
