//! Objects: conditions, deletions, copies, and the invalidations that mounts receive.

use super::test_store::{TestStore, by_root, find, key, make_file, md5, name, read_file};
use crate::error::{Error, Noun};
use crate::meta::Durability;
use crate::name::BucketName;
use crate::store::*;
use crate::volume::{Change, Rename, RenameMode};

fn tags(tag: &str) -> EntityTags {
    if tag == "*" { EntityTags::Any } else { tag.to_owned().into() }
}

fn if_match(tag: &str) -> Condition {
    Condition { if_match: Some(tags(tag)), ..Condition::default() }
}

fn if_none_match(tag: &str) -> Condition {
    Condition { if_none_match: Some(tags(tag)), ..Condition::default() }
}

fn refused<T>(result: &crate::Result<T>) -> bool {
    matches!(result, Err(Error::Precondition { .. }))
}

#[test]
fn conditions_hold_or_nothing_changes() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("conditions");
    let absent = test.put_if(&bucket, "k", b"1", if_match("*"));
    assert!(matches!(absent, Err(Error::NotFound { noun: Noun::Key, .. })));
    let first = test.put_if(&bucket, "k", b"1", if_none_match("*")).unwrap();
    assert!(refused(&test.put_if(&bucket, "k", b"2", if_none_match("*"))));
    assert!(refused(&test.put_if(&bucket, "k", b"2", if_none_match(&first.etag))));
    assert!(refused(&test.put_if(&bucket, "k", b"2", if_match(&md5(b"2")))));
    assert_eq!(test.get(&bucket, "k").unwrap(), b"1");
    test.put_if(&bucket, "k", b"2", if_match(&first.etag)).unwrap();
    let delete = |condition| {
        test.run(test.store.delete_object(&bucket, DeleteObject { condition, ..DeleteObject::new(key("k")) }))
    };
    assert!(refused(&delete(if_match(&first.etag))));
    assert!(delete(if_match(&md5(b"2"))).unwrap().existed);
    assert!(!test.delete(&bucket, "k").unwrap().existed);
    test.audit_collected();
}

#[test]
fn a_condition_sees_what_a_mount_wrote() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("conditions");
    let first = test.put(&bucket, "k", &vec![1; 300 << 10]).unwrap();
    let volume = test.mount(&bucket);
    let ino = find(&volume, "k").unwrap();
    let mut tags = vec![first.etag];
    for byte in 0..3 {
        for offset in 0..3 {
            volume.write(ino, offset, &[byte], false).unwrap();
        }
        assert!(refused(&test.put_if(&bucket, "k", b"2", if_match(tags.last().unwrap()))));
        let seen = test.store.head_object(&bucket, &key("k"), None).unwrap().etag;
        assert!(!tags.contains(&seen), "{seen}");
        tags.push(seen);
    }
    let listed = test.store.list_objects(&bucket, &List { limit: 9, ..List::default() }).unwrap();
    assert_eq!(Some(&listed.objects[0].etag), tags.last());
}

#[test]
fn many_are_deleted_at_once_with_an_answer_each() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("many");
    for at in ["a", "b/c", "b/d"] {
        test.put(&bucket, at, b"x").unwrap();
    }
    let keys = ["a", "none", "b/c", "b/c", "b/d"].map(|at| DeleteObject::new(key(at))).to_vec();
    let answers = test.run(test.store.delete_objects(&bucket, keys)).unwrap();
    let existed: Vec<bool> = answers.into_iter().map(|answer| answer.unwrap().existed).collect();
    assert_eq!(existed, [true, false, true, false, true]);
    assert_eq!(test.keys(&bucket), Vec::<String>::new());
    assert_eq!(test.store.usage(&bucket).unwrap().inodes, 0);
    test.audit_collected();
}

fn put_all_kinds(test: &TestStore, bucket: &BucketName) -> Vec<(String, Vec<u8>)> {
    let objects: Vec<(String, Vec<u8>)> = [("e", 0), ("i", 9), ("p", 9 << 10), ("f", 200 << 10)]
        .map(|(at, size)| (at.to_owned(), vec![size as u8 | 1; size]))
        .to_vec();
    for (at, data) in &objects {
        test.put(bucket, at, data).unwrap();
    }
    objects
}

#[test]
fn a_copy_is_the_object_wherever_it_goes() {
    let test = TestStore::in_memory();
    let (here, there) = (test.bucket("here"), test.bucket("there"));
    for (at, data) in put_all_kinds(&test, &here) {
        for (to, as_key) in [(&here, at.clone()), (&here, format!("sub/{at}")), (&there, at.clone())] {
            let copied = test.copy((&here, &at), (to, &as_key)).unwrap();
            assert_eq!((copied.etag, copied.size), (md5(&data), data.len() as u64));
            assert_eq!(test.get(to, &as_key).unwrap(), data);
        }
        test.delete(&here, &at).unwrap();
    }
    test.audit_collected();
    assert_eq!(test.get(&there, "f").unwrap(), vec![1; 200 << 10]);
    let missing = test.copy((&here, "none"), (&there, "x"));
    assert!(matches!(missing, Err(Error::NotFound { noun: Noun::Key, .. })));
    let missing = test.copy((&name("none"), "none"), (&there, "x"));
    assert!(matches!(missing, Err(Error::NotFound { noun: Noun::Bucket, .. })));
}

#[test]
fn a_copy_keeps_or_replaces_metadata_and_tags() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("meta");
    test.put(&bucket, "k", b"x").unwrap();
    let map = |value: &str| std::collections::BTreeMap::from([("a".to_owned(), value.to_owned())]);
    let request = |metadata, tags, to: &str| CopyObject {
        storage_class: None,
        website_redirect: None,
        source_bucket: bucket.clone(),
        source_key: key("k"),
        source_version: None,
        source_condition: Condition::default(),
        bucket: bucket.clone(),
        key: key(to),
        metadata,
        tags,
        checksums: None,
        lock: Lock::default(),
        access: Default::default(),
        condition: Condition::default(),
    };
    let headers = Headers { content_type: Some("text/x".into()), ..Headers::default() };
    let replace = Directive::Replace((headers.clone(), map("m")));
    let made = test.run(test.store.copy_object(request(replace, Directive::Replace(map("t")), "k"))).unwrap().object;
    assert_eq!((made.headers, made.metadata, made.tags), (headers.clone(), map("m"), map("t")));
    let kept = test.run(test.store.copy_object(request(Directive::Copy, Directive::Copy, "l"))).unwrap().object;
    assert_eq!((kept.headers, kept.metadata, kept.tags), (headers, map("m"), map("t")));
}

#[test]
fn writing_to_a_copy_or_its_source_leaves_the_other() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("copies");
    let volume = test.mount(&bucket);
    let ino = make_file(&volume, volume.root(), "mounted").unwrap();
    volume.write(ino, 0, &vec![5; 2 << 20], false).unwrap();
    test.copy((&bucket, "mounted"), (&bucket, "copy")).unwrap();
    volume.write(ino, 100, b"source", false).unwrap();
    let copy = find(&volume, "copy").unwrap();
    volume.write(copy, 200, b"copied", false).unwrap();
    let mut expected = (vec![5; 2 << 20], vec![5; 2 << 20]);
    expected.0[100..106].copy_from_slice(b"source");
    expected.1[200..206].copy_from_slice(b"copied");
    assert!(read_file(&volume, ino) == expected.0 && read_file(&volume, copy) == expected.1);
    test.audit_collected();
}

#[test]
fn a_copy_from_a_clone_brings_no_tag_that_stood_for_other_content() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    test.put(&bucket, "k", b"k").unwrap();
    let cloned = test.clone_of(Source::Bucket(bucket.clone()), "cloned");
    for (bucket, data) in [(&bucket, b"here"), (&cloned, b"away")] {
        let volume = test.mount(bucket);
        volume.write(find(&volume, "k").unwrap(), 0, data, false).unwrap();
    }
    let (before, _) = test.get_with_tag(&bucket, "k").unwrap();
    test.copy((&cloned, "k"), (&bucket, "k")).unwrap();
    let (after, data) = test.get_with_tag(&bucket, "k").unwrap();
    assert!(data == b"away" && after != before, "{after}");
}

#[test]
fn a_put_is_answered_once_mounts_dropped_what_they_had() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("feed");
    test.put(&bucket, "k", b"old").unwrap();
    let volume = test.mount(&bucket);
    let mut feed = volume.feed();
    let heard = std::thread::spawn(move || {
        let mut all = Vec::new();
        while let Some(changes) = feed.next() {
            std::thread::sleep(std::time::Duration::from_millis(20));
            all.extend(changes);
            feed.acknowledge();
        }
        all
    });
    let began = std::time::Instant::now();
    test.put(&bucket, "k", b"new").unwrap();
    assert!(began.elapsed() >= std::time::Duration::from_millis(20), "it did not wait for the mount");
    make_file(&volume, volume.root(), "own").unwrap();
    let other = test.mount(&bucket);
    make_file(&other, other.root(), "others").unwrap();
    volume.close_feed();
    let heard = heard.join().unwrap();
    let entry = |name: &str| Change::Entry { parent: volume.root(), name: name.into() };
    assert!(heard.contains(&entry("k")) && heard.contains(&entry("others")), "{heard:?}");
    assert!(!heard.contains(&entry("own")), "a mount knows of its own changes");
}

#[test]
fn a_reader_keeps_what_it_opened_until_it_ends() {
    let test = TestStore::with_segments(1);
    let bucket = test.bucket("reader");
    for (at, data) in put_all_kinds(&test, &bucket) {
        let (info, reader) = test.store.open_object(&bucket, &key(&at), None).unwrap();
        test.put(&bucket, &at, b"replaced").unwrap();
        test.put(&bucket, "another segment", &vec![1; 9 << 10]).unwrap();
        test.collect();
        assert_eq!(reader.read(0, usize::try_from(info.size).unwrap()).unwrap(), data, "{at}");
    }
    test.audit_collected();
}

#[test]
fn a_key_that_is_given_to_a_file_being_written_is_copied_as_one_of_the_two() {
    let test = TestStore::in_memory();
    let (bucket, meta) = (test.bucket("replaced"), &test.store.core.meta);
    test.put(&bucket, "k", &[1; 20_000]).unwrap();
    let volume = test.mount(&bucket);
    let (root, old) = (volume.root(), vec![1; 20_000]);
    let ino = volume.create(root, "new", by_root(0o644)).unwrap().ino;
    for part in [2, 3] {
        volume.append(ino, &[part; 20_000]).unwrap();
    }
    let new = read_file(&volume, ino);
    let (begun, begins) = std::sync::mpsc::channel();
    let (go, goes) = std::sync::mpsc::channel();
    let busy = meta.write(Durability::Buffered, move |_| {
        begun.send(()).unwrap();
        goes.recv().unwrap();
        Ok(())
    });
    begins.recv().unwrap();
    let until_queued = |count| {
        while meta.stats().queue_depth < count {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        // What is to be copied is held, and the rename comes before it is.
        let copying = scope.spawn(|| test.copy((&bucket, "k"), (&bucket, "copy")).unwrap());
        until_queued(1);
        let (from_name, to_name, mode) = ("new".into(), "k".into(), RenameMode::Replace);
        let rename = Rename { from_parent: root, from_name, to_parent: root, to_name, mode };
        let renaming = scope.spawn(|| volume.rename(rename).unwrap());
        until_queued(2);
        go.send(()).unwrap();
        busy.wait().unwrap();
        renaming.join().unwrap();
        copying.join().unwrap();
    });
    let copied = test.get(&bucket, "copy").unwrap();
    assert!(copied == new || copied == old, "{} bytes", copied.len());
    volume.write(ino, 0, &[9; 30_000], false).unwrap();
    assert!(test.get(&bucket, "copy").unwrap() == copied, "the file goes on by itself");
    assert_eq!(test.get(&bucket, "k").unwrap()[..30_000], [9; 30_000]);
    drop(volume);
    test.audit_collected();
}
