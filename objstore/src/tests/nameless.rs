//! Files created without a name.

use super::test_store::{TestStore, bucket_request, by_root, find, key, make, make_file, name, read_file};
use crate::error::{Error, Posix, Result};
use crate::name::BucketName;
use crate::store::{CreateBucket, DefaultRetention, ObjectLock, RetentionMode, Versioning};
use crate::volume::{Make, Volume};

fn nameless(volume: &Volume, linkable: bool) -> u64 {
    volume.create_nameless(volume.root(), by_root(0o644), linkable).unwrap().ino
}

fn close(volume: &Volume, ino: u64) {
    volume.close_writer(ino).unwrap();
    volume.forget(ino, 1);
}

fn refused<T>(result: Result<T>, why: Posix) -> bool {
    result.is_err_and(|error| matches!(error, Error::Posix(posix) if posix == why))
}

fn used(test: &TestStore, bucket: &BucketName) -> (u64, u64) {
    let usage = test.store.usage(bucket).unwrap();
    (usage.inodes, usage.bytes)
}

fn settle(test: &TestStore) {
    test.store.core.meta.sync().wait().unwrap();
}

#[test]
fn a_file_without_a_name_goes_with_who_holds_it() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    let volume = test.mount(&bucket);
    let ino = nameless(&volume, true);
    volume.write(ino, 0, &[1; 20 << 10], false).unwrap();
    assert_eq!(volume.attr(ino).unwrap().nlink, 0);
    assert_eq!((used(&test, &bucket), test.keys(&bucket).len()), ((1, 20 << 10), 0));
    assert_eq!(volume.read_dir(volume.root()).unwrap(), []);
    test.audit();
    close(&volume, ino);
    settle(&test);
    assert!(refused(volume.attr(ino), Posix::Stale));
    assert_eq!(used(&test, &bucket), (0, 0));
    test.audit_collected();
}

#[test]
fn a_name_makes_it_a_file_as_any_other() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    let volume = test.mount(&bucket);
    make_file(&volume, volume.root(), "taken").unwrap();
    let gone = make(&volume, volume.root(), "gone", Make::Directory).unwrap();
    volume.pin(gone).unwrap();
    volume.remove_dir(volume.root(), "gone").unwrap();
    let ino = nameless(&volume, true);
    volume.write(ino, 0, b"content", false).unwrap();
    assert!(refused(volume.link(ino, volume.root(), "taken"), Posix::Exists));
    assert!(refused(volume.link(ino, gone, "f"), Posix::NotFound));
    assert_eq!(volume.link(ino, volume.root(), "f").unwrap().nlink, 1);
    assert_eq!(volume.link(ino, volume.root(), "g").unwrap().nlink, 2);
    volume.forget(ino, 2);
    close(&volume, ino);
    settle(&test);
    assert_eq!(read_file(&volume, find(&volume, "f").unwrap()), b"content");
    assert_eq!(test.get(&bucket, "g").unwrap(), b"content");
    test.audit_collected();
    // What lost its names gets none again.
    volume.pin(ino).unwrap();
    volume.unlink(volume.root(), "f").unwrap();
    volume.unlink(volume.root(), "g").unwrap();
    assert!(refused(volume.link(ino, volume.root(), "back"), Posix::NotFound));
    volume.forget(ino, 1);
    settle(&test);
    test.audit_collected();
}

#[test]
fn one_that_is_not_to_be_linked_is_not() {
    let test = TestStore::in_memory();
    let volume = test.mount(&test.bucket("bucket"));
    let ino = nameless(&volume, false);
    assert!(refused(volume.link(ino, volume.root(), "f"), Posix::NotFound));
    close(&volume, ino);
}

#[test]
fn it_counts_against_the_quota() {
    let test = TestStore::in_memory();
    let request = CreateBucket { quota_bytes: Some(10 << 10), ..bucket_request("bucket") };
    test.run(test.store.create_bucket(request)).unwrap();
    let volume = test.mount(&name("bucket"));
    let ino = nameless(&volume, true);
    volume.write(ino, 0, &[1; 8 << 10], false).unwrap();
    assert!(matches!(volume.write(ino, 8 << 10, &[1; 4 << 10], false), Err(Error::QuotaExceeded { .. })));
    assert!(matches!(test.put(&name("bucket"), "f", &[1; 4 << 10]), Err(Error::QuotaExceeded { .. })));
    close(&volume, ino);
    settle(&test);
    test.put(&name("bucket"), "f", &[1; 4 << 10]).unwrap();
}

#[test]
fn the_death_of_the_server_ends_it_and_a_snapshot_does_not_show_it() {
    let test = TestStore::on_disk();
    let bucket = test.bucket("bucket");
    let volume = test.mount(&bucket);
    let (kept, lost) = (nameless(&volume, true), nameless(&volume, true));
    volume.write(kept, 0, b"kept", false).unwrap();
    volume.write(lost, 0, &[1; 20 << 10], false).unwrap();
    let before = test.snapshot(&bucket, "before");
    volume.link(kept, volume.root(), "f").unwrap();
    assert_eq!((test.keys(&before).len(), test.keys(&bucket)), (0, vec!["f".to_owned()]));
    let test = TestStore::at(test.folder_copy()).unwrap();
    assert_eq!((test.get(&bucket, "f").unwrap(), used(&test, &bucket)), (b"kept".to_vec(), (1, 4)));
    test.audit_collected();
}

#[test]
fn where_versions_are_kept_a_name_makes_a_version() {
    let test = TestStore::in_memory();
    let request = CreateBucket { versioning: Versioning::Enabled, ..bucket_request("bucket") };
    test.run(test.store.create_bucket(request)).unwrap();
    let bucket = name("bucket");
    let volume = test.mount(&bucket);
    let ino = nameless(&volume, true);
    volume.write(ino, 0, b"one", false).unwrap();
    volume.link(ino, volume.root(), "f").unwrap();
    let first = test.store.head_object(&bucket, &key("f"), None).unwrap().version.unwrap();
    assert_ne!(first, "null");
    volume.write(ino, 3, b" two", false).unwrap();
    assert_eq!(
        test.store.head_object(&bucket, &key("f"), None).unwrap().version,
        Some(first),
        "it was open all the time"
    );
    assert_eq!(test.get(&bucket, "f").unwrap(), b"one two");
    assert!(refused(volume.link(ino, volume.root(), "g"), Posix::NotPermitted));
    volume.forget(ino, 1);
    close(&volume, ino);
    test.audit_collected();
}

#[test]
fn under_object_lock_it_is_retained_from_its_name_on_and_still_written() {
    let test = TestStore::in_memory();
    let request = CreateBucket { versioning: Versioning::Enabled, ..bucket_request("bucket") };
    test.run(test.store.create_bucket(request)).unwrap();
    let bucket = name("bucket");
    let default = Some(DefaultRetention { mode: RetentionMode::Governance as i32, days: Some(1), years: None });
    test.run(test.store.set_object_lock(&bucket, ObjectLock { default })).unwrap();
    let volume = test.mount(&bucket);
    let ino = nameless(&volume, true);
    volume.write(ino, 0, b"one", false).unwrap();
    volume.link(ino, volume.root(), "f").unwrap();
    volume.write(ino, 0, b"two", false).unwrap();
    assert!(test.store.head_object(&bucket, &key("f"), None).unwrap().lock.retention.is_some());
    volume.close_writer(ino).unwrap();
    assert!(refused(volume.write(ino, 0, b"bad", false), Posix::NotPermitted));
    assert_eq!(test.get(&bucket, "f").unwrap(), b"two");
    volume.forget(ino, 2);
    test.audit_collected();
}
