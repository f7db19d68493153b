//! Names that only mounts see, symbolic links and special files: S3 clients never notice them.

use super::mounted_versions::{history, kept, texts};
use super::test_store::{TestStore, find, key, make, make_file};
use crate::error::{Error, Posix};
use crate::name::BucketName;
use crate::store::*;
use crate::volume::{Kind, Make, Rename, RenameMode, Volume};

/// The keys and common prefixes at the top that S3 lists.
fn listed(test: &TestStore, bucket: &BucketName) -> (Vec<String>, Vec<String>) {
    let by_delimiter = List { delimiter: Some("/".into()), limit: usize::MAX, ..List::default() };
    (test.keys(bucket), test.store.list_objects(bucket, &by_delimiter).unwrap().prefixes)
}

fn nothing() -> (Vec<String>, Vec<String>) {
    Default::default()
}

fn names(volume: &Volume, path: &str) -> Vec<String> {
    let entries = volume.read_dir(find(volume, path).unwrap()).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

fn link(volume: &Volume, path: &str) {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    make(volume, find(volume, above).unwrap(), name, Make::Symlink("anywhere".into())).unwrap();
}

#[test]
fn a_folder_key_is_deleted_though_a_link_is_left_in_it() {
    for what in [Make::Symlink("x".into()), Make::Special(Kind::Fifo, 0), Make::Special(Kind::CharDevice, 7)] {
        let test = TestStore::in_memory();
        let bucket = test.bucket("folders");
        let volume = test.mount(&bucket);
        test.put(&bucket, "put/", b"content").unwrap();
        let made = make(&volume, volume.root(), "made", Make::Directory).unwrap();
        for dir in [find(&volume, "put").unwrap(), made] {
            make(&volume, dir, "seen-by-mounts", what.clone()).unwrap();
        }
        for at in ["put/", "made/"] {
            assert!(test.delete(&bucket, at).unwrap().existed, "{at}");
            assert!(!test.delete(&bucket, at).unwrap().existed, "{at} is gone");
            assert!(matches!(test.get(&bucket, at), Err(Error::NotFound { .. })), "{at}");
        }
        assert_eq!(listed(&test, &bucket), nothing());
        test.audit_collected();
        // The mount keeps what it had, and empties and removes it as ever.
        assert_eq!(names(&volume, "put"), ["seen-by-mounts"]);
        let removed = volume.remove_dir(volume.root(), "put");
        assert!(matches!(removed, Err(Error::Posix(Posix::NotEmpty))), "{removed:?}");
        volume.unlink(find(&volume, "put").unwrap(), "seen-by-mounts").unwrap();
        assert_eq!(listed(&test, &bucket).0, ["put/"], "what a mount emptied is as if made by it");
        volume.remove_dir(volume.root(), "put").unwrap();
        assert_eq!((listed(&test, &bucket), names(&volume, "")), (nothing(), vec!["made".to_owned()]));
        // S3 puts into what only a mount sees.
        test.put(&bucket, "made/k", b"1").unwrap();
        assert_eq!(listed(&test, &bucket), (vec!["made/k".to_owned()], vec!["made/".to_owned()]));
        test.audit_collected();
    }
}

#[test]
fn the_last_key_of_a_folder_leaves_no_key_and_no_prefix_where_a_link_is_left() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("implied");
    let volume = test.mount(&bucket);
    test.put(&bucket, "a/b/c/k", b"1").unwrap();
    test.put(&bucket, "a/b/c/l", b"1").unwrap();
    link(&volume, "a/b/c/link");
    for request in [vec!["a/b/c/k"], vec!["a/b/c/l"]] {
        let requests = request.into_iter().map(|at| DeleteObject::new(key(at))).collect();
        test.run(test.store.delete_objects(&bucket, requests))
            .unwrap()
            .into_iter()
            .for_each(|deleted| drop(deleted.unwrap()));
        test.audit();
    }
    assert_eq!(listed(&test, &bucket), nothing());
    let below = List { prefix: "a/b/".into(), delimiter: Some("/".into()), limit: 10, ..List::default() };
    assert_eq!(test.store.list_objects(&bucket, &below).unwrap(), Listing::default());
    assert_eq!(names(&volume, "a/b/c"), ["link"]);
    // A key anywhere below makes it a prefix again, also one that moves there.
    test.put(&bucket, "f", b"1").unwrap();
    let move_to = |from_parent: u64, from: &str, to_parent: u64, to: &str| {
        let mode = RenameMode::Replace;
        volume.rename(Rename { from_parent, from_name: from.into(), to_parent, to_name: to.into(), mode }).unwrap();
        test.audit();
    };
    let (root, deep) = (volume.root(), find(&volume, "a/b/c").unwrap());
    move_to(root, "f", deep, "f");
    assert_eq!(listed(&test, &bucket), (vec!["a/b/c/f".to_owned()], vec!["a/".to_owned()]));
    move_to(deep, "f", root, "f");
    assert_eq!(listed(&test, &bucket), (vec!["f".to_owned()], vec![]));
    // A folder that leads to no key moves as one.
    move_to(find(&volume, "a").unwrap(), "b", root, "moved");
    assert_eq!(listed(&test, &bucket), (vec!["a/".to_owned(), "f".to_owned()], vec!["a/".to_owned()]));
    assert_eq!(names(&volume, "moved/c"), ["link"]);
    volume.unlink(find(&volume, "moved/c").unwrap(), "link").unwrap();
    assert_eq!(listed(&test, &bucket).0, ["a/", "f", "moved/c/"]);
    test.audit_collected();
}

#[test]
fn versions_come_and_go_beside_links() {
    let test = TestStore::in_memory();
    let (bucket, volume) = kept(&test, "versions");
    test.put(&bucket, "d/k", b"1").unwrap();
    link(&volume, "d/link");
    test.delete(&bucket, "d/k").unwrap();
    assert_eq!((listed(&test, &bucket), texts(&history(&test, &bucket, "d/k"))), (nothing(), vec!["-", "1"]));
    // A link in the place of a deleted key hides no version of it from S3.
    link(&volume, "d/k");
    let marker =
        test.all_versions(&bucket).into_iter().find_map(|(_, id)| Some(id.strip_prefix("marker ")?.to_owned()));
    let request = DeleteObject { version: marker, ..DeleteObject::new(key("d/k")) };
    test.run(test.store.delete_object(&bucket, request)).unwrap();
    assert_eq!(test.get(&bucket, "d/k").unwrap(), b"1");
    assert_eq!(listed(&test, &bucket), (vec!["d/k".to_owned()], vec!["d/".to_owned()]));
    assert_eq!(names(&volume, "d"), ["k", "link"]);
    test.audit_collected();
}

#[test]
fn a_bucket_with_nothing_but_links_is_empty_for_s3_alone() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("links");
    let volume = test.mount(&bucket);
    test.put(&bucket, "d/k", b"1").unwrap();
    link(&volume, "top");
    link(&volume, "d/deep");
    let delete = |how: Deletion| test.run(test.store.delete_bucket(&bucket, how));
    assert!(matches!(delete(Deletion::IfNoObjects), Err(Error::NotEmpty { .. })));
    test.delete(&bucket, "d/k").unwrap();
    assert!(
        matches!(delete(Deletion::IfEmpty), Err(Error::NotEmpty { .. })),
        "an administrator gets an error about them"
    );
    delete(Deletion::IfNoObjects).unwrap();
    drop(volume);
    test.audit_collected();
    let bucket = test.bucket("made");
    let volume = test.mount(&bucket);
    let dir = make(&volume, volume.root(), "dir", Make::Directory).unwrap();
    let refused = test.run(test.store.delete_bucket(&bucket, Deletion::IfNoObjects));
    assert!(matches!(refused, Err(Error::NotEmpty { .. })), "a directory that a mount made is a key");
    make_file(&volume, dir, "f").unwrap();
    test.audit_collected();
}
