//! Names whose keys would exceed S3's limit: no call of a mount creates one.

use prost::Message;

use super::repair::{closed, inode, repair, write};
use super::test_store::{TestStore, find, make, make_file};
use crate::check::{Options, run};
use crate::error::{Error, Posix, Result};
use crate::name::{BucketName, KEY_BYTES_MAX};
use crate::volume::{Kind, Make, Rename, RenameMode, Volume};

fn is_too_long<T: std::fmt::Debug>(result: Result<T>) -> bool {
    match result {
        Err(Error::Posix(Posix::NameTooLong)) => true,
        other => panic!("{other:?}"),
    }
}

/// A folder whose path, including its `/`, has `bytes` bytes.
fn folder(volume: &Volume, bytes: usize) -> u64 {
    let (mut at, mut left) = (volume.root(), bytes);
    while left > 0 {
        let part = if left > 202 { 200 } else { left - 1 };
        at = make(volume, at, &"d".repeat(part), Make::Directory).unwrap();
        left -= part + 1;
    }
    at
}

fn rename(
    volume: &Volume,
    (from_parent, from): (u64, &str),
    (to_parent, to): (u64, &str),
    mode: RenameMode,
) -> Result<()> {
    volume.rename(Rename { from_parent, from_name: from.into(), to_parent, to_name: to.into(), mode })
}

/// Asserts that S3 can name everything it lists.
fn all_are_reachable(test: &TestStore, bucket: &BucketName) {
    for key in test.keys(bucket) {
        assert!(key.len() <= KEY_BYTES_MAX, "{} bytes", key.len());
        test.get(bucket, &key).unwrap();
    }
    test.audit();
}

#[test]
fn a_mount_makes_no_key_that_s3_cannot_name() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("long");
    let volume = test.mount(&bucket);
    let deep = folder(&volume, 1000);
    let file = make_file(&volume, volume.root(), "file").unwrap();
    let (fits, long) = ("f".repeat(24), "f".repeat(25));
    for what in [Make::File, Make::Symlink("x".into()), Make::Special(Kind::Fifo, 0)] {
        assert!(is_too_long(make(&volume, deep, &long, what.clone())));
        make(&volume, deep, &fits, what).unwrap();
        volume.unlink(deep, &fits).unwrap();
    }
    assert!(is_too_long(make(&volume, deep, &fits, Make::Directory)), "its key ends in a slash");
    make(&volume, deep, &fits[1..], Make::Directory).unwrap();
    assert!(is_too_long(volume.link(file, deep, &long)));
    volume.link(file, deep, &fits).unwrap();
    assert!(is_too_long(rename(&volume, (volume.root(), "file"), (deep, &long), RenameMode::Replace)));
    assert!(is_too_long(rename(&volume, (deep, &fits), (deep, &long), RenameMode::NoReplace)));
    rename(&volume, (volume.root(), "file"), (deep, &format!("{}g", &fits[1..])), RenameMode::Replace).unwrap();
    all_are_reachable(&test, &bucket);
    let path = volume.path(deep).unwrap();
    test.put(&bucket, &format!("{}/{}", path.unwrap(), "p".repeat(24)), b"1").unwrap();
    drop(volume);
    test.audit_collected();
}

#[test]
fn a_folder_does_not_move_where_a_key_below_would_be_too_long() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("moved");
    let volume = test.mount(&bucket);
    let root = volume.root();
    let top = make(&volume, root, "top", Make::Directory).unwrap();
    let below = make(&volume, top, &"b".repeat(200), Make::Directory).unwrap();
    make_file(&volume, below, &"f".repeat(201)).unwrap();
    // Paths below reach 402 bytes.
    let deep = folder(&volume, 600);
    let (fits, long) = ("t".repeat(21), "t".repeat(22));
    assert!(is_too_long(rename(&volume, (root, "top"), (deep, &long), RenameMode::Replace)));
    rename(&volume, (root, "top"), (deep, &fits), RenameMode::Replace).unwrap();
    all_are_reachable(&test, &bucket);
    // Above what moved the bound is known too, also after it moved again.
    let first = "d".repeat(200);
    assert!(is_too_long(rename(&volume, (root, &first), (root, &"e".repeat(201)), RenameMode::Replace)));
    rename(&volume, (root, &first), (root, &"e".repeat(200)), RenameMode::Replace).unwrap();
    rename(&volume, (root, &"e".repeat(200)), (root, &"e".repeat(10)), RenameMode::Replace).unwrap();
    rename(&volume, (root, &"e".repeat(10)), (root, &"e".repeat(200)), RenameMode::Replace).unwrap();
    assert!(is_too_long(rename(&volume, (root, &"e".repeat(200)), (root, &"e".repeat(201)), RenameMode::Replace)));
    all_are_reachable(&test, &bucket);
    // Exchanged, both are looked at.
    make_file(&volume, root, &"x".repeat(201)).unwrap();
    let swapped = rename(&volume, (root, &"x".repeat(201)), (root, &"e".repeat(200)), RenameMode::Exchange);
    assert!(is_too_long(swapped));
    drop(volume);
    test.audit_collected();
}

#[test]
fn what_was_deleted_hinders_no_rename() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("deleted");
    let volume = test.mount(&bucket);
    let root = volume.root();
    let top = make(&volume, root, "top", Make::Directory).unwrap();
    make_file(&volume, top, "kept").unwrap();
    let key = format!("top/{}/{}", "a/".repeat(400), "z".repeat(200));
    test.put(&bucket, &key, b"1").unwrap();
    assert!(is_too_long(rename(&volume, (root, "top"), (root, &"t".repeat(100)), RenameMode::Replace)));
    test.delete(&bucket, &key).unwrap();
    rename(&volume, (root, "top"), (root, &"t".repeat(100)), RenameMode::Replace).unwrap();
    assert!(find(&volume, &format!("{}/kept", "t".repeat(100))).is_ok());
    all_are_reachable(&test, &bucket);
}

#[test]
fn a_folder_of_many_names_moves_without_a_look_at_them() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("many");
    let volume = test.mount(&bucket);
    let root = volume.root();
    let dir = make(&volume, root, "d", Make::Directory).unwrap();
    for number in 0..20_000 {
        make_file(&volume, dir, &format!("{number:05}")).unwrap();
    }
    rename(&volume, (root, "d"), (root, &"d".repeat(255)), RenameMode::Replace).unwrap();
    // A long name that is gone leaves the bound high: where a bounded look cannot tell, programs copy.
    let deep = folder(&volume, 700);
    make_file(&volume, dir, &"l".repeat(255)).unwrap();
    volume.unlink(dir, &"l".repeat(255)).unwrap();
    let moved = rename(&volume, (root, &"d".repeat(255)), (deep, &"d".repeat(255)), RenameMode::Replace);
    assert!(matches!(moved, Err(Error::Posix(Posix::CrossDevice))), "{moved:?}");
    test.audit();
}

#[test]
fn a_bound_that_is_too_low_is_found_and_raised() {
    let test = TestStore::on_disk();
    let bucket = test.bucket("jar");
    test.put(&bucket, "d/below/a-long-name", b"1").unwrap();
    test.put(&bucket, "e/short", b"1").unwrap();
    let dir = closed(test);
    assert_eq!(run(dir.path(), &Options::default()).unwrap().problems, Vec::<String>::new());
    let known = write(dir.path(), |txn| {
        let (at, mut inode, _) = inode(txn, "d/");
        let known = std::mem::replace(&mut inode.reach, 5);
        txn.put(at, inode.encode_to_vec());
        known
    });
    let found = run(dir.path(), &Options::default()).unwrap().problems;
    assert!(matches!(&found[..], [one] if one.contains("has 17 bytes, but its record says 5")), "{found:?}");
    assert_eq!(repair(dir.path()).repaired.len(), 1);
    assert_eq!(run(dir.path(), &Options::default()).unwrap().problems, Vec::<String>::new());
    assert_eq!(write(dir.path(), |txn| inode(txn, "d/").1.reach), known);
}
