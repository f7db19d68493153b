//! Hidden keys: the counts under changes of both handles, the listing, and that no mount removes one.

use super::mounted_versions::kept;
use super::test_store::{TestStore, find, make, make_file, name};
use crate::error::{Error, Posix, Result};
use crate::meta::Durability;
use crate::name::{BucketName, Hidden};
use crate::record::bucket::Usage as Record;
use crate::record::key::{self as record_key, tag};
use crate::store::*;
use crate::volume::{Make, Rename, RenameMode, Volume};

use prost::Message;

/// The numbers of objects and hidden keys that the bucket counts.
fn counts(test: &TestStore, bucket: &BucketName) -> (u64, u64) {
    test.audit();
    let usage = test.store.usage(bucket).unwrap();
    let objects = usage.objects.unwrap();
    assert_eq!(objects, test.keys(bucket).len() as u64, "as a listing counts them");
    (objects, usage.hidden.unwrap())
}

/// All hidden keys, read in pages of `size`.
fn hidden(test: &TestStore, bucket: &BucketName, prefix: &str, size: usize) -> Vec<(String, Hidden)> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = test.store.hidden_keys(bucket, prefix, after.as_deref(), size).unwrap();
        assert!(page.keys.len() <= size);
        all.extend(page.keys.into_iter().map(|hidden| (hidden.key, hidden.why)));
        match page.next {
            Some(next) => after = Some(next),
            None => return all,
        }
    }
}

fn rename(volume: &Volume, (from_parent, from): (u64, &str), (to_parent, to): (u64, &str)) -> Result<()> {
    let mode = RenameMode::Replace;
    volume.rename(Rename { from_parent, from_name: from.into(), to_parent, to_name: to.into(), mode })
}

fn names(volume: &Volume, path: &str) -> Vec<String> {
    let entries = volume.read_dir(find(volume, path).unwrap()).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

#[test]
fn hidden_keys_and_objects_are_counted_exactly_by_both_handles() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("counted");
    let volume = test.mount(&bucket);
    assert_eq!(counts(&test, &bucket), (0, 0));
    let long = format!("{}/x", "n".repeat(256));
    for (at, expected) in [
        ("plain", (1, 0)),
        ("a//b", (2, 1)),
        ("a/./c", (3, 2)),
        ("../d", (4, 3)),
        ("/", (5, 4)),
        (&long, (6, 5)),
        ("both", (7, 5)),
        ("both/below", (8, 6)),
        ("both", (8, 6)),
        ("a//", (9, 7)),
        ("a//", (9, 7)),
        ("a/", (10, 7)),
    ] {
        test.put(&bucket, at, b"1").unwrap();
        assert_eq!(counts(&test, &bucket), expected, "after {at}");
    }
    // A mount makes objects, and moves a folder with what is hidden in it.
    let root = volume.root();
    make_file(&volume, root, "file").unwrap();
    make(&volume, root, "link", Make::Symlink("file".into())).unwrap();
    let dir = make(&volume, root, "dir", Make::Directory).unwrap();
    assert_eq!(counts(&test, &bucket), (12, 7));
    rename(&volume, (root, "a"), (dir, "moved")).unwrap();
    assert_eq!(counts(&test, &bucket), (12, 7));
    assert_eq!(test.get(&bucket, "dir/moved//b").unwrap(), b"1");
    // What a folder hid is shown once the folder is removed, by either front end.
    volume.unlink(find(&volume, "both").unwrap(), "below").unwrap();
    assert_eq!(
        counts(&test, &bucket),
        (12, 7),
        "the folder that a mount emptied is an object, and still hides the file"
    );
    volume.remove_dir(root, "both").unwrap();
    assert_eq!(counts(&test, &bucket), (11, 6));
    test.put(&bucket, "both/again", b"1").unwrap();
    assert_eq!(counts(&test, &bucket), (12, 7));
    rename(&volume, (root, "both"), (root, "elsewhere")).unwrap();
    assert_eq!(counts(&test, &bucket), (12, 6));
    let all = test.keys(&bucket);
    for (done, at) in all.iter().enumerate() {
        test.delete(&bucket, at).unwrap();
        let (objects, hidden) = counts(&test, &bucket);
        assert!(objects as usize == all.len() - done - 1 && hidden <= objects, "{at}");
    }
    assert_eq!(counts(&test, &bucket), (0, 0));
    drop(volume);
    test.audit_collected();
}

#[test]
fn versions_snapshots_clones_and_restarts_keep_the_counts() {
    let test = TestStore::on_disk();
    let (bucket, volume) = kept(&test, "versions");
    for at in ["a//b", "a//b", "k", "k/below"] {
        test.put(&bucket, at, b"1").unwrap();
    }
    assert_eq!(counts(&test, &bucket), (3, 2), "only current versions count");
    test.delete(&bucket, "a//b").unwrap();
    assert_eq!(counts(&test, &bucket), (2, 1), "a delete marker hides the object");
    test.run(test.store.create_snapshot(&bucket, &name("before"))).unwrap();
    let clone = test.clone_of(Source::Snapshot("before".into()), "clone");
    test.delete(&bucket, "k/below").unwrap();
    assert_eq!((counts(&test, &bucket), counts(&test, &clone)), ((1, 0), (2, 1)));
    assert_eq!(hidden(&test, &clone, "", 10), [("k".to_owned(), Hidden::Folder)]);
    drop(volume);
    let test = test.reopen();
    assert_eq!((counts(&test, &bucket), counts(&test, &clone)), ((1, 0), (2, 1)));
    test.audit_collected();
}

/// Rewrites the usage of a bucket or snapshot as an earlier version would have.
fn uncount(test: &TestStore, name: &BucketName) {
    let core = &test.store.core;
    let line = core.readable(&*core.meta.snapshot(), name).unwrap();
    let at = record_key::of_branch(tag::USAGE, line.clone_group, line.branch());
    let written = core.meta.write(Durability::Synced, move |txn| {
        let used = Record::recorded(txn.get(&at)?)?;
        txn.put(at, Record { objects: 0, hidden: 0, counted: false, ..used }.encode_to_vec());
        Ok(())
    });
    written.wait().unwrap();
}

#[test]
fn a_clone_of_a_snapshot_of_an_earlier_version_shows_its_counts_at_once() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("early");
    for at in ["a//b", "k", "k/below", "d/"] {
        test.put(&bucket, at, b"1").unwrap();
    }
    let exact = counts(&test, &bucket);
    let then = test.snapshot(&bucket, "then");
    uncount(&test, &then);
    test.delete(&bucket, "d/").unwrap();
    let clone = test.clone_of(Source::Snapshot("then".into()), "clone");
    assert_eq!((counts(&test, &clone), counts(&test, &then)), (exact, exact));
    test.put(&clone, "more", b"1").unwrap();
    assert_eq!(counts(&test, &clone), (exact.0 + 1, exact.1));
    test.audit_collected();
}

#[test]
fn a_bucket_of_an_earlier_version_is_counted_once_it_is_opened() {
    let test = TestStore::on_disk();
    let bucket = test.bucket("early");
    for at in ["a//b", "k", "k/below", "d/"] {
        test.put(&bucket, at, b"1").unwrap();
    }
    let exact = counts(&test, &bucket);
    uncount(&test, &bucket);
    test.delete(&bucket, "k").unwrap();
    let usage = test.store.usage(&bucket).unwrap();
    assert_eq!((usage.objects, usage.hidden), (None, None), "what is not known is not told");
    let test = test.reopen();
    assert_eq!(counts(&test, &bucket), (exact.0 - 1, exact.1 - 1));
    test.audit_collected();
}

#[test]
fn hidden_keys_are_listed_in_pages_with_their_reasons() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("listed");
    let long = format!("deep/{}", "n".repeat(300));
    let keys = ["/", "a", "a//b", "a/./c", "a/b/../c", "a/shown", &long, "z", "z/", "z/z", "zz"];
    for at in keys {
        test.put(&bucket, at, b"1").unwrap();
    }
    let expected = [
        ("/", Hidden::Empty),
        ("a", Hidden::Folder),
        ("a/./c", Hidden::Dots),
        ("a//b", Hidden::Empty),
        ("a/b/../c", Hidden::Dots),
        (long.as_str(), Hidden::Long),
        ("z", Hidden::Folder),
    ];
    let expected: Vec<_> = expected.into_iter().map(|(key, why)| (key.to_owned(), why)).collect();
    for size in [1, 2, 3, 100] {
        assert_eq!(hidden(&test, &bucket, "", size), expected, "pages of {size}");
    }
    assert_eq!(hidden(&test, &bucket, "a/", 2), expected[2..5]);
    assert_eq!(counts(&test, &bucket), (11, 7));
    test.run(test.store.create_snapshot(&bucket, &name("kept"))).unwrap();
    assert_eq!(hidden(&test, &name("kept"), "", 2), expected, "of a snapshot too");
}

#[test]
fn a_page_of_hidden_keys_ends_after_a_bounded_look() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("many");
    let volume = test.mount(&bucket);
    let dir = make(&volume, volume.root(), "d", Make::Directory).unwrap();
    for number in 0..17_000 {
        make_file(&volume, dir, &format!("{number:05}")).unwrap();
    }
    test.put(&bucket, "e//hidden", b"1").unwrap();
    let first = test.store.hidden_keys(&bucket, "", None, 10).unwrap();
    assert_eq!((first.keys.len(), first.next.is_some()), (0, true));
    assert_eq!(hidden(&test, &bucket, "", 10), [("e//hidden".to_owned(), Hidden::Empty)]);
}

#[test]
fn no_call_of_a_mount_removes_a_hidden_key() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("safe");
    let volume = test.mount(&bucket);
    let root = volume.root();
    test.put(&bucket, "d//old", b"old").unwrap();
    test.put(&bucket, "k", b"old").unwrap();
    test.put(&bucket, "k/new", b"new").unwrap();
    make(&volume, root, "empty", Make::Directory).unwrap();
    // It looks empty, and is not.
    assert_eq!(names(&volume, "d"), Vec::<String>::new());
    assert!(matches!(volume.remove_dir(root, "d"), Err(Error::Posix(Posix::NotEmpty))));
    let replaced = rename(&volume, (root, "empty"), (root, "d"));
    assert!(matches!(replaced, Err(Error::Posix(Posix::NotEmpty))), "{replaced:?}");
    // It moves with all that is in it.
    rename(&volume, (root, "d"), (root, "moved")).unwrap();
    assert_eq!(test.get(&bucket, "moved//old").unwrap(), b"old");
    // The folder goes, and the file of the same name is shown.
    let refused = make(&volume, root, "k", Make::File);
    assert!(matches!(refused, Err(Error::Posix(Posix::Exists))), "{refused:?}");
    volume.unlink(find(&volume, "k").unwrap(), "new").unwrap();
    volume.remove_dir(root, "k").unwrap();
    assert_eq!(names(&volume, ""), ["empty", "k", "moved"]);
    assert_eq!(test.get(&bucket, "k").unwrap(), b"old");
    volume.unlink(root, "k").unwrap();
    make_file(&volume, root, "k").unwrap();
    assert_eq!(test.get(&bucket, "k").unwrap(), b"");
    assert!(test.delete(&bucket, "moved//old").unwrap().existed);
    assert_eq!(counts(&test, &bucket).1, 0);
    volume.remove_dir(root, "moved").unwrap_err();
    test.audit_collected();
}
