//! Directories that mounts move in buckets with current or former versioning: what stays under the old keys, and the
//! version ids of the objects.

use std::collections::BTreeSet;

use super::lifecycle::{Set, rule};
use super::mounted_versions::{history, kept};
use super::random::Choices;
use super::test_store::{TestStore, by_root, find, key, make, make_file, name, read_file};
use crate::error::{Error, Posix, Result};
use crate::name::BucketName;
use crate::store::*;
use crate::tree::Tx;
use crate::volume::{Make, Rename, RenameMode, Volume};

fn moving(volume: &Volume, from: &str, to: &str, mode: RenameMode) -> Result<()> {
    let place = |path: &str| {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok::<_, Error>((find(volume, above)?, name.to_owned()))
    };
    let ((from_parent, from_name), (to_parent, to_name)) = (place(from)?, place(to)?);
    volume.rename(Rename { from_parent, from_name, to_parent, to_name, mode })
}

fn crosses(result: &Result<()>) -> bool {
    matches!(result, Err(Error::Posix(Posix::CrossDevice)))
}

fn removing(test: &TestStore, bucket: &BucketName, at: &str, id: Option<&str>) {
    test.delete_version(bucket, at, id.unwrap(), false).unwrap();
}

#[test]
fn a_directory_brings_no_second_null_version_under_a_key() {
    for versioning in [Versioning::Enabled, Versioning::Suspended] {
        let test = TestStore::in_memory();
        let bucket = test.bucket("nulls");
        for at in ["d/s/f", "d/g", "e/s/f", "free/s/g"] {
            test.put(&bucket, at, at.as_bytes()).unwrap();
        }
        test.switch_versioning(&bucket, Versioning::Enabled).unwrap();
        test.switch_versioning(&bucket, versioning).unwrap();
        for at in ["e/s/f", "free/s/g"] {
            test.delete(&bucket, at).unwrap();
        }
        let volume = test.mount(&bucket);
        assert!(crosses(&moving(&volume, "d", "e", RenameMode::Replace)), "{versioning:?}");
        assert!(crosses(&moving(&volume, "d", "e", RenameMode::NoReplace)));
        let free = volume.make(volume.root(), "e", Make::Directory, by_root(0o755)).unwrap();
        assert!(crosses(&moving(&volume, "d", "e", RenameMode::Exchange)));
        assert!(crosses(&moving(&volume, "d", "e", RenameMode::Replace)));
        volume.forget(free.ino, 1);
        moving(&volume, "d", "free", RenameMode::Replace).unwrap();
        assert_eq!(test.get(&bucket, "free/s/f").unwrap(), b"d/s/f", "no file of it comes under a key with a null");
        moving(&volume, "free", "d", RenameMode::Replace).unwrap();
        drop(volume);
        test.audit_collected();
    }
}

#[test]
fn a_directory_with_too_many_versions_below_its_new_name_is_copied() {
    let test = TestStore::in_memory();
    let (bucket, volume) = kept(&test, "many");
    test.put(&bucket, "d/f", b"x").unwrap();
    let markers = |numbers: std::ops::Range<usize>| {
        let requests = numbers.map(|number| DeleteObject::new(key(&format!("e/{number:04}"))));
        test.run(test.store.delete_objects(&bucket, requests.collect())).unwrap();
    };
    markers(0..1023);
    moving(&volume, "d", "e", RenameMode::Replace).unwrap();
    moving(&volume, "e", "d", RenameMode::Replace).unwrap();
    markers(1023..1024);
    assert!(crosses(&moving(&volume, "d", "e", RenameMode::Replace)));
    assert_eq!(test.get(&bucket, "d/f").unwrap(), b"x");
}

/// Makes a state that an early build could leave and that no operation makes now.
fn second_null(test: &TestStore, bucket: &BucketName, ino: u64) {
    let (core, named) = (test.store.core.clone(), bucket.clone());
    let done = test.store.core.meta.write(crate::meta::Durability::Synced, move |txn| {
        let mut tx = Tx::begin(txn, &core, &named, 0)?;
        let mut inode = tx.own(ino)?;
        inode.object.as_mut().unwrap().version = 0;
        tx.save(ino, &inode);
        tx.finish()
    });
    done.wait().unwrap();
}

#[test]
fn lifecycle_removes_the_version_it_looked_at_and_not_its_namesake() {
    let clock = Set::new();
    let test = TestStore::with_clock(clock.clone());
    let bucket = test.bucket("namesakes");
    test.put(&bucket, "k", b"old").unwrap();
    test.switch_versioning(&bucket, Versioning::Enabled).unwrap();
    let dirty = test.put(&bucket, "k", b"live").unwrap();
    second_null(&test, &bucket, dirty.ino);
    test.set_rules(&bucket, vec![rule(|rule| rule.noncurrent_days = Some(1))]);
    clock.pass(2);
    test.expire();
    assert_eq!(test.get(&bucket, "k").unwrap(), b"live");
    assert_eq!(history(&test, &bucket, "k").len(), 1);
    test.audit_collected();
}

#[test]
fn what_was_moved_away_stays_away_when_older_versions_are_deleted() {
    let test = TestStore::in_memory();
    let (bucket, volume) = kept(&test, "away");
    let ids: Vec<_> = ["1", "2", "3"].map(|body| test.put(&bucket, "d/f", body.as_bytes()).unwrap().version).into();
    moving(&volume, "d", "e", RenameMode::Replace).unwrap();
    for id in &ids[..2] {
        removing(&test, &bucket, "d/f", id.as_deref());
        assert!(test.get(&bucket, "d/f").is_err());
        assert!(find(&volume, "d").is_err());
    }
    assert_eq!(test.get(&bucket, "e/f").unwrap(), b"3");
    test.put(&bucket, "d/g", b"1").unwrap();
    let hidden = test.delete(&bucket, "d/g").unwrap().version;
    removing(&test, &bucket, "d/g", hidden.as_deref());
    assert_eq!(test.get(&bucket, "d/g").unwrap(), b"1", "without the marker that hid it, it is there again");
    drop(volume);
    test.audit_collected();
}

#[test]
fn an_object_comes_back_in_the_place_of_what_only_a_mount_sees() {
    let test = TestStore::in_memory();
    let (bucket, volume) = kept(&test, "hidden");
    test.put(&bucket, "d/f", b"1").unwrap();
    test.put(&bucket, "d/g", b"1").unwrap();
    let hidden = test.delete(&bucket, "d/f").unwrap().version;
    let link = Make::Symlink("elsewhere".into());
    make(&volume, find(&volume, "d").unwrap(), "f", link).unwrap();
    removing(&test, &bucket, "d/f", hidden.as_deref());
    assert_eq!(read_file(&volume, find(&volume, "d/f").unwrap()), b"1");
    assert_eq!(
        (test.get(&bucket, "d/f").unwrap(), history(&test, &bucket, "d/f")),
        (b"1".to_vec(), vec![Some(b"1".to_vec())])
    );
    drop(volume);
    test.audit_collected();
}

#[test]
fn lifecycle_brings_nothing_back_that_was_moved_away() {
    let clock = Set::new();
    let test = TestStore::with_clock(clock.clone());
    let (bucket, volume) = kept(&test, "expired");
    for body in ["1", "2", "3", "4"] {
        test.put(&bucket, "d/f", body.as_bytes()).unwrap();
    }
    moving(&volume, "d", "e", RenameMode::Replace).unwrap();
    let kept = |rule: &mut LifecycleRule| (rule.noncurrent_days, rule.noncurrent_kept) = (Some(1), Some(2));
    test.set_rules(&bucket, vec![rule(kept)]);
    clock.pass(2);
    test.expire();
    assert!(test.get(&bucket, "d/f").is_err());
    assert_eq!(test.all_versions(&bucket).len(), 3);
    drop(volume);
    test.audit_collected();
}

/// Asserts that no key has two versions with the same id.
fn assert_distinct(test: &TestStore, bucket: &BucketName) {
    let mut seen = BTreeSet::new();
    for (at, id) in test.all_versions(bucket) {
        let id = id.trim_start_matches("marker ").to_owned();
        assert!(seen.insert((at.clone(), id.clone())), "{at} has two versions {id}");
    }
}

/// Changes something in a bucket; does nothing if the change is not possible.
fn disturb(test: &TestStore, bucket: &BucketName, choices: &mut Choices, kind: usize) {
    let at = *choices.of(&["d/f", "d/s/g", "e/f", "e/s/g", "f"]);
    let names = ["d", "e", "d/s", "e/s", "d/f", "e/f", "f"];
    let modes = [RenameMode::Replace, RenameMode::Exchange];
    match kind {
        0..3 => drop(test.put(bucket, at, &[1; 9])),
        3 => drop(test.delete(bucket, at)),
        4 => drop(test.delete_version(bucket, at, "null", false)),
        5 => {
            let to = *choices.of(&[Versioning::Enabled, Versioning::Suspended]);
            test.switch_versioning(bucket, to).unwrap();
        }
        _ => {
            let volume = test.mount(bucket);
            let (from, to, mode) = (*choices.of(&names), *choices.of(&names), *choices.of(&modes));
            match choices.below(5) {
                0 => drop(find(&volume, "d").and_then(|dir| make_file(&volume, dir, "f"))),
                1 => drop(find(&volume, "e").and_then(|dir| volume.unlink(dir, "f"))),
                2 => drop(find(&volume, at).and_then(|ino| volume.append(ino, &[2; 9]))),
                _ => drop(moving(&volume, from, to, mode)),
            }
        }
    }
}

#[test]
fn ids_stay_distinct_whatever_moves() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("distinct");
    let mut choices = Choices::new();
    for step in 0..600 {
        let kind = choices.below(if step < 20 { 2 } else { 8 });
        disturb(&test, &bucket, &mut choices, kind);
        assert_distinct(&test, &name("distinct"));
    }
    test.audit_collected();
}

#[test]
fn ids_stay_distinct_whatever_moves_where_files_have_several_names() {
    let test = TestStore::in_memory();
    let mut choices = Choices::new();
    for round in 0..120 {
        let bucket = test.bucket(&format!("distinct-{round}"));
        test.put(&bucket, "d/s/g", b"1").unwrap();
        test.put(&bucket, "e/s/h", b"1").unwrap();
        let volume = test.mount(&bucket);
        for (at, to) in [("d/s/g", "f"), ("d/s/g", "e/f"), ("e/s/h", "d/f"), ("e/s/h", "h")] {
            let (above, name) = to.rsplit_once('/').unwrap_or(("", to));
            volume.link(find(&volume, at).unwrap(), find(&volume, above).unwrap(), name).unwrap();
        }
        drop(volume);
        test.switch_versioning(&bucket, Versioning::Enabled).unwrap();
        for _ in 0..40 {
            // Nothing is put, which would have one name.
            let kind = 3 + choices.below(8);
            disturb(&test, &bucket, &mut choices, kind);
            assert_distinct(&test, &bucket);
        }
    }
    test.audit_collected();
}

#[test]
fn one_of_several_names_does_not_move_and_comes_under_no_key_with_versions() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("several");
    for at in ["d/f", "e/f", "free/g"] {
        test.put(&bucket, at, at.as_bytes()).unwrap();
    }
    let volume = test.mount(&bucket);
    volume.link(find(&volume, "d/f").unwrap(), volume.root(), "g").unwrap();
    moving(&volume, "g", "h", RenameMode::Replace).unwrap();
    test.switch_versioning(&bucket, Versioning::Enabled).unwrap();
    for (from, to, mode) in [
        ("h", "i", RenameMode::Replace),
        ("d/f", "i", RenameMode::NoReplace),
        ("h", "e/f", RenameMode::Replace),
        ("e/f", "h", RenameMode::Exchange),
    ] {
        assert!(crosses(&moving(&volume, from, to, mode)), "{from} to {to}");
    }
    moving(&volume, "h", "d/f", RenameMode::Replace).unwrap();
    moving(&volume, "d", "i", RenameMode::Replace).unwrap();
    test.put(&bucket, "e/f", b"2").unwrap();
    test.delete_version(&bucket, "e/f", "null", false).unwrap();
    moving(&volume, "e", "k", RenameMode::Replace).unwrap();
    test.put(&bucket, "e/f", b"3").unwrap();
    test.delete(&bucket, "e/f").unwrap();
    assert!(crosses(&moving(&volume, "i", "e", RenameMode::Replace)), "its other name may come to be null");
    volume.unlink(volume.root(), "h").unwrap();
    moving(&volume, "i/f", "h", RenameMode::Replace).unwrap();
    assert_eq!(test.get(&bucket, "h").unwrap(), b"d/f", "with one name left it moves");
    drop(volume);
    test.audit_collected();
}
