//! A failed commit may be on disk nevertheless: all content that it names exists when the store is opened again.

use std::sync::Arc;

use super::rig::{Rig, find, make_file, md5, name, read_file};
use crate::blob::BlobId;
use crate::error::Error;
use crate::meta::faulty::{Failure, Log};
use crate::store::PartInfo;

const FAILURES: [Failure; 2] = [Failure::Lost, Failure::Written];
/// Sizes of content stored in the record, in a segment and in its own file.
const SIZES: [usize; 3] = [1_000, 20_000, 300_000];

fn rig() -> (Rig, Log) {
    let log = Log::default();
    let rig = Rig::on(Arc::new(tempfile::tempdir().unwrap()), log.open());
    // The background work is stopped, so that the commit that fails is the test's.
    rig.store.background.stop();
    (rig, log)
}

/// Ends without closing, and opens what is on disk.
fn reopen(rig: Rig, log: &Log) -> Rig {
    let dir = rig.dir.clone();
    // Content of the failed commit must not be collected meanwhile.
    drop(rig.store.background.collect_now());
    drop(rig);
    Rig::on(dir, log.open())
}

/// Which of the acknowledged state and the unacknowledged one is expected; there is no third.
fn outcome<T: Clone>(failure: Failure, (old, new): (&T, &T)) -> T {
    if failure == Failure::Written { new.clone() } else { old.clone() }
}

#[test]
fn a_put_whose_commit_fails_leaves_the_old_or_the_new_object() {
    for failure in FAILURES {
        for size in SIZES {
            let (rig, log) = rig();
            let bucket = rig.bucket("puts");
            let (old, new) = (vec![1; 300_000], vec![2; size]);
            rig.put(&bucket, "k", &old).unwrap();
            log.fail(failure);
            assert!(matches!(rig.put(&bucket, "k", &new), Err(Error::Indeterminate { .. })));
            assert!(matches!(rig.put(&bucket, "k", &new), Err(Error::Poisoned { .. })));
            assert_eq!(rig.get(&bucket, "k").unwrap(), old, "reads go on");
            assert!(matches!(rig.store.core.blobs.remove_file(BlobId(1)), Err(Error::Poisoned { .. })));
            let rig = reopen(rig, &log);
            assert!(rig.get(&bucket, "k").unwrap() == outcome(failure, (&old, &new)), "{failure:?}, {size} bytes");
            rig.audit_collected();
        }
    }
}

#[test]
fn a_part_whose_commit_fails_is_the_old_or_the_new_part() {
    for failure in FAILURES {
        for size in SIZES {
            let (rig, log) = rig();
            let upload = rig.begin_upload(&rig.bucket("parts"), "k");
            let (old, new) = (vec![1; 300_000], vec![2; size]);
            let part = rig.put_part(&upload, 1, &old).unwrap();
            log.fail(failure);
            assert!(matches!(rig.put_part(&upload, 1, &new), Err(Error::Indeterminate { .. })));
            let rig = reopen(rig, &log);
            let replaced = PartInfo { etag: md5(&new), ..part.clone() };
            rig.complete(&upload, &[&outcome(failure, (&part, &replaced))]).unwrap();
            assert!(rig.get(&upload.bucket, "k").unwrap() == outcome(failure, (&old, &new)), "{failure:?}, {size}");
            rig.audit_collected();
        }
    }
}

#[test]
fn a_file_that_gets_a_home_in_a_commit_that_fails_keeps_its_content() {
    for failure in FAILURES {
        for size in SIZES {
            let (rig, log) = rig();
            let bucket = rig.bucket("homes");
            let volume = rig.mount(&bucket);
            make_file(&volume, volume.root(), "made").unwrap();
            let made = find(&volume, "made").unwrap();
            volume.write(made, 0, &[1; 2_000], false).unwrap();
            rig.put(&bucket, "put", &vec![1; size]).unwrap();
            let ino = find(&volume, if size < 10_000 { "made" } else { "put" }).unwrap();
            let before = read_file(&volume, ino);
            let after = [&before[..], &[2; 9_000]].concat();
            log.fail(failure);
            assert!(volume.write(ino, before.len() as u64, &[2; 9_000], false).is_err());
            drop(volume);
            let rig = reopen(rig, &log);
            let volume = rig.mount(&name("homes"));
            let found = read_file(&volume, ino);
            assert!(found == before || found == outcome(failure, (&before, &after)), "{failure:?}, {size} bytes");
            drop(volume);
            rig.audit_collected();
        }
    }
}
