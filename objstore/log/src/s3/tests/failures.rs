//! A log on a store that fails, over HTTP: lost answers, a busy store, cut bodies, old listings; what is refused.

use objstore_testing::s3::{Fault, Seen};

use super::*;

fn opened(server: &FakeS3, still: &Still) -> Result<S3> {
    S3::open_with(&settings(server, "log"), still.clock())
}

fn refusal(server: &FakeS3) -> String {
    match opened(server, &Still::default()) {
        Err(error @ Error::Unusable { .. }) => error.to_string(),
        other => panic!("{:?}", other.map(|_| "opened")),
    }
}

fn put_of(part: &'static str) -> impl Fn(&Seen) -> bool + Send + Sync + 'static {
    move |seen| seen.method == "PUT" && seen.key.contains(part)
}

#[test]
fn a_write_whose_answer_was_lost_is_recognised_as_the_own_one() {
    let (server, still) = (FakeS3::start(), Still::default());
    server.fail_first(1, Fault::LoseAnswer, put_of("log/owner"));
    let log = opened(&server, &still).unwrap();
    server.fail_first(2, Fault::LoseAnswer, put_of("log/owner"));
    let epoch = log.fence(&claim("a")).unwrap().epoch;
    server.fail_first(1, Fault::LoseAnswer, put_of("log/log/"));
    append(&log, epoch, 1, 3).unwrap();
    server.fail_first(1, Fault::LoseAnswer, put_of("log/owner"));
    log.renew(epoch).unwrap();
    // Of the seal, too.
    server.fail_first(1, Fault::LoseAnswer, put_of("log/log/"));
    let next = log.fence(&claim("a")).unwrap();
    assert_eq!((next.epoch, next.tail.next), (epoch + 1, 4));
    assert_eq!(numbers(&log, 1), [1, 2, 3]);
}

#[test]
fn a_busy_store_and_cut_bodies_are_asked_again() {
    let (server, still) = (FakeS3::start(), Still::default());
    let log = opened(&server, &still).unwrap();
    let epoch = log.fence(&claim("a")).unwrap().epoch;
    server.fail_first(2, Fault::Status(503), put_of("log/log/"));
    append(&log, epoch, 1, 2).unwrap();
    for fault in [Fault::CutBody, Fault::Shorten, Fault::Status(503)] {
        server.fail_first(1, fault, |seen| seen.method == "GET" && seen.key.contains("log/log/"));
        let other = opened(&server, &still).unwrap();
        assert_eq!(numbers(&other, 1), [1, 2], "{fault:?}");
    }
    server.heal();
    let key = format!("log/{}", keys::batch(epoch, 1));
    let mut damaged = server.objects()[&key].to_vec();
    damaged[50] ^= 1;
    server.set(&key, Some(damaged.into()));
    let error = opened(&server, &still).unwrap().read_from(1, Limit::default()).unwrap_err();
    assert!(matches!(&error, Error::Unusable { why } if why.contains("its checksum does not match")), "{error}");
}

#[test]
fn a_store_that_stays_busy_leaves_an_append_indeterminate_and_a_read_for_later() {
    let (server, still) = (FakeS3::start(), Still::default());
    let log = opened(&server, &still).unwrap();
    let epoch = log.fence(&claim("a")).unwrap().epoch;
    server.fail(|_| Some(Fault::Status(503)));
    assert!(matches!(append(&log, epoch, 1, 1), Err(Error::Indeterminate { .. })));
    assert!(matches!(log.read_from(1, Limit::default()), Err(Error::Unavailable { .. })));
    assert!(matches!(log.renew(epoch), Err(Error::Indeterminate { .. } | Error::Unavailable { .. })));
    // Read-only: whether an earlier attempt was made is unknown.
    server.fail(|seen| (seen.method == "PUT").then_some(Fault::Status(403)));
    assert!(matches!(append(&log, epoch, 2, 1), Err(Error::Indeterminate { .. })));
    server.heal();
    log.renew(epoch).unwrap();
    assert_eq!(append(&log, epoch, 1, 1), Err(Error::Taken { number: 1 }), "it may be there, or arrive");
}

#[test]
fn an_old_listing_changes_nothing() {
    let (server, still) = (FakeS3::start(), Still::default());
    let log = opened(&server, &still).unwrap();
    let epoch = log.fence(&claim("a")).unwrap().epoch;
    append(&log, epoch, 1, 1).unwrap();
    server.keep_listing(true);
    (2..30).for_each(|number| append(&log, epoch, number, 1).unwrap());
    let other = opened(&server, &still).unwrap();
    assert_eq!(numbers(&other, 1), (1..30).collect::<Vec<_>>());
    log.trim(epoch, 20).unwrap();
    let next = other.fence(&claim("a")).unwrap();
    assert_eq!((next.tail.first, next.tail.next), (20, 30));
}

#[test]
fn what_cannot_be_a_log_is_refused_with_the_reason() {
    let server = FakeS3::start();
    server.set("log/photo.jpg", Some(Bytes::from_static(b"x")));
    assert!(refusal(&server).contains("photo.jpg"));
    server.set("log/photo.jpg", None);
    let none = S3::open_existing(&settings(&server, "log")).map(|_| ()).unwrap_err().to_string();
    assert!(none.contains("there is no log") && server.objects().is_empty(), "{none}");
    server.fail(|seen| (seen.method == "PUT").then_some(Fault::Status(403)));
    let read_only = refusal(&server);
    assert!(read_only.contains("read-only") && !read_only.contains("hidden"), "{read_only}");
    server.heal();
    let log = opened(&server, &Still::default()).unwrap();
    let text = String::from_utf8(server.objects()["log/owner"].to_vec()).unwrap();
    server.set("log/owner", Some(text.replace("format 1", "format 2").into()));
    assert!(refusal(&server).contains("use a newer program"));
    server.set("log/owner", Some(Bytes::from_static(b"something")));
    assert!(refusal(&server).contains("it is not the record of a log"));
    drop(log);
    server.set("log/owner", None);
    assert!(opened(&server, &Still::default()).is_ok(), "an empty prefix");
    server.ignore_conditions();
    let unsafe_store = refusal(&server);
    assert!(unsafe_store.contains("If-None-Match") && unsafe_store.contains("PostgreSQL"), "{unsafe_store}");
    assert!(server.objects().keys().all(|key| !key.contains("probe")), "{:?}", server.objects().keys());
}
