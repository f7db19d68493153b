//! A failed commit may be on disk nevertheless: all content that it names exists when the store is opened again.

use std::sync::Arc;

use super::test_store::{TestStore, find, make_file, md5, name, read_file};
use crate::blob::BlobId;
use crate::error::Error;
use crate::meta::faulty::{Failure, Log};
use crate::store::PartInfo;

const FAILURES: [Failure; 2] = [Failure::Lost, Failure::Written];
/// Sizes of content stored in the record, in a segment and in its own file.
const SIZES: [usize; 3] = [1_000, 20_000, 300_000];

fn test() -> (TestStore, Log) {
    let log = Log::default();
    let test = TestStore::on(Arc::new(tempfile::tempdir().unwrap()), log.open());
    // The background work is stopped, so that the commit that fails is the test's.
    test.store.background.stop();
    (test, log)
}

/// Ends without closing, and opens what is on disk.
fn reopen(test: TestStore, log: &Log) -> TestStore {
    let dir = test.dir.clone();
    // Content of the failed commit must not be collected meanwhile.
    drop(test.store.background.collect_now());
    drop(test);
    TestStore::on(dir, log.open())
}

/// Which of the acknowledged state and the unacknowledged one is expected; there is no third.
fn outcome<T: Clone>(failure: Failure, (old, new): (&T, &T)) -> T {
    if failure == Failure::Written { new.clone() } else { old.clone() }
}

#[test]
fn a_put_whose_commit_fails_leaves_the_old_or_the_new_object() {
    for failure in FAILURES {
        for size in SIZES {
            let (test, log) = test();
            let bucket = test.bucket("puts");
            let (old, new) = (vec![1; 300_000], vec![2; size]);
            test.put(&bucket, "k", &old).unwrap();
            log.fail(failure);
            assert!(matches!(test.put(&bucket, "k", &new), Err(Error::Indeterminate { .. })));
            assert!(matches!(test.put(&bucket, "k", &new), Err(Error::Poisoned { .. })));
            assert_eq!(test.get(&bucket, "k").unwrap(), old, "reads go on");
            assert!(matches!(test.store.core.blobs.remove_file(BlobId(1)), Err(Error::Poisoned { .. })));
            let test = reopen(test, &log);
            assert!(test.get(&bucket, "k").unwrap() == outcome(failure, (&old, &new)), "{failure:?}, {size} bytes");
            test.audit_collected();
        }
    }
}

#[test]
fn a_part_whose_commit_fails_is_the_old_or_the_new_part() {
    for failure in FAILURES {
        for size in SIZES {
            let (test, log) = test();
            let upload = test.begin_upload(&test.bucket("parts"), "k");
            let (old, new) = (vec![1; 300_000], vec![2; size]);
            let part = test.put_part(&upload, 1, &old).unwrap();
            log.fail(failure);
            assert!(matches!(test.put_part(&upload, 1, &new), Err(Error::Indeterminate { .. })));
            let test = reopen(test, &log);
            let replaced = PartInfo { etag: md5(&new), ..part.clone() };
            test.complete(&upload, &[&outcome(failure, (&part, &replaced))]).unwrap();
            assert!(test.get(&upload.bucket, "k").unwrap() == outcome(failure, (&old, &new)), "{failure:?}, {size}");
            test.audit_collected();
        }
    }
}

#[test]
fn a_file_that_gets_a_in_place_blob_in_a_commit_that_fails_keeps_its_content() {
    for failure in FAILURES {
        for size in SIZES {
            let (test, log) = test();
            let bucket = test.bucket("homes");
            let volume = test.mount(&bucket);
            make_file(&volume, volume.root(), "made").unwrap();
            let made = find(&volume, "made").unwrap();
            volume.write(made, 0, &[1; 2_000], false).unwrap();
            test.put(&bucket, "put", &vec![1; size]).unwrap();
            let ino = find(&volume, if size < 10_000 { "made" } else { "put" }).unwrap();
            let before = read_file(&volume, ino);
            let after = [&before[..], &[2; 9_000]].concat();
            log.fail(failure);
            assert!(volume.write(ino, before.len() as u64, &[2; 9_000], false).is_err());
            drop(volume);
            let test = reopen(test, &log);
            let volume = test.mount(&name("homes"));
            let found = read_file(&volume, ino);
            assert!(found == before || found == outcome(failure, (&before, &after)), "{failure:?}, {size} bytes");
            drop(volume);
            test.audit_collected();
        }
    }
}
