//! Checkpoints of a store that is written to, and stores that are opened from them.

#![expect(clippy::print_stdout, reason = "the figures are for the decision")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use objstore_log::memory::Memory;
use objstore_log::{Claim, Log as _};
use parking_lot::Mutex;

use super::super::store::Store;
use super::super::tail::Mark;
use super::super::{Checkpoints, Claimed, Options, Place, Standby, open, start};
use super::*;
use crate::backend::{Backend as _, encode_batch};
use crate::engine::Durability;
use crate::handle::Meta;
use crate::vault::{self, Vault as _};

/// How many batches each round adds: enough for tables to be flushed and compacted.
const ROUND: u64 = 8000;

/// The batches up to which the writer may commit; ends it on drop, also when an assertion fails.
struct Allowed<'a>(&'a AtomicU64);

impl Drop for Allowed<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Commits up to what is allowed, which it waits for, until that is 0.
fn write(store: &Store, allowed: &AtomicU64, slowest: &Mutex<Duration>) {
    for number in 1_u64.. {
        while allowed.load(Ordering::Relaxed) < number {
            if allowed.load(Ordering::Relaxed) == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let begun = Instant::now();
        let own = (Bytes::from_static(BATCH_KEY), Some(encode_batch(number)));
        // Keys in scattered order, so that tables overlap and are compacted.
        let key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        let key = Bytes::from([&b"k"[..], &key].concat());
        store.commit([own, (key, Some(Bytes::from(vec![7; 4000])))].into(), Durability::Buffered).unwrap();
        let mut slowest = slowest.lock();
        *slowest = begun.elapsed().max(*slowest);
    }
}

#[test]
fn linked_tables_open_as_the_store_at_one_of_its_batches() {
    let folder = tempfile::tempdir().unwrap();
    let opened = start(folder.path(), Options::default(), None).unwrap();
    let source = Tables { folder: folder.path().to_owned(), keyspace: opened.1.clone() };
    let store = Store::open(opened, folder.path(), (Mark::default(), None), None).unwrap();
    let (up_to, slowest) = (AtomicU64::new(ROUND), Mutex::new(Duration::ZERO));
    std::thread::scope(|threads| {
        let allowed = Allowed(&up_to);
        threads.spawn(|| write(&store, &up_to, &slowest));
        let mut reached = 0;
        for round in 1..=4 {
            while decode_batch(store.snapshot().get(BATCH_KEY).unwrap().as_deref()).unwrap() < round * ROUND {
                std::thread::sleep(Duration::from_millis(5));
            }
            // The writer goes on meanwhile, no further than this.
            allowed.0.store((round + 1) * ROUND, Ordering::Relaxed);
            let target = tempfile::tempdir_in(folder.path().parent().unwrap()).unwrap();
            *slowest.lock() = Duration::ZERO;
            let begun = Instant::now();
            let linked = source.link(target.path()).unwrap();
            let (took, slow) = (begun.elapsed(), *slowest.lock());
            let copy = open(target.path(), Options::default()).unwrap();
            let number = decode_batch(copy.snapshot().get(BATCH_KEY).unwrap().as_deref()).unwrap();
            let pairs = copy.snapshot().scan(b"k", b"l", usize::MAX).unwrap().len();
            let tables = linked.files.iter().filter(|(_, is_table)| *is_table).count();
            println!(
                "{round}: {tables} tables up to batch {number} linked in {took:?}; slowest commit meanwhile {slow:?}"
            );
            assert_eq!(linked.batch, number);
            assert!(number > reached && pairs as u64 == number, "{pairs} records of {number} batches");
            reached = number;
        }
    });
}

/// A server of a store with checkpoints in `vault` after every 2 MiB of log.
fn serve(log: &Arc<Memory>, vault: &Arc<vault::Memory>, name: &str, folder: &Path) -> (Meta, u64) {
    let meta = folder.join("meta");
    std::fs::create_dir_all(&meta).unwrap();
    let claim = Claim { server: name.to_owned(), lease: Duration::from_secs(600) };
    let mut place = Place::new(log.clone(), claim, Arc::new(|_| {}));
    place.checkpoints = Some(Checkpoints { vault: vault.clone(), log_bytes: 2 << 20 });
    let mut standby = Standby::open(&meta, Options::default(), place).unwrap();
    let mut replayed = 0;
    loop {
        match standby.follow().unwrap().entries {
            0 => break,
            entries => replayed += entries as u64,
        }
    }
    assert_eq!(standby.claim().unwrap(), Claimed::Owner);
    (Meta::new(standby.into_engine().unwrap()), replayed)
}

/// Writes until the log was trimmed up to `first`; returns how many records there are.
fn write_until_trimmed(log: &Memory, meta: &Meta, from: u64, first: u64) -> u64 {
    let begun = Instant::now();
    for number in from.. {
        let put = move |txn: &mut dyn crate::Txn| {
            txn.put([&b"k"[..], &number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()].concat(), vec![7; 8000]);
            Ok(())
        };
        let durability = if number % 50 == 0 { Durability::Synced } else { Durability::Buffered };
        meta.transact(durability, put).unwrap();
        if number % 50 == 0 && log.tail().unwrap().first > first {
            meta.sync_here().unwrap();
            return number + 1;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "the log was not trimmed");
        std::thread::sleep(Duration::from_micros(200));
    }
    unreachable!()
}

fn count(meta: &Meta) -> u64 {
    meta.snapshot().scan(b"k", b"l", usize::MAX).unwrap().len() as u64
}

#[test]
fn a_store_opens_from_a_checkpoint_and_the_end_of_a_trimmed_log() {
    let (log, vault) = (Arc::new(Memory::new()), Arc::new(vault::Memory::default()));
    let folders = tempfile::tempdir().unwrap();
    let (meta, _) = serve(&log, &vault, "a", &folders.path().join("a"));
    let records = write_until_trimmed(&log, &meta, 0, 1);
    meta.close();
    drop(meta);
    let tail = log.tail().unwrap();
    // Another server with an empty folder, and the first one with a copy from before the checkpoint.
    let (next, replayed) = serve(&log, &vault, "b", &folders.path().join("b"));
    assert_eq!(count(&next), records);
    println!(
        "{records} records; the log begins at {} and ends at {}; {replayed} entries were replayed",
        tail.first, tail.next
    );
    assert!(tail.first > 1 && replayed < tail.next - tail.first + 2, "{replayed} entries were replayed, {tail:?}");
    let more = write_until_trimmed(&log, &next, records, tail.next);
    let tables = vault.list("tables/").unwrap().len();
    next.close();
    drop(next);
    let (again, _) = serve(&log, &vault, "a", &folders.path().join("a"));
    assert_eq!(count(&again), more, "a copy that is behind the log's beginning is made from the checkpoint");
    println!("{tables} tables are in the vault");
    again.close();
}

#[test]
fn a_damaged_or_foreign_checkpoint_is_refused() {
    let (log, vault) = (Arc::new(Memory::new()), Arc::new(vault::Memory::default()));
    let folders = tempfile::tempdir().unwrap();
    let (meta, _) = serve(&log, &vault, "a", &folders.path().join("a"));
    write_until_trimmed(&log, &meta, 0, 1);
    meta.close();
    drop(meta);
    let id = log.tail().unwrap().id;
    let target = |name: &str| {
        let target = folders.path().join(name);
        std::fs::create_dir_all(&target).unwrap();
        target
    };
    let restored = crate::shipped::restore(&*vault, id, &target("good")).unwrap();
    assert!(restored.is_some_and(|batch| batch > 0));
    let foreign = crate::shipped::restore(&*vault, objstore_log::LogId([9; 16]), &target("foreign"));
    assert!(matches!(foreign, Err(Error::Unusable { .. })), "{foreign:?}");
    let table = vault.list("tables/").unwrap().remove(0);
    let (content, _) = vault.get(&table, 1 << 30).unwrap().unwrap();
    let mut changed = content.to_vec();
    changed[100] ^= 1;
    vault.remove(std::slice::from_ref(&table)).unwrap();
    let mut outcomes = vec![crate::shipped::restore(&*vault, id, &target("missing"))];
    vault.put(&table, changed.into()).unwrap();
    outcomes.push(crate::shipped::restore(&*vault, id, &target("changed")));
    // The table may be one that the manifest before the newest names.
    for outcome in outcomes {
        assert!(matches!(outcome, Ok(Some(_)) | Err(Error::Busy { .. } | Error::Corrupt { .. })), "{outcome:?}");
    }
}
