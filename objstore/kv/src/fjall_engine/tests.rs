//! The conformance suite on fjall, and guarantees of an engine on disk.

use std::path::Path;

use objstore_base::error::Error;

use super::{Options, open};
use crate::Durability::{Buffered, Synced};
use crate::conformance::{Fixture, put, suite};
use crate::{Meta, Value};

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    Fixture { meta: open_in(folder.path()), folder: Some(folder) }
}

fn open_in(path: &Path) -> Meta {
    Meta::new(open(path, Options::default()).unwrap())
}

suite!(fixture);

/// The number of eight-byte keys that fill several memtables.
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
        assert!(started.elapsed().as_secs() < 120, "16 MiB are more than memtables hold");
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
    // A real crash would come before the batch was on disk, and so before the watermark was written.
    std::fs::remove_file(folder.path().join("synced")).unwrap();
    let meta = open_in(folder.path());
    assert_eq!(meta.synced_batch(), 1);
    assert_eq!(meta.snapshot().scan(b"a", b"z", 9).unwrap().len(), 1);
}

/// The folder of a store that a power cut ended, with what was and what was not on disk.
struct Cut {
    folder: tempfile::TempDir,
    mark: Vec<u8>,
    /// The journal at the last sync that a caller waited for.
    synced: Vec<u8>,
    /// The journal in memory at the power cut.
    written: Vec<u8>,
}

impl Cut {
    const SYNCED: u64 = 3;
    const WRITTEN: u64 = 9;
    /// A size that the whole journal does not exceed, in bytes.
    const BYTES: usize = 128 << 10;

    fn new() -> Self {
        let Fixture { meta, folder } = fixture();
        let folder = folder.unwrap();
        let read = |name| std::fs::read(folder.path().join(name)).unwrap();
        let journal = || read("0.jnl")[..Self::BYTES].to_vec();
        let fill = |durability, number: u64| {
            let value: Vec<u8> = (0..number * 1500).map(|at| (at % 255) as u8 + 1).collect();
            meta.write(durability, move |txn| {
                txn.put([b"k", &number.to_be_bytes()[..]].concat(), value);
                Ok(())
            })
        };
        for number in 1..=Self::SYNCED {
            fill(Synced, number).wait().unwrap();
        }
        let (mark, synced) = (read("synced"), journal());
        for number in Self::SYNCED + 1..=Self::WRITTEN {
            fill(Buffered, number).wait().unwrap();
        }
        let written = journal();
        drop(meta);
        Self { folder, mark, synced, written }
    }

    /// Opens what remains if these sectors of the unsynced part were not written.
    fn open_without(&self, lost: impl Fn(usize) -> bool) -> objstore_base::error::Result<u64> {
        let sectors = self.written.chunks(512).zip(self.synced.chunks(512)).enumerate();
        let left: Vec<u8> = sectors.flat_map(|(at, (new, old))| if lost(at) { old } else { new }).copied().collect();
        std::fs::write(self.folder.path().join("0.jnl"), left).unwrap();
        std::fs::write(self.folder.path().join("synced"), &self.mark).unwrap();
        let meta = Meta::new(open(self.folder.path(), Options::default())?);
        let numbers = meta.snapshot().scan(b"k", b"l", 99).unwrap();
        let numbers: Vec<u64> = numbers.iter().map(|pair| pair.value.len() as u64 / 1500).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "a prefix of the written batches");
        Ok(numbers.len() as u64)
    }
}

#[test]
fn a_journal_that_a_power_cut_left_in_pieces_opens() {
    let cut = Cut::new();
    let seed = std::process::id();
    let mut state = u64::from(seed) | 1;
    let mut roll = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 40
    };
    let mut seen = [0; Cut::WRITTEN as usize + 1];
    for round in 0..60 {
        let (pages, chance) = ([1, 8][round % 2], [2, 10, 40][round % 3]);
        let lost: Vec<bool> = (0..Cut::BYTES / 512).map(|_| roll() % chance == 0).collect();
        let kept = cut.open_without(|sector| lost.get(sector / pages).is_some_and(|lost| *lost)).unwrap();
        assert!(kept >= Cut::SYNCED, "seed {seed}, round {round}: {kept} are left");
        seen[kept as usize] += 1;
    }
    assert!(seen.iter().filter(|count| **count > 0).count() > 3, "seed {seed}: {seen:?}");
}

#[test]
fn a_hole_in_what_was_on_disk_is_damage() {
    let mut cut = Cut::new();
    // In the value of the first batch, which the watermark certainly covers.
    let value: Vec<u8> = (1..=255).collect();
    let place = cut.written.windows(255).position(|window| window == value).unwrap();
    let sector = place.next_multiple_of(512);
    cut.written[sector..sector + 512].fill(0);
    let error = cut.open_without(|_| false).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}
