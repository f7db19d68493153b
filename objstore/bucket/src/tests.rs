//! A bucket on a server that fails.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use objstore_testing::s3::{BUCKET, FakeS3, Fault, Seen};

use super::*;

fn open(server: &FakeS3, bucket: &str) -> Bucket {
    let location = Location::parse(&format!("s3://{bucket}/store")).unwrap();
    let patience = Patience {
        connect: Duration::from_secs(2),
        attempt: Duration::from_secs(2),
        call: Duration::from_secs(10),
        attempts: 3,
    };
    let keys = Some(Keys { id: "AKID".into(), secret: "hidden-secret".into() });
    Bucket::open(Options { endpoint: Some(server.endpoint()), keys, patience, ..Options::new(location) }).unwrap()
}

fn bytes(len: usize) -> Bytes {
    (0..len).map(|at| (at * 31 % 251) as u8).collect::<Vec<_>>().into()
}

fn is(method: &'static str) -> impl Fn(&Seen) -> bool + Send + Sync + 'static {
    move |seen| seen.method == method
}

#[test]
fn objects_are_written_once_read_replaced_and_removed() {
    let server = FakeS3::start();
    let bucket = open(&server, BUCKET);
    let etag = bucket.put("blobs/1", bytes(1000)).unwrap();
    assert!(matches!(bucket.put("blobs/1", bytes(3)), Err(Error::Conflict { .. })));
    assert_eq!(bucket.get("blobs/1", 1000).unwrap(), Object { bytes: bytes(1000), etag: etag.clone() });
    assert_eq!(bucket.get_range("blobs/1", 10..20).unwrap(), bytes(1000).slice(10..20));
    assert_eq!((bucket.length("blobs/1").unwrap(), bucket.length("blobs/2").unwrap()), (Some(1000), None));
    let second = bucket.replace("blobs/1", bytes(5), &etag).unwrap();
    assert!(matches!(bucket.replace("blobs/1", bytes(6), &etag), Err(Error::Conflict { .. })));
    assert_eq!(bucket.get("blobs/1", 10).unwrap(), Object { bytes: bytes(5), etag: second });
    assert!(matches!(bucket.get("blobs/1", 4), Err(Error::Damaged { .. })), "longer than the caller can hold");
    bucket.remove(&["blobs/1".into(), "blobs/none".into()]).unwrap();
    assert!(bucket.get("blobs/1", 10).unwrap_err().is_missing());
    assert!(server.objects().is_empty());
}

#[test]
fn listings_go_over_pages_and_stay_below_the_prefix() {
    let server = FakeS3::start();
    let bucket = open(&server, BUCKET);
    for index in 0..1005 {
        server.set(&format!("store/a/{index:05}"), Some(bytes(index % 7)));
    }
    server.set("store/b", Some(bytes(1)));
    server.set("store2/a/1", Some(bytes(1)));
    let all = bucket.list_all("a/").unwrap();
    assert_eq!((all.len(), &*all[0].key, &*all[1004].key, all[3].length), (1005, "a/00000", "a/01004", 3));
    assert_eq!(bucket.list_all("").unwrap().len(), 1006);
    bucket.remove(&all.into_iter().map(|listed| listed.key).collect::<Vec<_>>()).unwrap();
    assert_eq!(server.objects().len(), 2);
}

#[test]
fn a_write_whose_answer_was_lost_is_not_taken_for_that_of_another() {
    let server = FakeS3::start();
    let bucket = open(&server, BUCKET);
    server.fail_first(1, Fault::LoseAnswer, is("PUT"));
    let etag = bucket.put("a", bytes(10)).unwrap();
    server.fail_first(1, Fault::LoseAnswer, is("PUT"));
    let second = bucket.replace("a", bytes(20), &etag).unwrap();
    assert_eq!(bucket.get("a", 100).unwrap(), Object { bytes: bytes(20), etag: second });
    let seen = server.seen();
    assert_eq!(seen.iter().filter(|seen| seen.method == "PUT").count(), 4, "{seen:?}");
}

#[test]
fn a_busy_server_is_asked_again_and_one_that_stays_busy_is_unavailable() {
    let server = FakeS3::start();
    let bucket = open(&server, BUCKET);
    server.fail_first(2, Fault::Status(503), |_| true);
    bucket.put("a", bytes(10)).unwrap();
    server.fail(|_| Some(Fault::Status(503)));
    let error = bucket.put("b", bytes(10)).unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("SlowDown"), "{error}");
    server.fail(|_| Some(Fault::Hang(Duration::from_secs(30))));
    assert!(bucket.get("a", 10).unwrap_err().is_temporary());
    server.heal();
    assert_eq!(bucket.get("a", 10).unwrap().bytes, bytes(10));
    assert!(bucket.stats().errors[Kind::Put as usize] == 1 && bucket.stats().latencies[Kind::Get as usize].count() > 1);
}

#[test]
fn wrong_lengths_and_cut_bodies_are_asked_for_again_and_never_returned() {
    let server = FakeS3::start();
    let bucket = open(&server, BUCKET);
    bucket.put("a", bytes(1000)).unwrap();
    for fault in [Fault::Shorten, Fault::CutBody] {
        server.fail_first(1, fault, is("GET"));
        assert_eq!(bucket.get_range("a", 0..500).unwrap(), bytes(1000).slice(..500), "{fault:?}");
        server.fail(move |_| Some(fault));
        let error = bucket.get_range("a", 0..500).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. } | Error::Unavailable { .. }), "{fault:?}: {error}");
        server.heal();
    }
}

#[test]
fn refusals_name_their_cause_and_no_secret() {
    let server = FakeS3::start();
    let missing = open(&server, "other").put("a", bytes(1)).unwrap_err();
    assert!(missing.to_string().contains("the bucket does not exist"), "{missing}");
    let bucket = open(&server, BUCKET);
    server.fail(|_| Some(Fault::Status(403)));
    let denied = bucket.put("a", bytes(1)).unwrap_err();
    assert!(matches!(denied, Error::Refused { .. }) && denied.to_string().contains("AccessDenied"), "{denied}");
    let options = format!(
        "{:?}",
        Options {
            keys: Some(Keys { id: "A".into(), secret: "hidden".into() }),
            ..Options::new(bucket.location().clone())
        }
    );
    assert!(!options.contains("hidden"), "{options}");
}

struct Memory(Bytes);

impl Source for Memory {
    fn read(&self, offset: u64, len: usize) -> Result<Bytes, String> {
        Ok(self.0.slice(offset as usize..offset as usize + len))
    }
}

#[test]
fn large_objects_go_in_parts_and_leave_no_upload_behind() {
    let server = FakeS3::start();
    let bucket = open(&server, BUCKET);
    let content = bytes(2 * PART_BYTES as usize + 12345);
    let source = Arc::new(Memory(content.clone()));
    server.fail_first(1, Fault::LoseAnswer, |seen| seen.method == "POST" && seen.query.contains("uploadId"));
    bucket.put_large("big", content.len() as u64, source.clone()).unwrap();
    assert_eq!(server.objects()["store/big"], content);
    server.heal();
    assert!(matches!(bucket.put_large("big", content.len() as u64, source.clone()), Err(Error::Conflict { .. })));
    assert_eq!(server.uploads(), 0);
    // A crash leaves the parts; the next opening removes them.
    server.fail(|seen| (seen.method == "DELETE" || seen.query.contains("partNumber=2")).then_some(Fault::Status(403)));
    assert!(bucket.put_large("bigger", content.len() as u64, source).is_err());
    assert_eq!(server.uploads(), 1);
    server.heal();
    assert_eq!(bucket.abort_uploads("big").unwrap(), 1);
    assert_eq!((server.uploads(), server.objects().len()), (0, 1));
}

#[test]
fn a_location_belongs_to_one_store() {
    let server = FakeS3::start();
    let bucket = open(&server, BUCKET);
    let refusal = |id: &str, claim| bucket.claim(id, claim).unwrap_err().to_string();
    assert!(refusal("one", Claim::Known).contains("is missing"));
    bucket.claim("one", Claim::New).unwrap();
    bucket.claim("one", Claim::New).unwrap();
    bucket.claim("one", Claim::Known).unwrap();
    assert!(refusal("two", Claim::New).contains("another store"));
    server.set("store/amphora-store", Some("amphora store\nformat 2\nid one\n".into()));
    assert!(refusal("one", Claim::Known).contains("format 2"));
    server.set("store/amphora-store", None);
    server.set("store/photo.jpg", Some(bytes(3)));
    assert!(refusal("one", Claim::New).contains("photo.jpg"));
}

#[test]
fn a_server_that_ignores_conditions_and_a_read_only_bucket_are_refused() {
    let server = FakeS3::start();
    let bucket = open(&server, BUCKET);
    server.fail(|seen| (seen.method == "PUT").then_some(Fault::Status(403)));
    let error = bucket.claim("one", Claim::New).unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
    server.heal();
    server.ignore_conditions();
    let error = bucket.claim("one", Claim::New).unwrap_err();
    assert!(error.to_string().contains("If-None-Match"), "{error}");
}
