//! The chattr(1) flags, with S3, versions, snapshots, clones and backups.

use std::sync::Arc;

use super::test_store::{TestStore, bucket_request, find, key, make, make_file, name, read_file};
use crate::backup::{self, Folder, Progress, ProgressSink};
use crate::error::{Error, Posix, Result};
use crate::name::BucketName;
use crate::store::{CreateBucket, List, ListVersions, Source, Versioning};
use crate::volume::{Allocate, Change, Flags, Make, SetAttr, Volume};

const IMMUTABLE: Flags = Flags { immutable: true, append_only: false, no_dump: false };
const APPEND_ONLY: Flags = Flags { immutable: false, append_only: true, no_dump: false };
const NO_DUMP: Flags = Flags { immutable: false, append_only: false, no_dump: true };

fn refused<T: std::fmt::Debug>(what: &str, result: Result<T>) {
    match result {
        Err(Error::Posix(Posix::NotPermitted)) => {}
        other => panic!("{what}: {other:?}"),
    }
}

fn file(volume: &Volume, name: &str, flags: Flags) -> u64 {
    let ino = make_file(volume, volume.root(), name).unwrap();
    volume.write(ino, 0, b"content", false).unwrap();
    volume.set_flags(ino, flags).unwrap();
    ino
}

/// The number of versions.
fn versions(test: &TestStore, bucket: &BucketName) -> usize {
    let all = ListVersions { list: List { limit: usize::MAX, ..List::default() }, after_version: None };
    test.store.list_versions(bucket, &all).unwrap().versions.len()
}

fn bucket(test: &TestStore, versioning: Versioning) -> BucketName {
    test.run(test.store.create_bucket(CreateBucket { versioning, ..bucket_request("bucket") })).unwrap();
    name("bucket")
}

#[test]
fn s3_changes_nothing_that_is_immutable_or_append_only() {
    for versioning in [Versioning::Disabled, Versioning::Enabled, Versioning::Suspended] {
        for flags in [IMMUTABLE, APPEND_ONLY] {
            let test = TestStore::in_memory();
            let bucket = bucket(&test, versioning);
            let volume = test.mount(&bucket);
            let ino = file(&volume, "kept", flags);
            test.put(&bucket, "other", b"other").unwrap();
            refused("PUT", test.put(&bucket, "kept", b"replaced"));
            refused("DELETE", test.delete(&bucket, "kept"));
            refused("CopyObject over it", test.copy((&bucket, "other"), (&bucket, "kept")));
            let tags = [("a".to_owned(), "b".to_owned())].into();
            refused("PutObjectTagging", test.run(test.store.set_tags(&bucket, &key("kept"), None, tags)));
            let upload = test.begin_upload(&bucket, "kept");
            let part = test.put_part(&upload, 1, b"part").unwrap();
            refused("CompleteMultipartUpload", test.complete(&upload, &[&part]));
            test.copy((&bucket, "kept"), (&bucket, "copy")).unwrap();
            assert_eq!((test.get(&bucket, "kept").unwrap(), test.get(&bucket, "copy").unwrap()), {
                (b"content".to_vec(), b"content".to_vec())
            });
            assert_eq!(
                volume.flags(find(&volume, "copy").unwrap()).unwrap(),
                Flags::default(),
                "a copy is another file"
            );
            volume.set_flags(ino, Flags::default()).unwrap();
            test.put(&bucket, "kept", b"replaced").unwrap();
            test.delete(&bucket, "kept").unwrap();
            test.audit_collected();
        }
    }
}

#[test]
fn s3_makes_and_deletes_no_keys_in_an_immutable_directory() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    let volume = test.mount(&bucket);
    let dir = make(&volume, volume.root(), "d", Make::Directory).unwrap();
    test.put(&bucket, "d/x", b"x").unwrap();
    test.put(&bucket, "d/sub/y", b"y").unwrap();
    volume.set_flags(dir, IMMUTABLE).unwrap();
    refused("PUT", test.put(&bucket, "d/new", b"new"));
    refused("PUT below", test.put(&bucket, "d/newer/x", b"new"));
    refused("PUT over", test.put(&bucket, "d/x", b"new"));
    refused("DELETE", test.delete(&bucket, "d/x"));
    refused("DELETE of the folder", test.delete(&bucket, "d/"));
    test.delete(&bucket, "d/sub/y").unwrap();
    assert!(find(&volume, "d/sub").is_ok(), "the directory keeps its names, though S3 made it for a key");
    volume.set_flags(dir, APPEND_ONLY).unwrap();
    test.put(&bucket, "d/new", b"new").unwrap();
    refused("DELETE", test.delete(&bucket, "d/new"));
    refused("PUT over", test.put(&bucket, "d/new", b"newer"));
    volume.set_flags(dir, Flags::default()).unwrap();
    test.delete(&bucket, "d/new").unwrap();
    test.audit_collected();
}

#[test]
fn snapshots_and_clones_keep_flags_and_old_versions_have_none() {
    let test = TestStore::in_memory();
    let bucket = bucket(&test, Versioning::Enabled);
    let volume = test.mount(&bucket);
    let log = file(&volume, "log", APPEND_ONLY);
    let kept = file(&volume, "kept", IMMUTABLE);
    for line in 0..3 {
        volume.open_writer(log).unwrap();
        volume.append(log, format!("{line}\n").as_bytes()).unwrap();
        volume.close_writer(log).unwrap();
    }
    assert_eq!(read_file(&volume, log), b"content0\n1\n2\n");
    assert_eq!(volume.flags(log).unwrap(), APPEND_ONLY, "the current version has them");
    let snapshot = test.snapshot(&bucket, "snapshot");
    let clone = test.clone_of(Source::Bucket(bucket.clone()), "clone");
    for seen in [&snapshot, &clone] {
        let volume = test.mount(seen);
        assert_eq!(volume.flags(find(&volume, "kept").unwrap()).unwrap(), IMMUTABLE);
        assert_eq!(volume.flags(find(&volume, "log").unwrap()).unwrap(), APPEND_ONLY);
    }
    refused("PUT in the clone", test.put(&clone, "kept", b"x"));
    let before = versions(&test, &bucket);
    refused("write", volume.write(kept, 0, b"x", false));
    refused("append", volume.append(kept, b"x"));
    refused("reserve", volume.allocate(kept, Allocate::KeepSize, 0, 1 << 20));
    refused("punch", volume.allocate(log, Allocate::PunchHole, 0, 1));
    assert_eq!(versions(&test, &bucket), before, "what is refused begins no version");
    let cloned = test.mount(&clone);
    cloned.set_flags(find(&cloned, "kept").unwrap(), Flags::default()).unwrap();
    test.put(&clone, "kept", b"x").unwrap();
    assert_eq!(volume.flags(kept).unwrap(), IMMUTABLE, "the source keeps its own");
    test.audit_collected();
}

#[test]
fn flags_are_told_to_other_mounts_and_hold_for_them() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    let (volume, other) = (test.mount(&bucket), test.mount(&bucket));
    let ino = file(&volume, "file", Flags::default());
    other.write(ino, 3, b"x", false).unwrap();
    let mut feed = other.feed();
    volume.set_flags(ino, IMMUTABLE).unwrap();
    assert!(feed.gathered().contains(&Change::Attributes { ino }));
    refused("write", other.write(ino, 0, b"x", false));
    refused("append", other.append(ino, b"x"));
    refused("truncate", other.set_attr(ino, SetAttr { size: Some(0), ..SetAttr::default() }));
    refused("chmod", other.set_attr(ino, SetAttr { mode: Some(0o600), ..SetAttr::default() }));
    refused("open", other.check_open(ino, true));
    assert_eq!(read_file(&other, ino), b"conxent");
    // Pages that a program had changed before through a mapping are not lost.
    other.write_back(ino, 0, b"C", false).unwrap();
    assert_eq!(read_file(&other, ino), b"Conxent");
    other.set_flags(ino, APPEND_ONLY).unwrap();
    refused("pages of a mapping that may have been made since", other.write_back(ino, 0, b"x", false));
    other.append(ino, b"+").unwrap();
    refused("pages, while it is written in place", other.write_back(ino, 0, b"x", false));
    assert_eq!(read_file(&other, ino), b"Conxent+");
    other.set_flags(ino, NO_DUMP).unwrap();
    volume.write(ino, 0, b"c", false).unwrap();
    test.audit_collected();
}

#[test]
fn flags_survive_a_crash_and_are_inherited_as_on_ext4() {
    let test = TestStore::on_disk();
    let bucket = test.bucket("bucket");
    let volume = test.mount(&bucket);
    let dir = make(&volume, volume.root(), "d", Make::Directory).unwrap();
    volume.set_flags(dir, Flags { append_only: true, ..NO_DUMP }).unwrap();
    let kept = make_file(&volume, dir, "kept").unwrap();
    test.put(&bucket, "d/object", b"x").unwrap();
    test.put(&bucket, "d/sub/object", b"x").unwrap();
    for path in ["d/kept", "d/object", "d/sub", "d/sub/object"] {
        assert_eq!(volume.flags(find(&volume, path).unwrap()).unwrap(), NO_DUMP, "{path}");
    }
    volume.set_flags(kept, IMMUTABLE).unwrap();
    volume.sync(kept).unwrap();
    drop(volume);
    let test = test.killed(&[]);
    let volume = test.mount(&bucket);
    assert_eq!(volume.flags(find(&volume, "d/kept").unwrap()).unwrap(), IMMUTABLE);
    test.audit();
}

#[test]
fn backups_bring_flags_back() {
    let test = TestStore::on_disk();
    let bucket = test.bucket("bucket");
    let volume = test.mount(&bucket);
    for (name, flags) in [("kept", IMMUTABLE), ("log", APPEND_ONLY), ("nodump", NO_DUMP)] {
        file(&volume, name, flags);
    }
    let (dir, quiet): (_, ProgressSink) = (tempfile::tempdir().unwrap(), Arc::new(|_: Progress| Ok(())));
    let folder = Arc::new(Folder::for_writing(dir.path()).unwrap());
    test.run(backup::create(&test.store, &bucket, &folder, &quiet)).unwrap();
    drop(folder);
    let folder = Arc::new(Folder::for_reading(dir.path()).unwrap());
    let id = backup::newest(&folder, "bucket").unwrap();
    let restored = name("restored");
    test.run(backup::restore(&test.store, &folder, ("bucket", &id), &restored, &quiet)).unwrap();
    let volume = test.mount(&restored);
    for (name, flags) in [("kept", IMMUTABLE), ("log", APPEND_ONLY), ("nodump", NO_DUMP)] {
        assert_eq!(volume.flags(find(&volume, name).unwrap()).unwrap(), flags, "{name}");
    }
    refused("PUT", test.put(&restored, "kept", b"x"));
    test.audit_collected();
}
