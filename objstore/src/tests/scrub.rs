//! The scrub: what it reads, finds, records and clears.

use std::time::{Duration, Instant};

use super::repair::flip;
use super::test_store::*;
use crate::scrub::{Rate, ScrubStats, Worker, damage};
use crate::store::Store;

const LARGE: usize = 9 << 20;

/// Only when asked, and as fast as it goes.
const ASKED: Rate = Rate { interval: None, bytes_per_second: u64::MAX };

fn until(worker: &Worker, done: impl Fn(&ScrubStats) -> bool) -> ScrubStats {
    let began = Instant::now();
    loop {
        let stats = worker.stats();
        if done(&stats) {
            return stats;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{stats:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn passed(store: &Store) -> ScrubStats {
    let worker = Worker::start(store, ASKED).unwrap();
    worker.begin(None);
    until(&worker, |stats| stats.passes == 1)
}

fn file_of(test: &TestStore) -> std::path::PathBuf {
    let files = test.store.core.blobs.file_ids().unwrap();
    let id = files.into_iter().max_by_key(|id| test.store.core.blobs.file(*id).unwrap().len().unwrap()).unwrap();
    test.dir.path().join(format!("content/blobs/{:02x}/{id}", id.0 & 255))
}

#[test]
fn a_pass_reads_all_content_once_and_finds_none_damaged() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("jar");
    test.put(&bucket, "inline", b"x").unwrap();
    test.put(&bucket, "packed", &[7; 20_000]).unwrap();
    test.put(&bucket, "large", &vec![8; LARGE]).unwrap();
    let stats = passed(&test.store);
    assert_eq!((stats.blobs, stats.bytes), (2, LARGE as u64 + 20_000));
    assert_eq!((stats.found, stats.errors, stats.progress), (0, 0, None));
    assert!(stats.completed.is_some());
}

#[test]
fn damage_is_remembered_with_who_has_it_and_forgotten_with_the_object() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("jar");
    test.put(&bucket, "a/large", &vec![8; LARGE]).unwrap();
    test.put(&bucket, "other", &vec![9; 200_000]).unwrap();
    flip(&file_of(&test), 5_000_000);
    assert_eq!(passed(&test.store).found, 1);
    let known = damage(&test.store).unwrap();
    assert_eq!(known.len(), 1);
    assert_eq!(known[0].who, ["bucket \"jar\" key \"a/large\""]);
    assert!(known[0].why.contains("checksum"), "{known:?}");
    assert_eq!(passed(&test.store).found, 0, "it is known");
    assert!(test.get(&bucket, "a/large").is_err());
    test.delete(&bucket, "a/large").unwrap();
    assert_eq!(damage(&test.store).unwrap(), []);
    assert_eq!(passed(&test.store).found, 0);
}

#[test]
fn content_that_reads_well_again_is_not_damaged_any_more() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("jar");
    test.put(&bucket, "large", &vec![8; LARGE]).unwrap();
    for expected in [1, 0] {
        flip(&file_of(&test), 5_000_000);
        passed(&test.store);
        assert_eq!(damage(&test.store).unwrap().len(), expected);
    }
    assert_eq!(test.get(&bucket, "large").unwrap(), vec![8; LARGE]);
}

#[test]
fn a_pass_goes_on_where_the_last_server_left_it() {
    let test = TestStore::on_disk();
    let bucket = test.bucket("jar");
    for at in 0..12 {
        test.put(&bucket, &format!("large-{at}"), &vec![at; LARGE]).unwrap();
    }
    // So slow that it is stopped before its end.
    let worker = Worker::start(&test.store, Rate { interval: None, bytes_per_second: 24 << 20 }).unwrap();
    worker.begin(None);
    // The place is written every 64 MiB.
    until(&worker, |stats| stats.bytes > 70 << 20);
    worker.stop();
    let before = worker.stats();
    drop(worker);
    let test = test.reopen();
    let worker = Worker::start(&test.store, ASKED).unwrap();
    let after = until(&worker, |stats| stats.passes == 1);
    assert!(after.bytes < 12 * LARGE as u64 - (60 << 20), "{after:?}");
    assert!(before.bytes + after.bytes >= 12 * LARGE as u64);
    assert_eq!(after.started, before.started);
}

#[test]
fn no_more_is_read_in_a_second_than_it_was_told() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("jar");
    test.put(&bucket, "large", &vec![8; LARGE]).unwrap();
    let worker = Worker::start(&test.store, Rate { interval: None, bytes_per_second: 16 << 20 }).unwrap();
    let began = Instant::now();
    worker.begin(None);
    until(&worker, |stats| stats.passes == 1);
    assert!(began.elapsed() > Duration::from_millis(400), "{:?}", began.elapsed());
}
