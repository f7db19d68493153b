//! Inodes that lost their last name while they are in use.

use super::test_store::{TestStore, find, read_file};
use crate::error::{Error, Posix};
use crate::name::BucketName;
use crate::store::{Deletion, Source};
use crate::volume::Volume;

const SIZE: usize = 20 << 10;

/// A mounted bucket with one file, which is pinned once.
fn held(test: &TestStore) -> (BucketName, Volume, u64) {
    let bucket = test.bucket("bucket");
    test.put(&bucket, "f", &[1; SIZE]).unwrap();
    let volume = test.mount(&bucket);
    let ino = volume.lookup(volume.root(), "f").unwrap().ino;
    (bucket, volume, ino)
}

fn is_gone(volume: &Volume, ino: u64) -> bool {
    matches!(volume.attr(ino), Err(Error::Posix(Posix::Stale)))
}

/// Waits for operations that were queued before.
fn settle(test: &TestStore) {
    test.store.core.meta.sync().wait().unwrap();
}

#[test]
fn an_unlinked_file_lives_until_its_last_pin_goes() {
    let test = TestStore::in_memory();
    let (bucket, volume, ino) = held(&test);
    let other = test.mount(&bucket);
    other.pin(ino).unwrap();
    test.delete(&bucket, "f").unwrap();
    assert!(matches!(find(&volume, "f"), Err(Error::Posix(Posix::NotFound))));
    assert_eq!(volume.attr(ino).unwrap().nlink, 0);
    volume.write(ino, 5, b"still", false).unwrap();
    test.audit();
    volume.forget(ino, 1);
    settle(&test);
    assert_eq!(&other.read(ino, 5, 5).unwrap()[..], b"still");
    assert!(matches!(other.link(ino, other.root(), "back"), Err(Error::Posix(Posix::NotFound))));
    drop(other);
    settle(&test);
    assert!(is_gone(&volume, ino));
    assert_eq!(test.store.usage(&bucket).unwrap().inodes, 0);
    test.audit_collected();
    assert_eq!(test.store.core.blobs.file_ids().unwrap(), []);
}

#[test]
fn a_put_over_an_open_file_keeps_the_old_content_readable() {
    let test = TestStore::in_memory();
    let (bucket, volume, ino) = held(&test);
    test.put(&bucket, "f", b"new").unwrap();
    assert_eq!(read_file(&volume, ino), [1; SIZE]);
    let new = find(&volume, "f").unwrap();
    assert!(new != ino && read_file(&volume, new) == b"new");
    test.audit();
    volume.forget(ino, 1);
    settle(&test);
    assert!(is_gone(&volume, ino));
    test.audit_collected();
}

#[test]
fn what_was_looked_up_stays_though_it_is_replaced_at_that_moment() {
    let test = TestStore::on_disk();
    let (bucket, volume, ino) = held(&test);
    volume.forget(ino, 1);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let found = volume.lookup(volume.root(), "f").unwrap();
                std::thread::yield_now();
                assert_eq!(volume.read(found.ino, 0, SIZE).unwrap().len(), SIZE);
                volume.forget(found.ino, 1);
            }
        });
        for round in 0..60 {
            test.put(&bucket, "f", &[round; SIZE]).unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    settle(&test);
    test.audit_collected();
}

#[test]
fn orphans_of_a_dead_process_are_collected_as_the_store_opens() {
    let test = TestStore::on_disk();
    let (bucket, volume, ino) = held(&test);
    volume.unlink(volume.root(), "f").unwrap();
    test.snapshot(&bucket, "with-orphan");
    // A copy of the folder is what a killed process leaves.
    let crashed = TestStore::at(test.folder_copy()).unwrap();
    let volume = crashed.mount(&bucket);
    assert!(is_gone(&volume, ino));
    assert_eq!(crashed.store.usage(&bucket).unwrap().bytes, 0);
    crashed.audit_collected();
    crashed.run(crashed.store.delete_snapshot("with-orphan")).unwrap();
    crashed.audit_collected();
    assert_eq!(crashed.store.core.blobs.segments().unwrap().iter().filter(|segment| !segment.active).count(), 0);
}

#[test]
fn a_clone_does_not_inherit_orphans() {
    let test = TestStore::in_memory();
    let (bucket, volume, ino) = held(&test);
    volume.unlink(volume.root(), "f").unwrap();
    test.snapshot(&bucket, "taken");
    for (source, name) in [(Source::Snapshot("taken".into()), "first"), (Source::Bucket(bucket.clone()), "second")] {
        let cloned = test.clone_of(source, name);
        assert_eq!(test.store.usage(&cloned).unwrap().bytes, 0);
        assert!(is_gone(&test.mount(&cloned), ino));
    }
    assert_eq!(read_file(&volume, ino), [1; SIZE], "the one who holds it still does");
    test.audit();
    volume.forget(ino, 1);
    settle(&test);
    let cloned = test.clone_of(Source::Snapshot("taken".into()), "third");
    assert_eq!(test.store.usage(&cloned).unwrap().bytes, 0, "also after its bucket collected it");
    test.audit_collected();
}

#[test]
fn what_a_clone_holds_is_nothing_to_its_source() {
    let test = TestStore::in_memory();
    let (bucket, volume, ino) = held(&test);
    let cloned = test.clone_of(Source::Bucket(bucket.clone()), "cloned");
    let other = test.mount(&cloned);
    other.pin(ino).unwrap();
    volume.unlink(volume.root(), "f").unwrap();
    volume.forget(ino, 1);
    settle(&test);
    assert!(is_gone(&volume, ino), "the clone's pin is not this bucket's");
    assert_eq!(read_file(&other, ino), [1; SIZE]);
    other.forget(ino, 1);
    settle(&test);
    assert_eq!(read_file(&other, ino), [1; SIZE], "it has its name there");
    test.audit_collected();
}

#[test]
fn a_deleted_bucket_takes_its_orphans_along() {
    let test = TestStore::in_memory();
    let (bucket, volume, ino) = held(&test);
    volume.unlink(volume.root(), "f").unwrap();
    test.run(test.store.delete_bucket(&bucket, Deletion::Force)).unwrap();
    test.audit_collected();
    assert!(is_gone(&volume, ino));
    volume.forget(ino, 1);
    settle(&test);
    test.audit_collected();
}

#[test]
fn a_pinned_directory_that_s3_pruned_takes_no_names() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    test.put(&bucket, "a/b/c", b"x").unwrap();
    let volume = test.mount(&bucket);
    let a = volume.lookup(volume.root(), "a").unwrap().ino;
    let b = volume.lookup(a, "b").unwrap().ino;
    test.delete(&bucket, "a/b/c").unwrap();
    assert_eq!((volume.attr(a).unwrap().nlink, volume.attr(b).unwrap().nlink), (0, 0));
    assert!(matches!(super::test_store::make_file(&volume, b, "f"), Err(Error::Posix(Posix::NotFound))));
    test.audit();
    test.put(&bucket, "a/b/c", b"y").unwrap();
    assert!(find(&volume, "a").unwrap() != a);
    volume.forget(b, 1);
    volume.forget(a, 1);
    settle(&test);
    test.audit_collected();
}
