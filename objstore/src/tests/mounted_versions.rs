//! Mounts in a bucket with versioning, and under object lock.

use super::test_store::{TestStore, by_root, find, key, make, make_file, read_file};
use crate::error::{Error, Posix, Result};
use crate::name::BucketName;
use crate::store::*;
use crate::volume::{Allocate, Make, Rename, RenameMode, SetAttr, Volume, XattrMode};

pub(super) fn kept(test: &TestStore, bucket: &str) -> (BucketName, Volume) {
    let bucket = test.bucket(bucket);
    test.switch_versioning(&bucket, Versioning::Enabled).unwrap();
    let volume = test.mount(&bucket);
    (bucket, volume)
}

/// The versions of a key, newest first: their content, or `None` for a delete marker.
pub(super) fn history(test: &TestStore, bucket: &BucketName, at: &str) -> Vec<Option<Vec<u8>>> {
    let request = ListVersions { list: List { limit: usize::MAX, ..List::default() }, after_version: None };
    let versions = test.store.list_versions(bucket, &request).unwrap().versions;
    let of_key = versions.into_iter().filter(|version| version.object.key == at);
    of_key.map(|version| (!version.marker).then(|| content(test, bucket, &version.object))).collect()
}

pub(super) fn content(test: &TestStore, bucket: &BucketName, object: &ObjectInfo) -> Vec<u8> {
    let (info, reader) = test.store.open_object(bucket, &key(&object.key), object.version.as_deref()).unwrap();
    reader.read(0, usize::try_from(info.size).unwrap()).unwrap().to_vec()
}

pub(super) fn texts(history: &[Option<Vec<u8>>]) -> Vec<&str> {
    history.iter().map(|version| version.as_ref().map_or("-", |data| std::str::from_utf8(data).unwrap())).collect()
}

/// Opens a file, writes at its start and closes it.
pub(super) fn rewrite(volume: &Volume, ino: u64, data: &[u8]) {
    volume.open_writer(ino).unwrap();
    volume.write(ino, 0, data, false).unwrap();
    volume.close_writer(ino).unwrap();
}

pub(super) fn resize(volume: &Volume, ino: u64, size: u64) -> Result<()> {
    volume.set_attr(ino, SetAttr { size: Some(size), ..SetAttr::default() }).map(drop)
}

pub(super) fn moving(volume: &Volume, from: &str, to: &str, mode: RenameMode) -> Result<()> {
    let (from_parent, to_parent) = (volume.root(), volume.root());
    volume.rename(Rename { from_parent, from_name: from.into(), to_parent, to_name: to.into(), mode })
}

pub(super) fn refused<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Posix(Posix::NotPermitted)))
}

#[test]
fn what_was_written_in_place_before_versions_are_kept_is_a_version() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("before");
    let volume = test.mount(&bucket);
    let ino = make_file(&volume, volume.root(), "k").unwrap();
    volume.open_writer(ino).unwrap();
    for data in [vec![b'1'; 10_000], vec![b'2'; 10_000]] {
        volume.write(ino, 0, &data, false).unwrap();
    }
    test.switch_versioning(&bucket, Versioning::Enabled).unwrap();
    volume.write(ino, 0, &[b'3'; 10_000], false).unwrap();
    assert_eq!(history(&test, &bucket, "k"), [Some(vec![b'3'; 10_000]), Some(vec![b'2'; 10_000])]);
    volume.close_writer(ino).unwrap();
    resize(&volume, ino, 20_000).unwrap();
    assert_eq!(history(&test, &bucket, "k").len(), 3);
    volume.forget(ino, 1);
    test.audit_collected();
}

#[test]
fn what_a_mount_changes_between_open_and_close_is_one_version() {
    let test = TestStore::in_memory();
    let (bucket, volume) = kept(&test, "versions");
    let first = test.put(&bucket, "k", b"one").unwrap();
    let ino = find(&volume, "k").unwrap();
    volume.open_writer(ino).unwrap();
    volume.open_writer(ino).unwrap();
    volume.write(ino, 0, b"two", false).unwrap();
    volume.close_writer(ino).unwrap();
    volume.write(ino, 3, b"!", false).unwrap();
    volume.append(ino, b"?").unwrap();
    volume.close_writer(ino).unwrap();
    assert_eq!(texts(&history(&test, &bucket, "k")), ["two!?", "one"]);
    let old = test.store.head_object(&bucket, &key("k"), first.version.as_deref()).unwrap();
    assert_eq!((old.etag, old.modified), (first.etag, first.modified));
    rewrite(&volume, ino, b"six");
    assert_eq!(texts(&history(&test, &bucket, "k")), ["six!?", "two!?", "one"]);
    assert_eq!(find(&volume, "k").unwrap(), ino, "the live file keeps its inode");
    volume.open_writer(ino).unwrap();
    resize(&volume, ino, 0).unwrap();
    volume.write(ino, 0, b"new", false).unwrap();
    volume.close_writer(ino).unwrap();
    assert_eq!(texts(&history(&test, &bucket, "k")), ["new", "six!?", "two!?", "one"]);
    resize(&volume, ino, 1).unwrap();
    assert_eq!(texts(&history(&test, &bucket, "k"))[..2], ["n", "new"], "truncate(2) is a change of its own");
    test.audit_collected();
}

#[test]
fn what_is_made_and_written_is_one_version_and_nothing_makes_none() {
    let test = TestStore::in_memory();
    let (bucket, volume) = kept(&test, "made");
    let made = volume.make(volume.root(), "new", Make::File, by_root(0o644)).unwrap().ino;
    volume.open_writer(made).unwrap();
    volume.write(made, 0, b"text", false).unwrap();
    volume.close_writer(made).unwrap();
    assert_eq!(texts(&history(&test, &bucket, "new")), ["text"]);
    make_file(&volume, volume.root(), "lock").unwrap();
    volume.unlink(volume.root(), "lock").unwrap();
    assert!(history(&test, &bucket, "lock").is_empty());
    let id = test.store.head_object(&bucket, &key("new"), None).unwrap().version.unwrap();
    assert_ne!(id, "null");
    volume.forget(made, 1);
    test.audit_collected();
}

#[test]
fn large_files_written_in_place_leave_their_versions_alone() {
    let test = TestStore::in_memory();
    let (bucket, volume) = kept(&test, "large");
    let size = 300_000;
    test.put(&bucket, "k", &vec![b'a'; size]).unwrap();
    let ino = find(&volume, "k").unwrap();
    for (round, byte) in [b'b', b'c', b'd'].into_iter().enumerate() {
        volume.open_writer(ino).unwrap();
        for at in 0..5 {
            volume.write(ino, at * 50_000, &[byte; 1_000], false).unwrap();
        }
        volume.allocate(ino, Allocate::PunchHole, 10_000, 500).unwrap();
        volume.sync(ino).unwrap();
        volume.write(ino, 5, b"hot", false).unwrap();
        volume.close_writer(ino).unwrap();
        let history = history(&test, &bucket, "k");
        assert_eq!(history.len(), round + 2);
        assert_eq!(history.last().unwrap().as_ref().unwrap(), &vec![b'a'; size]);
    }
    let versions: Vec<u8> = history(&test, &bucket, "k").into_iter().map(|version| version.unwrap()[60]).collect();
    assert_eq!(versions, [b'd', b'c', b'b', b'a']);
    test.audit_collected();
}

#[test]
fn unlinking_leaves_a_version_and_a_delete_marker() {
    let test = TestStore::in_memory();
    let (bucket, volume) = kept(&test, "unlinked");
    test.put(&bucket, "k", b"one").unwrap();
    volume.unlink(volume.root(), "k").unwrap();
    assert_eq!(texts(&history(&test, &bucket, "k")), ["-", "one"]);
    assert!(test.get(&bucket, "k").is_err());
    let ino = make_file(&volume, volume.root(), "k").unwrap();
    rewrite(&volume, ino, b"two");
    assert_eq!(texts(&history(&test, &bucket, "k")), ["two", "-", "one"]);
    test.audit_collected();
}

#[test]
fn renaming_over_a_file_loses_nothing() {
    let test = TestStore::in_memory();
    let (bucket, volume) = kept(&test, "renamed");
    test.put(&bucket, "b", b"old").unwrap();
    test.put(&bucket, "tmp", b"new").unwrap();
    moving(&volume, "tmp", "b", RenameMode::Replace).unwrap();
    assert_eq!(texts(&history(&test, &bucket, "b")), ["new", "old"]);
    assert!(history(&test, &bucket, "tmp").is_empty(), "there is nothing to hide");
    test.put(&bucket, "a", b"1").unwrap();
    test.put(&bucket, "a", b"2").unwrap();
    moving(&volume, "a", "b", RenameMode::Replace).unwrap();
    assert_eq!(texts(&history(&test, &bucket, "b")), ["2", "new", "old"]);
    assert_eq!(texts(&history(&test, &bucket, "a")), ["-", "1"]);
    test.put(&bucket, "c", b"c").unwrap();
    moving(&volume, "b", "c", RenameMode::Exchange).unwrap();
    assert_eq!(texts(&history(&test, &bucket, "c")), ["2"]);
    assert_eq!(texts(&history(&test, &bucket, "b")), ["c", "new", "old"]);
    let ino = find(&volume, "c").unwrap();
    rewrite(&volume, ino, b"3");
    assert_eq!(texts(&history(&test, &bucket, "c")), ["3", "2"], "the file knows its new name");
    make(&volume, volume.root(), "link", Make::Symlink("x".into())).unwrap();
    moving(&volume, "link", "c", RenameMode::Replace).unwrap();
    assert_eq!(texts(&history(&test, &bucket, "c")), ["-", "3", "2"]);
    test.audit_collected();
}

#[test]
fn a_directory_takes_current_versions_along() {
    let test = TestStore::in_memory();
    let (bucket, volume) = kept(&test, "directories");
    test.put(&bucket, "d/k", b"1").unwrap();
    test.put(&bucket, "d/k", b"2").unwrap();
    moving(&volume, "d", "e", RenameMode::Replace).unwrap();
    assert_eq!(texts(&history(&test, &bucket, "e/k")), ["2"]);
    assert_eq!(texts(&history(&test, &bucket, "d/k")), ["1"]);
    let ino = find(&volume, "e/k").unwrap();
    rewrite(&volume, ino, b"3");
    assert_eq!(texts(&history(&test, &bucket, "e/k")), ["3", "2"]);
    test.audit_collected();
}

#[test]
fn a_writer_never_changes_a_version_that_was_replaced_under_it() {
    for size in [3, 100_000] {
        let test = TestStore::in_memory();
        let (bucket, volume) = kept(&test, "replaced");
        let data = |byte: u8| vec![byte; size];
        for end in 0..5 {
            let at = if end == 4 { "d/k".to_owned() } else { format!("k{end}") };
            test.put(&bucket, &at, &data(b'1')).unwrap();
            let ino = find(&volume, &at).unwrap();
            volume.pin(ino).unwrap();
            volume.open_writer(ino).unwrap();
            volume.write(ino, 0, &data(b'2'), false).unwrap();
            volume.write(ino, 0, &data(b'3'), false).unwrap();
            match end {
                0 => drop(test.put(&bucket, &at, b"put").unwrap()),
                1 => drop(test.delete(&bucket, &at).unwrap()),
                2 => volume.unlink(volume.root(), &at).unwrap(),
                4 => {
                    test.delete(&bucket, &at).unwrap();
                    assert!(find(&volume, "d").is_err(), "its directory goes with it");
                }
                _ => {
                    make_file(&volume, volume.root(), "other").unwrap();
                    moving(&volume, "other", &at, RenameMode::Replace).unwrap();
                }
            }
            let before = history(&test, &bucket, &at);
            assert_eq!(before[1..], [Some(data(b'3')), Some(data(b'1'))], "{end}");
            volume.write(ino, 0, &data(b'4'), false).unwrap();
            volume.append(ino, b"5").unwrap();
            resize(&volume, ino, 2).unwrap();
            assert_eq!(read_file(&volume, ino), b"44");
            volume.close_writer(ino).unwrap();
            assert_eq!(history(&test, &bucket, &at), before, "{end}");
            volume.forget(ino, 1);
        }
        test.audit_collected();
    }
}

#[test]
fn a_suspended_bucket_keeps_what_has_an_id_and_replaces_null() {
    let test = TestStore::in_memory();
    let (bucket, volume) = kept(&test, "suspended");
    test.put(&bucket, "k", b"1").unwrap();
    test.switch_versioning(&bucket, Versioning::Suspended).unwrap();
    let ino = find(&volume, "k").unwrap();
    rewrite(&volume, ino, b"2");
    rewrite(&volume, ino, b"3");
    assert_eq!(texts(&history(&test, &bucket, "k")), ["3", "1"]);
    volume.unlink(volume.root(), "k").unwrap();
    assert_eq!(texts(&history(&test, &bucket, "k")), ["-", "1"]);
    let ino = make_file(&volume, volume.root(), "k").unwrap();
    rewrite(&volume, ino, b"4");
    assert_eq!(texts(&history(&test, &bucket, "k")), ["4", "1"], "the marker was the version null");
    test.audit_collected();
}

#[test]
fn files_from_before_versions_are_kept_as_null_and_links_are_refused_from_then_on() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("before");
    let volume = test.mount(&bucket);
    let ino = make_file(&volume, volume.root(), "f").unwrap();
    volume.write(ino, 0, b"1", false).unwrap();
    volume.link(ino, volume.root(), "g").unwrap();
    volume.forget(ino, 1);
    test.switch_versioning(&bucket, Versioning::Enabled).unwrap();
    rewrite(&volume, ino, b"2");
    assert_eq!(texts(&history(&test, &bucket, "f")), ["2", "1"]);
    assert_eq!(test.get(&bucket, "g").unwrap(), b"2");
    test.put(&bucket, "f", b"3").unwrap();
    assert_eq!(find(&volume, "g").unwrap(), ino);
    rewrite(&volume, ino, b"4");
    assert_eq!(texts(&history(&test, &bucket, "f")), ["3", "2", "1"], "the other name parts from the version");
    assert_eq!(texts(&history(&test, &bucket, "g")), ["4", "2"]);
    assert!(refused(&volume.link(ino, volume.root(), "h").map(drop)));
    test.audit_collected();
}

#[test]
fn a_protected_file_is_not_changed_moved_or_unlinked() {
    let test = TestStore::in_memory();
    let bucket = test.locking("protected", None);
    let volume = test.mount(&bucket);
    for at in ["k", "other", "d/in"] {
        test.put(&bucket, at, &[b'1'; 20_000]).unwrap();
    }
    let ino = find(&volume, "k").unwrap();
    volume.open_writer(ino).unwrap();
    volume.write(ino, 0, b"2", false).unwrap();
    volume.write(ino, 0, b"3", false).unwrap();
    test.run(test.store.set_legal_hold(&bucket, &key("k"), None, true)).unwrap();
    assert!(refused(&volume.write(ino, 0, b"4", false)), "also in place, also through a handle from before");
    assert!(
        refused(&volume.append(ino, b"4"))
            && refused(&resize(&volume, ino, 0))
            && refused(&resize(&volume, ino, 30_000))
    );
    assert!(refused(&volume.allocate(ino, Allocate::PunchHole, 0, 10)));
    volume.close_writer(ino).unwrap();
    assert!(refused(&volume.open_writer(ino)));
    assert!(refused(&volume.unlink(volume.root(), "k")));
    for (from, to) in [("k", "moved"), ("other", "k"), ("k", "other")] {
        assert!(refused(&moving(&volume, from, to, RenameMode::Replace)), "{from} to {to}");
    }
    assert!(refused(&moving(&volume, "other", "k", RenameMode::Exchange)));
    assert!(refused(&volume.link(ino, volume.root(), "name").map(drop)));
    volume.set_attr(ino, SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
    volume.set_xattr(ino, "user.a", b"b", XattrMode::Any).unwrap();
    assert_eq!(read_file(&volume, ino)[..2], *b"31");
    test.run(test.store.set_legal_hold(&bucket, &key("k"), None, false)).unwrap();
    rewrite(&volume, ino, b"5");
    assert_eq!(test.get(&bucket, "k").unwrap()[0], b'5');

    let crosses = moving(&volume, "d", "e", RenameMode::Replace);
    assert!(matches!(crosses, Err(Error::Posix(Posix::CrossDevice))));
    make(&volume, volume.root(), "empty", Make::Directory).unwrap();
    moving(&volume, "empty", "moved", RenameMode::Replace).unwrap();
    test.audit_collected();
}

#[test]
fn versions_count_against_the_quota() {
    let test = TestStore::in_memory();
    let (bucket, volume) = kept(&test, "full");
    test.put(&bucket, "k", &[1; 60_000]).unwrap();
    let quota = SetBucket { quota_bytes: Some(Some(100_000)), ..SetBucket::default() };
    test.run(test.store.set_bucket(&bucket, quota)).unwrap();
    let ino = find(&volume, "k").unwrap();
    volume.open_writer(ino).unwrap();
    assert!(matches!(volume.write(ino, 0, b"2", false), Err(Error::QuotaExceeded { .. })));
    volume.close_writer(ino).unwrap();
    assert_eq!(test.get(&bucket, "k").unwrap(), [1; 60_000]);
    test.audit_collected();
}
