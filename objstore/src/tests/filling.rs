//! Buckets that are filled with the objects below a prefix of another one.

use std::sync::atomic::{AtomicBool, Ordering};

use super::test_store::{TestStore, bucket_request, find, key, make_file, name};
use crate::error::{Error, Noun, Result};
use crate::name::BucketName;
use crate::store::*;
use crate::volume::{Rename, RenameMode};

/// More than two pages.
const MANY: usize = 600;

/// A bucket that is to be filled with what lies below `models/` in a bucket or snapshot.
fn begin(test: &TestStore, source: &BucketName, request: CreateBucket) -> Fill {
    let source_id = test.store.bucket(source).unwrap().id;
    let attributes = [("filling".to_owned(), Fill::mark(source_id))].into();
    let (made, _) = test.run(test.store.create_bucket(CreateBucket { attributes, ..request })).unwrap();
    let (prefix, attribute) = ("models/".to_owned(), "filling".to_owned());
    Fill { bucket: made.name, id: made.id, source: source.clone(), source_id, prefix, attribute }
}

/// Copies what is missing. Returns the number of pages.
fn fill(test: &TestStore, fill: &Fill) -> Result<usize> {
    let mut pages = 1;
    while test.run(test.store.fill_page(fill.clone()))? {
        pages += 1;
    }
    Ok(pages)
}

fn is_marked(test: &TestStore, fill: &Fill) -> bool {
    test.store.bucket(&fill.bucket).unwrap().attributes.contains_key("filling")
}

fn many(test: &TestStore, bucket: &BucketName) {
    for number in 0..MANY {
        test.put(bucket, &format!("models/{number:03}"), format!("content {number:03}").as_bytes()).unwrap();
    }
}

fn is_missing(result: &Result<usize>) -> bool {
    matches!(result, Err(Error::NotFound { noun: Noun::Bucket, .. }))
}

#[test]
fn copies_have_the_rest_of_the_key_and_the_attributes_of_their_objects() {
    let test = TestStore::in_memory();
    let source = name("source");
    let request = CreateBucket { versioning: Versioning::Enabled, ..bucket_request("source") };
    let settings = Settings { object_lock: Some(ObjectLock::default()), ..Settings::default() };
    test.run(test.store.create_bucket_with(request, settings)).unwrap();
    // Keys that no mount shows, the folder itself, a folder in it, and what lies beside it.
    let below = ["models//a", "models/../b", "models/", "models/empty/", "models/deep/er/c", "models/large"];
    for at in below {
        test.put(&source, at, b"old").unwrap();
        test.put(&source, at, if at.ends_with("large") { &[7; 3 << 20] } else { b"current" }).unwrap();
    }
    for at in ["models", "modelsx", "model/a", "other"] {
        test.put(&source, at, b"beside").unwrap();
    }
    test.put(&source, "models/gone", b"deleted").unwrap();
    test.delete(&source, "models/gone").unwrap();
    test.run(test.store.set_tags(&source, &key("models/large"), None, [("t".into(), "1".into())].into())).unwrap();
    test.run(test.store.set_legal_hold(&source, &key("models/large"), None, true)).unwrap();
    let volume = test.mount(&source);
    let folder = find(&volume, "models").unwrap();
    let file = make_file(&volume, folder, "dirty").unwrap();
    volume.write(file, 0, b"not yet synced", false).unwrap();

    let filled = begin(&test, &source, bucket_request("filled"));
    assert_eq!(fill(&test, &filled).unwrap(), 1);
    let mut expected: Vec<_> = ["/a", "../b", "empty/", "deep/er/c", "large", "dirty"].map(str::to_owned).into();
    expected.sort();
    assert_eq!(test.keys(&filled.bucket), expected);
    assert_eq!(test.get(&filled.bucket, "../b").unwrap(), b"current");
    assert_eq!(test.get(&filled.bucket, "dirty").unwrap(), b"not yet synced");
    let [copy, object] = [(&filled.bucket, "large"), (&source, "models/large")]
        .map(|(bucket, at)| test.store.head_object(bucket, &key(at), None).unwrap());
    assert_eq!((copy.etag, copy.size, copy.tags), (object.etag, object.size, object.tags));
    assert!(object.lock != Lock::default() && copy.lock == Lock::default(), "a lock stays behind");
    // Both sides change alone.
    volume.write(file, 0, b"NOT", false).unwrap();
    test.put(&filled.bucket, "large", b"changed").unwrap();
    assert_eq!(test.get(&filled.bucket, "dirty").unwrap(), b"not yet synced");
    assert_eq!(test.get(&source, "models/large").unwrap(), [7; 3 << 20]);
    assert!(!is_marked(&test, &filled));
    drop(volume);
    test.audit_collected();
}

#[test]
fn a_killed_copy_continues_behind_its_last_page_and_counts_nothing_twice() {
    let mut test = TestStore::on_disk();
    let source = test.bucket("source");
    many(&test, &source);
    let filled = begin(&test, &source, bucket_request("filled"));
    let mut pages = 0;
    loop {
        assert_eq!(test.keys(&filled.bucket).len(), (256 * pages).min(MANY), "whole pages");
        let follows = test.run(test.store.fill_page(filled.clone())).unwrap();
        pages += 1;
        test = test.killed(&[]);
        assert_eq!(is_marked(&test, &filled), follows, "the mark goes with the last page");
        if !follows {
            break;
        }
        // What is put behind the last key meanwhile is copied, and what is put before it is not.
        test.put(&source, &format!("models/000-{pages}"), b"before").unwrap();
        test.put(&source, &format!("models/{}", 999 - pages), b"content behind").unwrap();
    }
    assert_eq!((pages, test.keys(&filled.bucket).len()), (3, MANY + 2));
    assert_eq!(test.get(&filled.bucket, "599").unwrap(), b"content 599");
    let used = test.store.usage(&filled.bucket).unwrap();
    assert_eq!((used.bytes, used.objects), (11 * MANY as u64 + 28, Some(MANY as u64 + 2)));
    assert_eq!(fill(&test, &filled).unwrap(), 1, "a whole bucket stays as it is");
    test.audit_collected();
}

#[test]
fn no_other_bucket_of_the_name_is_read_or_filled() {
    let test = TestStore::in_memory();
    let source = test.bucket("source");
    many(&test, &source);
    let filled = begin(&test, &source, bucket_request("filled"));
    assert!(test.run(test.store.fill_page(filled.clone())).unwrap());
    // The source is replaced by a bucket of the name: neither with the old id nor with the new one.
    test.run(test.store.delete_bucket(&source, Deletion::Force)).unwrap();
    assert!(is_missing(&fill(&test, &filled)));
    test.bucket("source");
    test.put(&source, "models/599", b"secret").unwrap();
    assert!(is_missing(&fill(&test, &filled)));
    let now = Fill { source_id: test.store.bucket(&source).unwrap().id, ..filled.clone() };
    assert!(is_missing(&fill(&test, &now)));
    assert_eq!((test.keys(&filled.bucket).len(), is_marked(&test, &filled)), (256, true));
    // A snapshot of the name is another one, too.
    test.run(test.store.delete_bucket(&source, Deletion::Force)).unwrap();
    test.snapshot(&filled.bucket, "source");
    assert!(is_missing(&fill(&test, &filled)));
    // The bucket to fill is replaced.
    test.run(test.store.delete_bucket(&filled.bucket, Deletion::Force)).unwrap();
    test.bucket("filled");
    assert!(is_missing(&fill(&test, &filled)));
    assert!(test.keys(&filled.bucket).is_empty());
    test.audit_collected();
}

#[test]
fn a_snapshot_is_copied_as_of_its_moment() {
    let test = TestStore::in_memory();
    let source = test.bucket("source");
    many(&test, &source);
    let snapshot = test.snapshot(&source, "snapshot");
    let filled = begin(&test, &snapshot, bucket_request("filled"));
    assert!(test.run(test.store.fill_page(filled.clone())).unwrap());
    for number in 0..MANY {
        test.delete(&source, &format!("models/{number:03}")).unwrap();
    }
    test.put(&source, "models/later", b"later").unwrap();
    assert_eq!(fill(&test, &filled).unwrap(), 2);
    assert_eq!(test.keys(&filled.bucket).len(), MANY);
    test.audit_collected();
}

#[test]
fn what_does_not_fit_leaves_whole_pages_and_the_mark() {
    let test = TestStore::in_memory();
    let source = test.bucket("source");
    many(&test, &source);
    let request = CreateBucket { quota_bytes: Some(300 * 11), ..bucket_request("filled") };
    let filled = begin(&test, &source, request);
    assert!(matches!(fill(&test, &filled), Err(Error::QuotaExceeded { .. })));
    assert_eq!((test.keys(&filled.bucket).len(), is_marked(&test, &filled)), (256, true));
    let larger = SetBucket { quota_bytes: Some(Some(600 * 11)), ..SetBucket::default() };
    test.run(test.store.set_bucket(&filled.bucket, larger)).unwrap();
    assert_eq!(fill(&test, &filled).unwrap(), 2);
    test.audit_collected();
}

#[test]
fn objects_of_many_pieces_are_copied_in_smaller_transactions() {
    let test = TestStore::in_memory();
    let source = test.bucket("source");
    let upload = test.begin_upload(&source, "models/00");
    let parts = [test.put_part(&upload, 1, &[1; 5 << 20]).unwrap(), test.put_part(&upload, 2, b"end").unwrap()];
    test.complete(&upload, &[&parts[0], &parts[1]]).unwrap();
    for number in 1..20 {
        test.copy((&source, "models/00"), (&source, &format!("models/{number:02}"))).unwrap();
    }
    let filled = begin(&test, &source, bucket_request("filled"));
    assert_eq!(fill(&test, &filled).unwrap(), 3, "8 objects of 2 pieces make 16");
    assert_eq!(test.keys(&filled.bucket).len(), 20);
    assert_eq!(test.get(&filled.bucket, "19").unwrap().len(), (5 << 20) + 3);
    test.audit_collected();
}

fn rename(folder: u64, to: &str) -> Rename {
    Rename {
        from_parent: folder,
        from_name: "new".into(),
        to_parent: folder,
        to_name: to.to_owned(),
        mode: RenameMode::Replace,
    }
}

#[test]
fn objects_that_are_replaced_and_deleted_meanwhile_are_copied_whole_or_not() {
    let test = TestStore::in_memory();
    let source = test.bucket("source");
    many(&test, &source);
    let filled = begin(&test, &source, bucket_request("filled"));
    let volume = test.mount(&source);
    let folder = find(&volume, "models").unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Replaces objects by renaming files over them, and deletes every fifth.
        scope.spawn(|| {
            let mut round = 0;
            while !ends.load(Ordering::Relaxed) {
                let number = (round * 7) % MANY;
                let file = make_file(&volume, folder, "new").unwrap();
                volume.write(file, 0, format!("replaced {number:03}").as_bytes(), false).unwrap();
                let name = format!("{number:03}");
                volume.rename(rename(folder, &name)).unwrap();
                if number.is_multiple_of(5) {
                    volume.unlink(folder, &name).unwrap();
                }
                round += 1;
            }
        });
        let pages = fill(&test, &filled);
        ends.store(true, Ordering::Relaxed);
        assert!(pages.unwrap() >= 3);
    });
    for at in test.keys(&filled.bucket) {
        let content = test.get(&filled.bucket, &at).unwrap();
        let known = [format!("content {at}"), format!("replaced {at}")];
        // A file is visible below its temporary name and while it is still empty.
        assert!(at == "new" || known.iter().any(|known| known.as_bytes() == content), "{at}: {content:?}");
    }
    let kept = (0..MANY).filter(|number| !number.is_multiple_of(5)).count();
    assert!(test.keys(&filled.bucket).len() >= kept, "what was always there is copied");
    drop(volume);
    test.audit_collected();
}
