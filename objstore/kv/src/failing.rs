//! A disk that fails on demand, under the real writer.

use std::sync::Arc;

use objstore_base::error::{Error, Result};
use parking_lot::Mutex;

use super::backend::{Backend, Changes};
use super::conformance::{Gate, put};
use super::engine::Durability::{self, Buffered, Synced};
use super::handle::Meta;
use super::memory::Map;
use super::txn::Snapshot;
use super::writer::Writer;

/// How the disk behaves when it is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Good,
    CommitFails,
    CommitPanics,
    SyncFails,
}

/// A call that the writer made to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Commit(Durability),
    Sync,
}

struct Disk {
    mood: Mood,
    calls: Vec<Call>,
}

struct Failing {
    map: Map,
    disk: Arc<Mutex<Disk>>,
}

impl Failing {
    fn call(&self, call: Call) -> Result<()> {
        let mut disk = self.disk.lock();
        disk.calls.push(call);
        let fails = match (disk.mood, call) {
            (Mood::Good, _) => false,
            (Mood::CommitPanics, Call::Commit(_)) => {
                drop(disk);
                panic!("the disk is on fire")
            }
            (Mood::CommitFails, Call::Commit(_)) => true,
            (Mood::SyncFails, Call::Sync | Call::Commit(Synced)) => true,
            _ => false,
        };
        if fails { Err(Error::io("the test's disk", std::io::Error::other("the disk is on fire"))) } else { Ok(()) }
    }
}

impl Backend for Failing {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.map.snapshot()
    }

    fn commit(&self, changes: Changes, durability: Durability) -> Result<()> {
        self.call(Call::Commit(durability))?;
        self.map.commit(changes, durability)
    }

    fn sync(&self) -> Result<()> {
        self.call(Call::Sync)
    }
}

fn open() -> (Meta, Arc<Mutex<Disk>>) {
    let disk = Arc::new(Mutex::new(Disk { mood: Mood::Good, calls: Vec::new() }));
    let writer = Writer::start(Failing { map: Map::default(), disk: Arc::clone(&disk) }).unwrap();
    (Meta::new(Arc::new(writer)), disk)
}

fn assert_poisoned(meta: &Meta, disk: &Mutex<Disk>) {
    assert!(meta.poisoned().unwrap().contains("the disk is on fire"));
    disk.lock().mood = Mood::Good;
    let calls = disk.lock().calls.len();
    assert!(matches!(put(meta, "late", "").wait(), Err(Error::Poisoned { .. })));
    assert!(matches!(meta.sync().wait(), Err(Error::Poisoned { .. })));
    assert!(meta.snapshot().get(b"good").unwrap().is_some(), "reads continue");
    assert!(meta.snapshot().get(b"bad").unwrap().is_none());
    meta.close();
    assert_eq!(disk.lock().calls.len(), calls, "after a failure nothing is written to the disk");
}

#[test]
fn failed_commit_poisons() {
    for mood in [Mood::CommitFails, Mood::CommitPanics] {
        let (meta, disk) = open();
        put(&meta, "good", "").wait().unwrap();
        let gate = Gate::close(&meta);
        disk.lock().mood = mood;
        let write = meta.write(Buffered, |txn| {
            txn.put("bad".into(), Vec::new());
            txn.after_commit(Box::new(|| unreachable!("nothing was committed")));
            Ok(())
        });
        let reader = meta.write(Buffered, |txn| txn.get(b"bad"));
        let refused = meta.write(Buffered, |_| Err::<(), _>(Error::Busy { what: "the test".into() }));
        assert!(matches!(gate.release(), Err(Error::Indeterminate { .. })), "it was in the same batch");
        assert!(matches!(write.wait(), Err(Error::Indeterminate { .. })));
        assert!(
            matches!(reader.wait(), Err(Error::Indeterminate { .. })),
            "the reader saw writes that were not committed"
        );
        assert!(matches!(refused.wait(), Err(Error::Indeterminate { .. })));
        assert_poisoned(&meta, &disk);
    }
}

#[test]
fn failed_commit_of_a_caller_poisons() {
    for mood in [Mood::CommitFails, Mood::CommitPanics] {
        let (meta, disk) = open();
        put(&meta, "good", "").wait().unwrap();
        disk.lock().mood = mood;
        let failed = meta.transact(Buffered, |txn| {
            txn.put("bad".into(), Vec::new());
            txn.after_commit(Box::new(|| unreachable!("nothing was committed")));
            Ok(())
        });
        assert!(matches!(failed, Err(Error::Indeterminate { .. })));
        assert!(matches!(meta.transact(Buffered, |_| Ok(())), Err(Error::Poisoned { .. })));
        assert_poisoned(&meta, &disk);
    }
}

#[test]
fn failed_sync_of_a_caller_poisons() {
    let (meta, disk) = open();
    put(&meta, "good", "").wait().unwrap();
    meta.sync_here().unwrap();
    put(&meta, "lost", "").wait().unwrap();
    disk.lock().mood = Mood::SyncFails;
    assert!(matches!(meta.sync_here(), Err(Error::Poisoned { .. })));
    assert!(matches!(meta.sync_here(), Err(Error::Poisoned { .. })));
    assert_eq!(meta.synced_batch(), 1);
    assert_poisoned(&meta, &disk);
}

#[test]
fn failed_sync_poisons() {
    let (meta, disk) = open();
    put(&meta, "good", "").wait().unwrap();
    disk.lock().mood = Mood::SyncFails;
    assert!(matches!(meta.sync().wait(), Err(Error::Poisoned { .. })));
    assert_eq!(meta.synced_batch(), 0);
    assert_poisoned(&meta, &disk);
}

#[test]
fn failed_background_sync_poisons() {
    let (meta, disk) = open();
    disk.lock().mood = Mood::SyncFails;
    put(&meta, "good", "").wait().unwrap();
    let started = std::time::Instant::now();
    while meta.poisoned().is_none() {
        assert!(started.elapsed().as_secs() < 4, "the background sync is due within 3 s");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_poisoned(&meta, &disk);
}

#[test]
fn batch_with_one_synced_operation_is_one_synced_commit() {
    let (meta, disk) = open();
    let gate = Gate::close(&meta);
    let buffered = put(&meta, "a", "1");
    let synced = meta.write(Synced, |txn| {
        txn.put("b".into(), "2".into());
        Ok(())
    });
    gate.open();
    buffered.wait().unwrap();
    synced.wait().unwrap();
    assert_eq!(disk.lock().calls, [Call::Commit(Synced)]);
}

#[test]
fn failed_synced_operation_forces_no_sync() {
    let (meta, disk) = open();
    put(&meta, "a", "1").wait().unwrap();
    let refused = meta.write(Synced, |_| Err::<(), _>(Error::Busy { what: "the test".into() }));
    assert!(matches!(refused.wait(), Err(Error::Busy { .. })));
    assert_eq!(disk.lock().calls, [Call::Commit(Buffered)]);
    meta.close();
    assert_eq!(disk.lock().calls, [Call::Commit(Buffered), Call::Sync]);
}

#[test]
fn panicking_action_ends_nothing_else() {
    let (meta, _disk) = open();
    let write = meta.write(Synced, |txn| {
        txn.put("a".into(), "1".into());
        txn.after_commit(Box::new(|| panic!("as the test wants")));
        Ok(())
    });
    write.wait().unwrap();
    put(&meta, "b", "2").wait().unwrap();
}
