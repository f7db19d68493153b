//! Object lock and mounts: no operation of a mount changes, moves or loses a protected version, and each version that a
//! mount creates is retained.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::mounted_versions::{content, history, moving, refused, resize, rewrite, texts};
use super::random::Choices;
use super::test_store::{Later, TestStore, by_root, find, key, make, make_file, read_file};
use crate::clock::Timestamp;
use crate::error::{Error, Posix, Result};
use crate::name::BucketName;
use crate::store::*;
use crate::volume::{Allocate, Make, RenameMode, SetAttr, Volume, XattrMode};

const DAY: i64 = 86_400_000_000_000;

/// A default retention of a day, in governance mode.
fn a_day() -> DefaultRetention {
    DefaultRetention { mode: RetentionMode::Governance as i32, days: Some(1), years: None }
}

fn retention(test: &TestStore, bucket: &BucketName, at: &str) -> Option<Retention> {
    test.store.head_object(bucket, &key(at), None).unwrap().lock.retention
}

fn is_retained(test: &TestStore, bucket: &BucketName, at: &str) -> bool {
    retention(test, bucket, at).is_some_and(|retention| retention.until > test.store.core.clock.now())
}

fn lock(test: &TestStore, bucket: &BucketName, default: Option<DefaultRetention>) {
    test.switch_versioning(bucket, Versioning::Enabled).unwrap();
    test.run(test.store.set_object_lock(bucket, ObjectLock { default })).unwrap();
}

fn hold(test: &TestStore, bucket: &BucketName, at: &str, on: bool) {
    test.run(test.store.set_legal_hold(bucket, &key(at), None, on)).unwrap();
}

/// A file with the names `a` and `b`, in a bucket that then gets object lock.
fn linked(test: &TestStore, bucket: &BucketName, size: usize) -> (Volume, u64) {
    let volume = test.mount(bucket);
    let ino = make_file(&volume, volume.root(), "a").unwrap();
    rewrite(&volume, ino, &vec![b'1'; size]);
    volume.link(ino, volume.root(), "b").unwrap();
    volume.forget(ino, 1);
    (volume, ino)
}

/// Asserts that no operation of a mount changes a file.
fn assert_unchangeable(test: &TestStore, (bucket, volume): (&BucketName, &Volume), at: &str, ino: u64) {
    let before = test.get(bucket, at).unwrap();
    let shown = || format!("{:?}", test.store.head_object(bucket, &key(at), None).unwrap());
    let shown_before = shown();
    let time = SetAttr { mtime: Some(Timestamp(DAY)), ..SetAttr::default() };
    assert!(refused(&volume.set_attr(ino, time)));
    assert!(refused(&volume.set_attr(ino, SetAttr { atime: time.mtime, ..time })));
    for name in ["user.s3.meta.a", "user.s3.content-type", "user.s3.expires"] {
        assert!(refused(&volume.set_xattr(ino, name, b"x", XattrMode::Any)), "{name}");
    }
    volume.set_attr(ino, SetAttr { mode: Some(0o600), atime: time.mtime, uid: Some(7), ..SetAttr::default() }).unwrap();
    volume.set_xattr(ino, "user.own", b"x", XattrMode::Any).unwrap();
    assert_eq!(shown(), shown_before);
    assert!(refused(&volume.write(ino, 0, b"x", false)) && refused(&volume.append(ino, b"x")));
    for size in [0, 1, before.len() as u64 + 1] {
        assert!(refused(&resize(volume, ino, size)), "{at} to {size}");
    }
    assert!(refused(&volume.allocate(ino, Allocate::PunchHole, 0, 1)));
    assert!(refused(&volume.allocate(ino, Allocate::Extend, 0, before.len() as u64 + 1)));
    assert!(refused(&volume.open_writer(ino)));
    assert!(refused(&volume.unlink(volume.root(), at)));
    make(volume, volume.root(), "other", Make::Symlink("x".into())).unwrap();
    assert!(refused(&moving(volume, at, "moved", RenameMode::Replace)));
    assert!(refused(&moving(volume, "other", at, RenameMode::Replace)));
    assert!(refused(&moving(volume, at, "other", RenameMode::Exchange)));
    assert!(refused(&volume.link(ino, volume.root(), "further").map(drop)));
    volume.unlink(volume.root(), "other").unwrap();
    assert_eq!(test.get(bucket, at).unwrap(), before);
}

#[test]
fn a_protected_file_with_links_from_before_is_not_changed_through_any_of_them() {
    for (case, size) in [(0, 9), (1, 9), (2, 9), (0, 100_000), (1, 100_000), (2, 100_000)] {
        let test = TestStore::in_memory();
        let bucket = test.bucket("links");
        let (volume, ino) = linked(&test, &bucket, size);
        volume.pin(ino).unwrap();
        lock(&test, &bucket, None);
        match case {
            0 => drop(test.put(&bucket, "a", b"put").unwrap()),
            1 => {
                volume.unlink(volume.root(), "a").unwrap();
                volume.open_writer(find(&volume, "b").unwrap()).unwrap();
                volume.append(ino, b"more").unwrap();
                volume.close_writer(ino).unwrap();
            }
            _ => {}
        }
        hold(&test, &bucket, "b", true);
        assert_unchangeable(&test, (&bucket, &volume), "b", ino);
        hold(&test, &bucket, "b", false);
        let until = Timestamp(test.store.core.clock.now().0 + DAY);
        let retention = Some(Retention { mode: RetentionMode::Compliance, until });
        test.run(test.store.set_retention(&bucket, &key("b"), None, retention, false)).unwrap();
        assert_unchangeable(&test, (&bucket, &volume), "b", ino);
        assert_eq!(history(&test, &bucket, "a").last().unwrap().as_ref().unwrap(), &vec![b'1'; size]);
        volume.forget(ino, 1);
        test.audit_collected();
    }
}

#[test]
fn who_writes_a_retained_version_sets_its_time_until_the_last_close() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("timed");
    lock(&test, &bucket, Some(a_day()));
    let volume = test.mount(&bucket);
    let time = SetAttr { mtime: Some(Timestamp(DAY)), ..SetAttr::default() };
    let ino = volume.create(volume.root(), "k", by_root(0o644)).unwrap().ino;
    volume.write(ino, 0, b"copied", false).unwrap();
    volume.set_attr(ino, time).unwrap();
    volume.close_writer(ino).unwrap();
    let modified = || test.store.head_object(&bucket, &key("k"), None).unwrap().modified;
    assert_eq!(modified(), Timestamp(DAY));
    assert!(is_retained(&test, &bucket, "k"));
    assert!(refused(&volume.set_attr(ino, SetAttr { mtime: Some(Timestamp(2 * DAY)), ..time })));
    assert_eq!(modified(), Timestamp(DAY));
    test.audit_collected();
}

#[test]
fn a_version_that_is_no_longer_current_shows_s3_the_same_whatever_an_open_file_is_given() {
    for held in [false, true] {
        let test = TestStore::in_memory();
        let bucket = test.bucket("handles");
        lock(&test, &bucket, None);
        let volume = test.mount(&bucket);
        for how in ["put", "unlink", "rename"] {
            let first = test.put(&bucket, how, b"first").unwrap();
            let ino = volume.lookup(volume.root(), how).unwrap().ino;
            match how {
                "put" => drop(test.put(&bucket, how, b"second").unwrap()),
                "unlink" => volume.unlink(volume.root(), how).unwrap(),
                _ => {
                    make_file(&volume, volume.root(), "other").unwrap();
                    moving(&volume, "other", how, RenameMode::Replace).unwrap();
                }
            }
            let version = first.version.as_deref();
            if held {
                test.run(test.store.set_legal_hold(&bucket, &key(how), version, true)).unwrap();
            }
            // The version may have another inode, so that the number is not compared.
            let shown = || ObjectInfo { ino: 0, ..test.store.head_object(&bucket, &key(how), version).unwrap() };
            let before = shown();
            let time = SetAttr { mtime: Some(Timestamp(DAY)), ..SetAttr::default() };
            assert_eq!(volume.set_attr(ino, time).unwrap().mtime, Timestamp(DAY), "{how}");
            assert_eq!(shown(), before, "{how}");
            for name in ["user.s3.meta.a", "user.s3.content-type", "user.s3.tag.t"] {
                volume.set_xattr(ino, name, b"x", XattrMode::Any).unwrap();
                assert_eq!(
                    (&volume.xattr(ino, name).unwrap()[..], shown()),
                    (&b"x"[..], before.clone()),
                    "{how} {name}"
                );
            }
            volume.forget(ino, 1);
        }
        test.audit_collected();
    }
}

#[test]
fn a_file_written_in_place_before_the_lock_does_not_grow_after_it() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("grown");
    let (volume, ino) = linked(&test, &bucket, 5_000);
    volume.unlink(volume.root(), "b").unwrap();
    lock(&test, &bucket, Some(a_day()));
    moving(&volume, "a", "c", RenameMode::Replace).unwrap();
    assert!(refused(&resize(&volume, ino, 200_000)));
    assert!(refused(&volume.allocate(ino, Allocate::Extend, 0, 200_000)));
    assert_eq!(test.get(&bucket, "c").unwrap(), [b'1'; 5_000]);
}

#[test]
fn a_version_never_shares_its_inode_with_a_name() {
    for size in [9, 100_000] {
        let test = TestStore::in_memory();
        let bucket = test.bucket("apart");
        let (volume, ino) = linked(&test, &bucket, size);
        test.switch_versioning(&bucket, Versioning::Enabled).unwrap();
        let one = vec![b'1'; size];
        test.put(&bucket, "b", b"put").unwrap();
        rewrite(&volume, ino, &vec![b'2'; size]);
        assert_eq!(history(&test, &bucket, "a"), [Some(vec![b'2'; size]), Some(one.clone())]);
        assert_eq!(history(&test, &bucket, "b"), [Some(b"put".to_vec()), Some(one)]);
        test.audit_collected();
    }
}

#[test]
fn a_file_that_lost_the_name_it_knew_learns_the_one_it_is_looked_up_under() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("learning");
    let (volume, ino) = linked(&test, &bucket, 1);
    volume.unlink(volume.root(), "a").unwrap();
    test.switch_versioning(&bucket, Versioning::Enabled).unwrap();
    let stale = |result: Result<()>| matches!(result, Err(Error::Posix(Posix::Stale)));
    assert!(stale(volume.open_writer(ino)) && stale(resize(&volume, ino, 0)));
    assert_eq!(read_file(&volume, find(&volume, "b").unwrap()), b"1");
    rewrite(&volume, ino, b"2");
    resize(&volume, ino, 0).unwrap();
    assert_eq!(texts(&history(&test, &bucket, "b")), ["", "2", "1"]);
    test.audit_collected();
}

#[test]
fn default_retention_is_there_from_the_first_write_and_counts_from_the_last_close() {
    let clock = Arc::new(Later::default());
    let test = TestStore::with_clock(clock.clone());
    let bucket = test.locking("default", Some(a_day()));
    let volume = test.mount(&bucket);
    let ino = volume.create(volume.root(), "k", by_root(0o644)).unwrap().ino;
    volume.open_writer(ino).unwrap();
    volume.write(ino, 0, b"1", false).unwrap();
    let begun = retention(&test, &bucket, "k").unwrap().until;
    volume.close_writer(ino).unwrap();
    clock.advance(Duration::from_secs(3_600));
    volume.write(ino, 1, b"2", false).unwrap();
    resize(&volume, ino, 3).unwrap();
    resize(&volume, ino, 2).unwrap();
    assert!(refused(&volume.unlink(volume.root(), "k")), "who writes it may not remove it either");
    assert_eq!(retention(&test, &bucket, "k").unwrap().until, begun);
    volume.close_writer(ino).unwrap();
    let ended = retention(&test, &bucket, "k").unwrap().until;
    assert!(ended.0 >= begun.0 + 3_600_000_000_000);
    assert_unchangeable(&test, (&bucket, &volume), "k", ino);
    test.put(&bucket, "k", b"S3 still puts versions").unwrap();
    assert_eq!(texts(&history(&test, &bucket, "k"))[1], "12");
    clock.advance(Duration::from_secs(25 * 3_600));
    let ino = find(&volume, "k").unwrap();
    rewrite(&volume, ino, b"s");
    assert!(is_retained(&test, &bucket, "k"), "the version that was retained before is not the one that is now");
    volume.forget(ino, 1);
}

#[test]
fn every_version_a_mount_makes_is_retained() {
    let test = TestStore::on_disk();
    let bucket = test.bucket("every");
    for at in ["cut", "from", "to", "left", "right", "killed"] {
        test.put(&bucket, at, at.as_bytes()).unwrap();
    }
    lock(&test, &bucket, Some(a_day()));
    let volume = test.mount(&bucket);
    let ino = find(&volume, "cut").unwrap();
    resize(&volume, ino, 1).unwrap();
    assert_unchangeable(&test, (&bucket, &volume), "cut", ino);
    moving(&volume, "from", "to", RenameMode::Replace).unwrap();
    moving(&volume, "left", "right", RenameMode::Exchange).unwrap();
    make_file(&volume, volume.root(), "made").unwrap();
    let created = volume.create(volume.root(), "created", by_root(0o644)).unwrap().ino;
    volume.close_writer(created).unwrap();
    for at in ["cut", "to", "left", "right", "made", "created"] {
        assert!(is_retained(&test, &bucket, at), "{at}");
        assert_unchangeable(&test, (&bucket, &volume), at, find(&volume, at).unwrap());
    }
    assert!(!is_retained(&test, &bucket, "killed"), "written before there was a default");
    let session = test.mount(&bucket);
    let ended = session.create(session.root(), "ended", by_root(0o644)).unwrap().ino;
    session.write(ended, 0, b"text", false).unwrap();
    drop(session);
    assert_unchangeable(&test, (&bucket, &volume), "ended", ended);

    let ino = find(&volume, "killed").unwrap();
    volume.open_writer(ino).unwrap();
    volume.write(ino, 0, b"k", false).unwrap();
    // The state after a kill: neither the close nor the end of the session was executed.
    let test = TestStore::at(test.folder_copy()).unwrap();
    let volume = test.mount(&bucket);
    assert!(is_retained(&test, &bucket, "killed"));
    assert_unchangeable(&test, (&bucket, &volume), "killed", ino);
}

#[test]
fn a_lock_that_is_set_binds_those_who_are_writing() {
    let test = TestStore::in_memory();
    let bucket = test.locking("binding", Some(a_day()));
    let volume = test.mount(&bucket);
    for (at, held) in [("held", true), ("kept", false)] {
        let ino = volume.create(volume.root(), at, by_root(0o644)).unwrap().ino;
        volume.write(ino, 0, &[b'1'; 100_000], false).unwrap();
        volume.write(ino, 0, b"2", false).unwrap();
        if held {
            hold(&test, &bucket, at, true);
        } else {
            let until = Timestamp(test.store.core.clock.now().0 + 9 * DAY);
            let longer = Some(Retention { mode: RetentionMode::Governance, until });
            test.run(test.store.set_retention(&bucket, &key(at), None, longer, false)).unwrap();
        }
        assert_unchangeable(&test, (&bucket, &volume), at, ino);
        volume.close_writer(ino).unwrap();
        assert_eq!(test.get(&bucket, at).unwrap()[0], b'2');
        volume.forget(ino, 1);
    }
    assert!(retention(&test, &bucket, "kept").unwrap().until.0 > test.store.core.clock.now().0 + 8 * DAY);
}

#[test]
fn a_version_is_still_once_the_hold_on_it_is_answered() {
    let test = TestStore::in_memory();
    let bucket = test.locking("racing", Some(a_day()));
    let volume = test.mount(&bucket);
    for round in 0..40_u64 {
        let at = format!("k{round}");
        let ino = volume.create(volume.root(), &at, by_root(0o644)).unwrap().ino;
        volume.write(ino, 0, &[0; 10_000], false).unwrap();
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let mut number = 0;
                loop {
                    number += 1;
                    let written = match number % 3 {
                        0 => volume.append(ino, &[1; 500]).map(drop),
                        _ => volume.write(ino, number * 7, &number.to_be_bytes(), false).map(drop),
                    };
                    if written.is_err() {
                        break written;
                    }
                }
            });
            std::thread::sleep(Duration::from_micros(round * 50));
            hold(&test, &bucket, &at, true);
            let before = test.get(&bucket, &at).unwrap();
            assert!(refused(&writing.join().unwrap()));
            assert!(test.get(&bucket, &at).unwrap() == before, "round {round}");
        });
        volume.close_writer(ino).unwrap();
        volume.forget(ino, 1);
    }
}

/// The protected versions that are not open by any of their names, with their content.
fn protected(
    test: &TestStore,
    (bucket, volume): (&BucketName, &Volume),
    open: &[u64],
) -> BTreeMap<(String, String), Vec<u8>> {
    let request = ListVersions { list: List { limit: usize::MAX, ..List::default() }, after_version: None };
    let mut found = BTreeMap::new();
    for version in test.store.list_versions(bucket, &request).unwrap().versions {
        let (at, id) = (version.object.key.clone(), version.object.version.clone().unwrap());
        if version.marker || version.latest && open.contains(&find(volume, &at).unwrap()) {
            continue;
        }
        let lock = test.store.head_object(bucket, &key(&at), Some(&id)).unwrap().lock;
        if lock.legal_hold == Some(true) || lock.retention.is_some() {
            found.insert((at, id), content(test, bucket, &version.object));
        }
    }
    found
}

#[test]
fn no_protected_version_changes_or_goes_whatever_both_handles_do() {
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
    let mut random = Choices::new();
    for default in [None, Some(a_day()), None, Some(a_day())] {
        let test = TestStore::in_memory();
        let bucket = test.bucket("walk");
        let (volume, _) = linked(&test, &bucket, 5_000);
        lock(&test, &bucket, default);
        let (mut open, mut seen): (Vec<u64>, BTreeMap<_, _>) = (Vec::new(), BTreeMap::new());
        for _ in 0..150 {
            let (at, other) = (*random.of(&NAMES), *random.of(&NAMES));
            let size = *random.of(&[0, 3, 5_000, 200_000]);
            let found = find(&volume, at);
            let done = match (random.below(11), found) {
                (0, _) => test.put(&bucket, at, &random.bytes(size)).map(drop),
                (1, _) => test.delete(&bucket, at).map(drop),
                (2, Ok(_)) => volume.unlink(volume.root(), at),
                (3, Ok(_)) => moving(&volume, at, other, *random.of(&[RenameMode::Replace, RenameMode::Exchange])),
                (4, Err(_)) => volume.create(volume.root(), at, by_root(0o644)).map(|made| open.push(made.ino)),
                (5, Ok(ino)) => volume.pin(ino).and_then(|_| {
                    let opened = volume.open_writer(ino);
                    if opened.is_ok() {
                        open.push(ino);
                    } else {
                        volume.forget(ino, 1);
                    }
                    opened
                }),
                (6, _) if !open.is_empty() => {
                    let ino = open.swap_remove(random.below(open.len()));
                    volume.close_writer(ino).map(|()| volume.forget(ino, 1))
                }
                (7, Ok(ino)) => resize(&volume, ino, random.below_u64(300_000)),
                (8, Ok(_)) => test.run(test.store.set_legal_hold(&bucket, &key(at), None, true)).map(drop),
                _ if !open.is_empty() => {
                    let (ino, offset) = (*random.of(&open), random.below_u64(4_000));
                    volume.write(ino, offset, &random.bytes(size), false).map(drop)
                }
                _ => Ok(()),
            };
            let expected = [Posix::NotPermitted, Posix::NotFound, Posix::Stale, Posix::CrossDevice];
            let is_expected = |error: &Error| matches!(error, Error::Posix(posix) if expected.contains(posix));
            assert!(done.as_ref().is_ok() || is_expected(done.as_ref().unwrap_err()), "{done:?}");
            let now = protected(&test, (&bucket, &volume), &open);
            // A protected version that is closed cannot be opened for writing again, so it stays as it was first seen.
            let all = protected(&test, (&bucket, &volume), &[]);
            for (version, before) in &seen {
                assert!(all.get(version) == Some(before), "{version:?} changed or went");
            }
            seen.extend(now);
        }
        for ino in open {
            volume.close_writer(ino).unwrap();
            volume.forget(ino, 1);
        }
        test.audit_collected();
    }
}
