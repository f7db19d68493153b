//! The conformance suite on fjall, and what only an engine on disk can show.

use std::path::Path;

use super::{Options, open};
use crate::error::Error;
use crate::meta::Durability::{Buffered, Synced};
use crate::meta::conformance::{Fixture, put, suite};
use crate::meta::{Meta, Value};

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    Fixture { meta: open_in(folder.path()), folder: Some(folder) }
}

fn open_in(path: &Path) -> Meta {
    Meta::new(open(path, Options::default()).unwrap())
}

suite!(fixture);

/// Eight bytes of key, as many as it takes to fill several memtables.
const KEYS: u64 = 6000;

fn fill(meta: &Meta, round: u8) {
    let tickets: Vec<_> = (1..=KEYS)
        .map(|number| {
            meta.write(Buffered, move |txn| {
                txn.put([b"k", &number.to_be_bytes()[..]].concat(), vec![round; 4096]);
                Ok(())
            })
        })
        .collect();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
}

fn assert_filled(meta: &Meta, round: u8) {
    let pairs = meta.snapshot().scan(b"k", b"l", usize::MAX).unwrap();
    assert_eq!(pairs.len() as u64, KEYS);
    assert!(pairs.iter().all(|pair| pair.value == vec![round; 4096]));
}

#[test]
fn reopening_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let mut last_batch = 0;
    for round in 0..3 {
        let meta = open_in(folder.path());
        assert_eq!(meta.synced_batch(), last_batch);
        if round > 0 {
            assert_filled(&meta, round - 1);
        }
        fill(&meta, round);
        assert_filled(&meta, round);
        meta.close();
        assert!(meta.synced_batch() > last_batch);
        last_batch = meta.synced_batch();
    }
}

#[test]
fn what_is_in_tables_is_cut_off_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let started = std::time::Instant::now();
    let meta = open_in(folder.path());
    fill(&meta, 7);
    while super::tail::Mark::read(folder.path()).tables == 0 {
        assert!(started.elapsed().as_secs() < 30, "16 MiB are more than memtables hold");
        std::thread::sleep(std::time::Duration::from_millis(50));
        put(&meta, "last", "1").wait().unwrap();
        meta.sync_here().unwrap();
    }
    let last_batch = meta.synced_batch();
    drop(meta);
    let journal = folder.path().join("0.jnl");
    assert_eq!(std::fs::metadata(&journal).unwrap().len(), 64 << 20);
    for round in 0..2 {
        let meta = open_in(folder.path());
        assert!(std::fs::metadata(&journal).unwrap().len() < 20 << 20);
        assert_eq!(meta.synced_batch(), last_batch + round);
        assert_filled(&meta, 7);
        put(&meta, "last", "2").wait().unwrap();
    }
}

#[test]
fn deletions_stay_deleted() {
    let Fixture { meta, folder } = fixture();
    let folder = folder.unwrap();
    put(&meta, "a", "1").wait().unwrap();
    put(&meta, "b", "2").wait().unwrap();
    let delete = meta.write(Synced, |txn| {
        txn.delete("a".into());
        Ok(())
    });
    delete.wait().unwrap();
    drop(meta);
    let view = open_in(folder.path()).snapshot();
    assert_eq!(view.get(b"a").unwrap(), None);
    assert_eq!(view.get(b"b").unwrap(), Some(Value::from_static(b"2")));
}

#[test]
fn folder_opens_once() {
    let Fixture { meta, folder } = fixture();
    let folder = folder.unwrap();
    put(&meta, "a", "1").wait().unwrap();
    let error = open(folder.path(), Options::default()).err().unwrap();
    assert!(matches!(&error, Error::Unusable { why } if why.contains("in use")), "{error}");
    drop(meta);
    assert!(open_in(folder.path()).snapshot().get(b"a").unwrap().is_some());
}

#[test]
fn damaged_journal_is_an_error() {
    let Fixture { meta, folder } = fixture();
    let folder = folder.unwrap();
    for _ in 0..3 {
        put(&meta, "key", "a value to be damaged").wait().unwrap();
    }
    drop(meta);
    let journal = folder.path().join("0.jnl");
    let mut bytes = std::fs::read(&journal).unwrap();
    let place = bytes.windows(7).position(|window| window == b"damaged").unwrap();
    bytes[place] ^= 1;
    std::fs::write(&journal, bytes).unwrap();
    let error = open(folder.path(), Options::default()).err().unwrap();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

#[test]
fn torn_end_of_the_journal_is_cut_off() {
    let Fixture { meta, folder } = fixture();
    let folder = folder.unwrap();
    put(&meta, "kept", "1").wait().unwrap();
    meta.sync().wait().unwrap();
    put(&meta, "torn", "a batch whose end is lost").wait().unwrap();
    drop(meta);
    let journal = folder.path().join("0.jnl");
    let mut bytes = std::fs::read(&journal).unwrap();
    let place = bytes.windows(5).position(|window| window == b"whose").unwrap();
    bytes.truncate(place);
    std::fs::write(&journal, bytes).unwrap();
    // A crash would have come before the batch was on disk, and so before the mark that it was.
    std::fs::remove_file(folder.path().join("synced")).unwrap();
    let meta = open_in(folder.path());
    assert_eq!(meta.synced_batch(), 1);
    assert_eq!(meta.snapshot().scan(b"a", b"z", 9).unwrap().len(), 1);
}
