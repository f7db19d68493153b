//! Reserved space (fallocate(2)): it is allocated on the disk and in the quota, or the call is refused and changes
//! nothing.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::test_store::{TestStore, bucket_request, find, make_file, name, read_file};
use crate::disk::is_full;
use crate::error::Error;
use crate::name::BucketName;
use crate::store::{CreateBucket, Versioning};
use crate::volume::{Allocate, SetAttr, Volume};

const KIB: usize = 1 << 10;
const MIB: u64 = 1 << 20;

/// Where the content of a file may be before space is reserved for it.
const KINDS: [&str; 6] = ["new", "record", "packed", "file", "home", "extents"];

fn quota(test: &TestStore, bytes: u64, versioning: Versioning) -> BucketName {
    let request = CreateBucket { quota_bytes: Some(bytes), versioning, ..bucket_request("bucket") };
    test.run(test.store.create_bucket(request)).unwrap();
    name("bucket")
}

/// A file of such a kind, and its content.
fn file(test: &TestStore, bucket: &BucketName, volume: &Volume, kind: &str) -> (u64, Vec<u8>) {
    let size = match kind {
        "new" => 0,
        "record" => 100,
        "packed" => 20 * KIB,
        "extents" => 2 * MIB as usize,
        _ => 300 * KIB,
    };
    let mut content = vec![7; size];
    if matches!(kind, "packed" | "file" | "extents") {
        test.put(bucket, kind, &content).unwrap();
    } else {
        let ino = make_file(volume, volume.root(), kind).unwrap();
        volume.write(ino, 0, &content, false).unwrap();
    }
    let ino = find(volume, kind).unwrap();
    if kind == "extents" {
        // Two keys share the blob, so a write needs new space.
        test.copy((bucket, kind), (bucket, "other")).unwrap();
        volume.write(ino, 5, b"x", false).unwrap();
        content[5] = b'x';
    }
    (ino, content)
}

/// The space that the content of a store takes on the disk.
fn taken(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries.map(|entry| if entry.file_type().unwrap().is_dir() { taken(&entry.path()) } else { blocks(&entry) }).sum()
}

fn blocks(entry: &std::fs::DirEntry) -> u64 {
    entry.metadata().unwrap().blocks() * 512
}

fn used(volume: &Volume) -> u64 {
    volume.space().unwrap().used_bytes
}

fn truncate(volume: &Volume, ino: u64, size: u64) {
    volume.set_attr(ino, SetAttr { size: Some(size), ..SetAttr::default() }).unwrap();
}

#[test]
fn what_is_reserved_has_space_whatever_the_content_lay_in() {
    for kind in KINDS {
        for how in [Allocate::Extend, Allocate::KeepSize, Allocate::ZeroRange, Allocate::ZeroRangeKeepSize] {
            let test = TestStore::in_memory();
            let bucket = test.bucket("bucket");
            let volume = test.mount(&bucket);
            let (ino, mut content) = file(&test, &bucket, &volume, kind);
            let (content_dir, from) = (test.dir.path().join("content"), content.len() as u64 / 2);
            volume.sync_volume().unwrap();
            let before = taken(&content_dir);
            volume.allocate(ino, how, from, 8 * MIB).unwrap();
            let grown = taken(&content_dir).saturating_sub(before);
            assert!(grown >= 8 * MIB - content.len() as u64, "{kind}, {how:?}: {grown}");
            if matches!(how, Allocate::ZeroRange | Allocate::ZeroRangeKeepSize) {
                content[from as usize..].fill(0);
            }
            if matches!(how, Allocate::Extend | Allocate::ZeroRange) {
                content.resize((from + 8 * MIB) as usize, 0);
            }
            assert!(read_file(&volume, ino) == content, "{kind}, {how:?}");
            volume.sync_volume().unwrap();
            let reserved = taken(&content_dir);
            volume.write(ino, from, &vec![9; 8 * MIB as usize], false).unwrap();
            volume.sync_volume().unwrap();
            assert!(taken(&content_dir) <= reserved + 64 * KIB as u64, "{kind}, {how:?}: a write takes no more");
            test.audit_collected();
        }
    }
}

#[test]
fn more_than_the_disk_has_is_refused_and_nothing_changes() {
    for kind in KINDS {
        for how in [Allocate::Extend, Allocate::KeepSize, Allocate::ZeroRange, Allocate::ZeroRangeKeepSize] {
            let test = TestStore::in_memory();
            let bucket = test.bucket("bucket");
            let volume = test.mount(&bucket);
            let (ino, content) = file(&test, &bucket, &volume, kind);
            let (size, bytes) = (volume.attr(ino).unwrap().size, used(&volume));
            let refused = volume.allocate(ino, how, 0, 1 << 42).expect_err("no disk has so much");
            assert!(is_full(&refused), "{kind}, {how:?}: {refused:?}");
            test.faults.fail_writes.store(true, Ordering::Relaxed);
            let refused = volume.allocate(ino, how, 0, 4 * MIB).expect_err("the disk is full");
            assert!(is_full(&refused), "{kind}, {how:?}: {refused:?}");
            test.faults.fail_writes.store(false, Ordering::Relaxed);
            assert_eq!((volume.attr(ino).unwrap().size, used(&volume)), (size, bytes), "{kind}, {how:?}");
            assert!(read_file(&volume, ino) == content, "{kind}, {how:?}");
            test.audit_collected();
        }
    }
}

#[test]
fn what_is_reserved_counts_against_the_quota_at_once() {
    for kind in KINDS {
        let test = TestStore::in_memory();
        let bucket = quota(&test, 12 * MIB, Versioning::Disabled);
        let volume = test.mount(&bucket);
        let (ino, content) = file(&test, &bucket, &volume, kind);
        let bytes = used(&volume);
        for how in [Allocate::Extend, Allocate::KeepSize] {
            let refused = volume.allocate(ino, how, 0, 20 * MIB).expect_err("the quota has less");
            assert!(matches!(refused, Error::QuotaExceeded { .. }), "{kind}, {how:?}: {refused:?}");
            assert_eq!((used(&volume), volume.attr(ino).unwrap().size), (bytes, content.len() as u64), "{kind}");
        }
        volume.allocate(ino, Allocate::KeepSize, 0, 7 * MIB).unwrap();
        assert_eq!(used(&volume), bytes - content.len() as u64 + 7 * MIB, "{kind}");
        let other = make_file(&volume, volume.root(), "beside").unwrap();
        let refused = volume
            .write(other, 0, &vec![1; 4 * MIB as usize], false)
            .and_then(|()| volume.write(other, 4 * MIB, &vec![1; 2 * MIB as usize], false));
        assert!(matches!(refused, Err(Error::QuotaExceeded { .. })), "{kind}: {refused:?}");
        truncate(&volume, other, 0);
        volume.write(other, 0, &vec![1; 2 * MIB as usize], false).unwrap();
        for at in 0..7 {
            volume.write(ino, at * MIB, &vec![3; MIB as usize], false).unwrap();
        }
        assert_eq!((volume.attr(ino).unwrap().size, used(&volume)), (7 * MIB, bytes - content.len() as u64 + 9 * MIB));
        drop(volume);
        test.audit_collected();
    }
}

#[test]
fn a_cut_gives_back_what_was_reserved() {
    let test = TestStore::in_memory();
    let bucket = quota(&test, 10 * MIB, Versioning::Disabled);
    let volume = test.mount(&bucket);
    for (kind, to) in [("record", 100), ("home", 10), ("new", 0)] {
        let (ino, _) = file(&test, &bucket, &volume, kind);
        let bytes = used(&volume);
        volume.allocate(ino, Allocate::KeepSize, 0, 5 * MIB).unwrap();
        let size = volume.attr(ino).unwrap().size;
        assert_eq!(used(&volume), bytes - size + 5 * MIB, "{kind}");
        truncate(&volume, ino, to);
        assert_eq!(used(&volume), bytes - size + to, "{kind}");
    }
    test.audit_collected();
}

#[test]
fn a_reservation_outlives_the_process_and_ends_with_the_file() {
    let test = TestStore::on_disk();
    let bucket = quota(&test, 10 * MIB, Versioning::Disabled);
    let volume = test.mount(&bucket);
    let (ino, content) = file(&test, &bucket, &volume, "home");
    volume.allocate(ino, Allocate::KeepSize, 0, 6 * MIB).unwrap();
    volume.sync(ino).unwrap();
    drop(volume);
    let test = test.killed(&[]);
    let volume = test.mount(&bucket);
    assert_eq!((used(&volume), volume.attr(ino).unwrap().size), (6 * MIB, content.len() as u64));
    test.audit();
    volume.unlink(volume.root(), "home").unwrap();
    test.collect();
    assert_eq!(used(&volume), 0);
    test.audit_collected();
}

#[test]
fn a_snapshot_leaves_the_quota_reserved_and_the_next_call_reserves_the_disk() {
    let test = TestStore::in_memory();
    let bucket = quota(&test, 30 * MIB, Versioning::Disabled);
    let volume = test.mount(&bucket);
    let (ino, content) = file(&test, &bucket, &volume, "home");
    volume.allocate(ino, Allocate::KeepSize, 0, 6 * MIB).unwrap();
    test.snapshot(&bucket, "snapshot");
    assert_eq!(used(&volume), 6 * MIB);
    let content_dir = test.dir.path().join("content");
    let before = taken(&content_dir);
    volume.allocate(ino, Allocate::KeepSize, 0, 6 * MIB).unwrap();
    assert!(taken(&content_dir) >= before + 5 * MIB, "it has a blob of its own again");
    assert_eq!(used(&volume), 6 * MIB);
    assert!(read_file(&volume, ino) == content);
    test.audit_collected();
}

#[test]
fn a_version_that_is_no_longer_current_reserves_nothing() {
    let test = TestStore::in_memory();
    let bucket = quota(&test, 30 * MIB, Versioning::Enabled);
    let volume = test.mount(&bucket);
    let (ino, content) = file(&test, &bucket, &volume, "home");
    volume.open_writer(ino).unwrap();
    volume.allocate(ino, Allocate::KeepSize, 0, 6 * MIB).unwrap();
    volume.close_writer(ino).unwrap();
    test.put(&bucket, "home", b"other").unwrap();
    test.collect();
    drop(volume);
    let kept = content.len() as u64;
    let volume = test.mount(&bucket);
    // The version that fallocate(2) began, and perhaps the one before it.
    assert!([5 + kept, 5 + 2 * kept].contains(&used(&volume)), "{}", used(&volume));
    test.audit_collected();
}
