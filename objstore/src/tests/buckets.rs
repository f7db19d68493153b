//! Buckets, quotas, snapshots and clones.

use std::collections::BTreeMap;

use super::audit;
use super::test_store::{TestStore, bucket_request, find, key, make, make_file, name, read_file};
use crate::error::{Error, Noun, Posix};
use crate::store::*;
use crate::volume::{Make, SetAttr, VolumeOptions};

const KIB: usize = 1 << 10;

fn create(test: &TestStore, request: CreateBucket) -> crate::Result<Outcome> {
    test.run(test.store.create_bucket(request)).map(|(_, outcome)| outcome)
}

fn force(test: &TestStore, bucket: &str) {
    test.run(test.store.delete_bucket(&name(bucket), Deletion::Force)).unwrap();
}

fn quota(test: &TestStore, bucket: &str, bytes: Option<u64>) {
    let set = SetBucket { quota_bytes: Some(bytes), ..SetBucket::default() };
    test.run(test.store.set_bucket(&name(bucket), set)).unwrap();
}

fn over_quota<T>(result: &crate::Result<T>) -> bool {
    matches!(result, Err(Error::QuotaExceeded { .. }))
}

#[test]
fn the_same_request_finds_the_bucket_and_another_is_refused() {
    let test = TestStore::in_memory();
    test.run(test.store.create_account("other", true)).unwrap();
    let asked = CreateBucket {
        quota_bytes: Some(9),
        attributes: BTreeMap::from([("a".into(), "b".into())]),
        ..bucket_request("same")
    };
    assert_eq!(create(&test, asked.clone()).unwrap(), Outcome::Made);
    let made = test.store.bucket(&name("same")).unwrap();
    assert_eq!(create(&test, asked.clone()).unwrap(), Outcome::Found);
    assert_eq!(test.store.bucket(&name("same")).unwrap(), made);
    for other in [
        CreateBucket { quota_bytes: None, ..asked.clone() },
        CreateBucket { owner: "other".into(), ..asked.clone() },
        CreateBucket { attributes: BTreeMap::new(), ..asked.clone() },
        CreateBucket { source: Some(Source::Snapshot("s".into())), ..asked },
    ] {
        assert!(matches!(create(&test, other), Err(Error::Exists { noun: Noun::Bucket, .. })));
    }
    let nobody = CreateBucket { owner: "nobody".into(), ..bucket_request("owned") };
    assert!(matches!(create(&test, nobody), Err(Error::NotFound { noun: Noun::Account, .. })));
    assert!(matches!(test.store.bucket(&name("owned")), Err(Error::NotFound { .. })));
}

#[test]
fn buckets_are_listed_in_pages_by_name() {
    let test = TestStore::in_memory();
    for bucket in ["b-2", "b-1", "b-10", "b.1"] {
        test.bucket(bucket);
    }
    let page = |after: Option<&str>, limit| {
        let buckets = test.store.buckets(after, limit).unwrap();
        buckets.into_iter().map(|bucket| bucket.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 9), ["b-1", "b-10", "b-2", "b.1"]);
    assert_eq!(page(None, 2), ["b-1", "b-10"]);
    assert_eq!(page(Some("b-1"), 2), ["b-10", "b-2"]);
    assert_eq!(page(Some("b.1"), 2), Vec::<String>::new());
}

#[test]
fn a_bucket_that_holds_something_is_deleted_by_force_only() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("full");
    let refused = || test.run(test.store.delete_bucket(&bucket, Deletion::IfEmpty));
    test.put(&bucket, "a/b", b"x").unwrap();
    assert!(matches!(refused(), Err(Error::NotEmpty { .. })));
    test.delete(&bucket, "a/b").unwrap();
    let upload = test.begin_upload(&bucket, "k");
    test.put_part(&upload, 1, &vec![1; 200 * KIB]).unwrap();
    let volume = test.mount(&bucket);
    make(&volume, volume.root(), "link", Make::Symlink("x".into())).unwrap();
    assert!(matches!(refused(), Err(Error::NotEmpty { .. })), "a symlink is something too, but not for S3");
    volume.unlink(volume.root(), "link").unwrap();
    // An upload under way is dropped with the bucket.
    refused().unwrap();
    test.audit_collected();
    assert!(matches!(volume.attr(volume.root()), Err(Error::Posix(Posix::Stale))));
    assert!(matches!(refused(), Err(Error::NotFound { .. })));
    test.bucket("full");
    assert!(matches!(volume.attr(volume.root()), Err(Error::Posix(Posix::Stale))), "another bucket of the same name");
    assert!(matches!(make_file(&volume, volume.root(), "f"), Err(Error::Posix(Posix::Stale))));
}

#[test]
fn a_forced_deletion_leaves_nothing() {
    let test = TestStore::with_segments(1);
    let bucket = test.bucket("gone");
    for (key, size) in [("a/inline", 10), ("a/packed", 20 * KIB), ("file", 300 * KIB), ("b/copied", 5)] {
        test.put(&bucket, key, &vec![1; size]).unwrap();
    }
    test.copy((&bucket, "file"), (&bucket, "b/copied")).unwrap();
    let upload = test.begin_upload(&bucket, "k");
    test.put_part(&upload, 1, &vec![1; 200 * KIB]).unwrap();
    let taken = test.snapshot(&bucket, "taken");
    test.clone_of(Source::Snapshot("taken".into()), "cloned");
    let volume = test.mount(&bucket);
    volume.write(find(&volume, "file").unwrap(), 7, b"new", false).unwrap();
    force(&test, "gone");
    drop(volume);
    test.audit_collected();
    assert_eq!(test.get(&taken, "file").unwrap(), vec![1; 300 * KIB]);
    assert_eq!(test.get(&name("cloned"), "a/packed").unwrap(), vec![1; 20 * KIB]);
    force(&test, "cloned");
    test.audit_collected();
    assert_eq!(test.get(&taken, "a/packed").unwrap(), vec![1; 20 * KIB]);
    test.run(test.store.delete_snapshot("taken")).unwrap();
    test.audit_collected();
    let clone_group = 0..20;
    assert!(clone_group.into_iter().all(|clone_group| audit::branches(&test.store, clone_group) == 0));
    assert_eq!(test.store.core.blobs.file_ids().unwrap(), []);
    let left = test.store.core.blobs.segments().unwrap();
    assert!(left.iter().all(|segment| segment.active), "{left:?}");
}

#[test]
fn a_quota_holds_to_the_byte_through_s3() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("quota");
    quota(&test, "quota", Some(1000));
    test.put(&bucket, "a", &[1; 600]).unwrap();
    assert!(over_quota(&test.put(&bucket, "b", &[1; 401])));
    test.put(&bucket, "b", &[1; 400]).unwrap();
    assert!(over_quota(&test.put(&bucket, "c", b"x")));
    test.put(&bucket, "empty", b"").unwrap();
    test.put(&bucket, "a", &[2; 600]).unwrap();
    assert!(over_quota(&test.put(&bucket, "a", &[2; 601])));
    assert_eq!(test.get(&bucket, "a").unwrap(), [2; 600], "a refused put changes nothing");
    assert!(over_quota(&test.copy((&bucket, "a"), (&bucket, "c"))));
    test.copy((&bucket, "a"), (&bucket, "a")).unwrap();
    quota(&test, "quota", Some(10));
    test.put(&bucket, "a", &[3; 500]).unwrap();
    assert!(over_quota(&test.put(&bucket, "c", b"x")), "one over its quota may shrink and not grow");
    test.delete(&bucket, "a").unwrap();
    test.delete(&bucket, "b").unwrap();
    test.put(&bucket, "c", &[1; 10]).unwrap();
    test.audit();
}

#[test]
fn a_quota_holds_to_the_byte_through_a_mount() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("quota");
    quota(&test, "quota", Some(100 * KIB as u64));
    let volume = test.mount(&bucket);
    let ino = make_file(&volume, volume.root(), "f").unwrap();
    for step in 0..10 {
        volume.append(ino, &[1; 10 * KIB]).unwrap();
        assert_eq!(volume.attr(ino).unwrap().size, (step + 1) * 10 * KIB as u64);
    }
    assert!(over_quota(&volume.append(ino, b"x")));
    assert!(over_quota(&volume.write(ino, 100 * KIB as u64 - 1, b"xy", false)));
    volume.write(ino, 100 * KIB as u64 - 1, b"y", false).unwrap();
    let size = |size: usize| SetAttr { size: Some(size as u64), ..SetAttr::default() };
    assert!(over_quota(&volume.set_attr(ino, size(100 * KIB + 1))));
    let other = make_file(&volume, volume.root(), "g").unwrap();
    assert!(over_quota(&volume.write(other, 0, b"x", false)));
    volume.set_attr(ino, size(100 * KIB - 1)).unwrap();
    volume.write(other, 0, b"x", false).unwrap();
    assert_eq!(volume.space().unwrap().free_bytes, 0);
    volume.unlink(volume.root(), "f").unwrap();
    assert_eq!(volume.space().unwrap().used_bytes, 1);
    test.audit_collected();
}

#[test]
fn parts_count_until_they_are_dropped() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("quota");
    quota(&test, "quota", Some(100));
    let upload = test.begin_upload(&bucket, "k");
    test.put_part(&upload, 1, &[1; 60]).unwrap();
    assert!(over_quota(&test.put_part(&upload, 2, &[1; 41])));
    assert!(over_quota(&test.put(&bucket, "a", &[1; 41])));
    let part = test.put_part(&upload, 1, &[2; 90]).unwrap();
    assert_eq!(test.store.usage(&bucket).unwrap().upload_bytes, 90);
    test.put_part(&upload, 3, &[1; 10]).unwrap();
    test.complete(&upload, &[&part]).unwrap();
    let usage = test.store.usage(&bucket).unwrap();
    assert_eq!((usage.bytes, usage.upload_bytes), (90, 0));
    let aborted = test.begin_upload(&bucket, "k");
    test.put_part(&aborted, 1, &[1; 10]).unwrap();
    test.run(test.store.abort_upload(&aborted)).unwrap();
    test.put(&bucket, "a", &[1; 10]).unwrap();
    test.audit_collected();
}

#[test]
fn a_clone_starts_with_what_its_source_held_and_goes_its_own_way() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("source");
    test.put(&bucket, "k", &[1; 600]).unwrap();
    let upload = test.begin_upload(&bucket, "u");
    test.put_part(&upload, 1, &[1; 50]).unwrap();
    let cloned = test.clone_of(Source::Bucket(bucket.clone()), "cloned");
    test.put(&bucket, "k", b"new").unwrap();
    test.delete(&cloned, "k").unwrap();
    test.put(&cloned, "only", b"here").unwrap();
    assert_eq!((test.keys(&bucket), test.keys(&cloned)), (vec!["k".to_owned()], vec!["only".to_owned()]));
    assert_eq!(test.store.usage(&cloned).unwrap().upload_bytes, 0);
    assert_eq!(test.store.usage(&bucket).unwrap().upload_bytes, 50);
    let small =
        CreateBucket { quota_bytes: Some(2), source: Some(Source::Bucket(bucket.clone())), ..bucket_request("small") };
    assert!(over_quota(&create(&test, small)));
    let missing = CreateBucket { source: Some(Source::Bucket(name("none"))), ..bucket_request("small") };
    assert!(matches!(create(&test, missing), Err(Error::NotFound { .. })));
    let missing = CreateBucket { source: Some(Source::Snapshot("none".into())), ..bucket_request("small") };
    assert!(matches!(create(&test, missing), Err(Error::NotFound { noun: Noun::Snapshot, .. })));
    test.audit_collected();
}

#[test]
fn a_clone_that_was_refused_leaves_no_trace_in_the_next_branch() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("source");
    test.put(&bucket, "k", b"old bytes").unwrap();
    test.snapshot(&bucket, "early");
    test.put(&bucket, "k", b"new bytes").unwrap();
    let small = |source| CreateBucket { quota_bytes: Some(2), source: Some(source), ..bucket_request("small") };
    assert!(over_quota(&create(&test, small(Source::Snapshot("early".into())))));
    test.snapshot(&bucket, "late");
    let cloned = test.clone_of(Source::Snapshot("late".into()), "cloned");
    for bucket in [&bucket, &name("late"), &cloned] {
        assert_eq!(test.get(bucket, "k").unwrap(), b"new bytes", "{bucket}");
    }
    test.audit_collected();
}

#[test]
fn snapshots_share_names_with_buckets_and_can_only_be_read() {
    let test = TestStore::in_memory();
    let (bucket, other) = (test.bucket("bucket"), test.bucket("other"));
    test.put(&bucket, "k", b"old").unwrap();
    let take = |bucket, snapshot| test.run(test.store.create_snapshot(bucket, &name(snapshot)));
    let (info, outcome) = take(&bucket, "taken").unwrap();
    assert_eq!((info.size_bytes, outcome), (3, Outcome::Made));
    test.put(&bucket, "k", b"newer").unwrap();
    let (again, outcome) = take(&bucket, "taken").unwrap();
    assert_eq!((again, outcome), (info.clone(), Outcome::Found));
    assert!(matches!(take(&other, "taken"), Err(Error::Exists { noun: Noun::Snapshot, .. })));
    assert!(matches!(take(&other, "bucket"), Err(Error::Exists { .. })));
    assert!(matches!(take(&name("none"), "more"), Err(Error::NotFound { noun: Noun::Bucket, .. })));
    assert!(matches!(create(&test, bucket_request("taken")), Err(Error::Exists { .. })));

    let taken = name("taken");
    assert_eq!(test.get(&taken, "k").unwrap(), b"old");
    assert!(test.store.bucket(&taken).unwrap().snapshot);
    assert!(matches!(test.put(&taken, "k", b"x"), Err(Error::Denied { .. })));
    assert!(matches!(test.delete(&taken, "k"), Err(Error::Denied { .. })));
    assert!(matches!(test.run(test.store.delete_bucket(&taken, Deletion::Force)), Err(Error::Denied { .. })));
    let volume = test.mount(&taken);
    let ino = find(&volume, "k").unwrap();
    assert_eq!(read_file(&volume, ino), b"old");
    assert!(matches!(volume.write(ino, 0, b"x", false), Err(Error::Posix(Posix::ReadOnly))));
    assert!(matches!(volume.unlink(volume.root(), "k"), Err(Error::Posix(Posix::ReadOnly))));
    volume.sync(ino).unwrap();

    test.copy((&taken, "k"), (&bucket, "back")).unwrap();
    assert_eq!(test.get(&bucket, "back").unwrap(), b"old");
    assert_eq!(test.store.snapshots(Some(&bucket), None, 9).unwrap(), [info]);
    assert_eq!(test.store.snapshots(Some(&other), None, 9).unwrap(), []);
    force(&test, "bucket");
    test.collect();
    assert_eq!(test.get(&taken, "k").unwrap(), b"old", "a snapshot outlives its bucket");
    test.run(test.store.delete_snapshot("taken")).unwrap();
    assert!(matches!(test.run(test.store.delete_snapshot("taken")), Err(Error::NotFound { .. })));
    test.audit_collected();
    assert!(matches!(volume.attr(ino), Err(Error::Posix(Posix::Stale))));
}

#[test]
fn a_prefix_is_the_root_of_a_mount() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("prefix");
    test.put(&bucket, "a/b/c", b"x").unwrap();
    let open = |prefix: &str| {
        test.store.open_volume(&bucket, VolumeOptions { prefix: prefix.into(), ..VolumeOptions::default() })
    };
    for prefix in ["a/b", "/a/b/"] {
        let volume = open(prefix).unwrap();
        assert_eq!(read_file(&volume, find(&volume, "c").unwrap()), b"x");
        assert_eq!(volume.parent(volume.root()).unwrap(), volume.root());
    }
    assert!(matches!(open("a/c"), Err(Error::Invalid { .. })));
    assert!(test.store.open_object(&bucket, &key("a/b/c"), None).is_ok());
}
