//! Inodes that lost their last name while they are in use.

use super::rig::{Rig, find, read_file};
use crate::error::{Error, Posix};
use crate::name::BucketName;
use crate::store::{Deletion, Source};
use crate::volume::Volume;

const SIZE: usize = 20 << 10;

/// A mounted bucket with one file, which is pinned once.
fn held(rig: &Rig) -> (BucketName, Volume, u64) {
    let bucket = rig.bucket("bucket");
    rig.put(&bucket, "f", &[1; SIZE]).unwrap();
    let volume = rig.mount(&bucket);
    let ino = volume.lookup(volume.root(), "f").unwrap().ino;
    (bucket, volume, ino)
}

fn is_gone(volume: &Volume, ino: u64) -> bool {
    matches!(volume.attr(ino), Err(Error::Posix(Posix::Stale)))
}

/// Waits for operations that were queued before.
fn settle(rig: &Rig) {
    rig.store.core.meta.sync().wait().unwrap();
}

#[test]
fn an_unlinked_file_lives_until_its_last_pin_goes() {
    let rig = Rig::in_memory();
    let (bucket, volume, ino) = held(&rig);
    let other = rig.mount(&bucket);
    other.pin(ino).unwrap();
    rig.delete(&bucket, "f").unwrap();
    assert!(matches!(find(&volume, "f"), Err(Error::Posix(Posix::NotFound))));
    assert_eq!(volume.attr(ino).unwrap().nlink, 0);
    volume.write(ino, 5, b"still", false).unwrap();
    rig.audit();
    volume.forget(ino, 1);
    settle(&rig);
    assert_eq!(&other.read(ino, 5, 5).unwrap()[..], b"still");
    assert!(matches!(other.link(ino, other.root(), "back"), Err(Error::Posix(Posix::NotFound))));
    drop(other);
    settle(&rig);
    assert!(is_gone(&volume, ino));
    assert_eq!(rig.store.usage(&bucket).unwrap().inodes, 0);
    rig.audit_collected();
    assert_eq!(rig.store.core.blobs.file_ids().unwrap(), []);
}

#[test]
fn a_put_over_an_open_file_keeps_the_old_content_readable() {
    let rig = Rig::in_memory();
    let (bucket, volume, ino) = held(&rig);
    rig.put(&bucket, "f", b"new").unwrap();
    assert_eq!(read_file(&volume, ino), [1; SIZE]);
    let new = find(&volume, "f").unwrap();
    assert!(new != ino && read_file(&volume, new) == b"new");
    rig.audit();
    volume.forget(ino, 1);
    settle(&rig);
    assert!(is_gone(&volume, ino));
    rig.audit_collected();
}

#[test]
fn what_was_looked_up_stays_though_it_is_replaced_at_that_moment() {
    let rig = Rig::on_disk();
    let (bucket, volume, ino) = held(&rig);
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
            rig.put(&bucket, "f", &[round; SIZE]).unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    settle(&rig);
    rig.audit_collected();
}

#[test]
fn orphans_of_a_dead_process_are_collected_as_the_store_opens() {
    let rig = Rig::on_disk();
    let (bucket, volume, ino) = held(&rig);
    volume.unlink(volume.root(), "f").unwrap();
    rig.snapshot(&bucket, "with-orphan");
    // A copy of the folder is what a killed process leaves.
    let crashed = Rig::at(rig.folder_copy()).unwrap();
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
    let rig = Rig::in_memory();
    let (bucket, volume, ino) = held(&rig);
    volume.unlink(volume.root(), "f").unwrap();
    rig.snapshot(&bucket, "taken");
    for (source, name) in [(Source::Snapshot("taken".into()), "first"), (Source::Bucket(bucket.clone()), "second")] {
        let cloned = rig.clone_of(source, name);
        assert_eq!(rig.store.usage(&cloned).unwrap().bytes, 0);
        assert!(is_gone(&rig.mount(&cloned), ino));
    }
    assert_eq!(read_file(&volume, ino), [1; SIZE], "the one who holds it still does");
    rig.audit();
    volume.forget(ino, 1);
    settle(&rig);
    let cloned = rig.clone_of(Source::Snapshot("taken".into()), "third");
    assert_eq!(rig.store.usage(&cloned).unwrap().bytes, 0, "also after its bucket collected it");
    rig.audit_collected();
}

#[test]
fn what_a_clone_holds_is_nothing_to_its_source() {
    let rig = Rig::in_memory();
    let (bucket, volume, ino) = held(&rig);
    let cloned = rig.clone_of(Source::Bucket(bucket.clone()), "cloned");
    let other = rig.mount(&cloned);
    other.pin(ino).unwrap();
    volume.unlink(volume.root(), "f").unwrap();
    volume.forget(ino, 1);
    settle(&rig);
    assert!(is_gone(&volume, ino), "the clone's pin is not this bucket's");
    assert_eq!(read_file(&other, ino), [1; SIZE]);
    other.forget(ino, 1);
    settle(&rig);
    assert_eq!(read_file(&other, ino), [1; SIZE], "it has its name there");
    rig.audit_collected();
}

#[test]
fn a_deleted_bucket_takes_its_orphans_along() {
    let rig = Rig::in_memory();
    let (bucket, volume, ino) = held(&rig);
    volume.unlink(volume.root(), "f").unwrap();
    rig.run(rig.store.delete_bucket(&bucket, Deletion::Force)).unwrap();
    rig.audit_collected();
    assert!(is_gone(&volume, ino));
    volume.forget(ino, 1);
    settle(&rig);
    rig.audit_collected();
}

#[test]
fn a_pinned_directory_that_s3_pruned_takes_no_names() {
    let rig = Rig::in_memory();
    let bucket = rig.bucket("bucket");
    rig.put(&bucket, "a/b/c", b"x").unwrap();
    let volume = rig.mount(&bucket);
    let a = volume.lookup(volume.root(), "a").unwrap().ino;
    let b = volume.lookup(a, "b").unwrap().ino;
    rig.delete(&bucket, "a/b/c").unwrap();
    assert_eq!((volume.attr(a).unwrap().nlink, volume.attr(b).unwrap().nlink), (0, 0));
    assert!(matches!(super::rig::make_file(&volume, b, "f"), Err(Error::Posix(Posix::NotFound))));
    rig.audit();
    rig.put(&bucket, "a/b/c", b"y").unwrap();
    assert!(find(&volume, "a").unwrap() != a);
    volume.forget(b, 1);
    volume.forget(a, 1);
    settle(&rig);
    rig.audit_collected();
}
