//! Callers that write on their own threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use objstore_base::error::{Error, Result};

use super::{Buffered, Fixture, Gate, Meta, Synced, await_sync, put, refusal, value_of};
use crate::Txn;

fn number(txn: &dyn Txn, key: &str) -> Result<u64> {
    let value = txn.get(key.as_bytes())?;
    Ok(value.map_or(0, |value| u64::from_be_bytes(value[..].try_into().unwrap())))
}

/// Adds one to the numbers under two keys; returns the first one's old value.
fn count(txn: &mut dyn Txn, key: &str) -> Result<u64> {
    let own = number(txn, key)?;
    let all = number(txn, "all")?;
    txn.put(key.into(), (own + 1).to_be_bytes().to_vec());
    txn.put("all".into(), (all + 1).to_be_bytes().to_vec());
    Ok(own)
}

pub(crate) fn callers_write_beside_the_thread(fixture: &Fixture) {
    const CALLERS: u64 = 6;
    const EACH: u64 = 150;
    let meta = &fixture.meta;
    let answered = Arc::new(AtomicU64::new(0));
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let answered = Arc::clone(&answered);
            scope.spawn(move || {
                let key = format!("caller {caller}");
                for at in 0..EACH {
                    let (key, durability) = (key.clone(), if at % 50 == 7 { Synced } else { Buffered });
                    let told = match caller % 2 {
                        0 => meta.transact(durability, move |txn| count(txn, &key)),
                        _ => meta.write(durability, move |txn| count(txn, &key)).wait(),
                    };
                    assert_eq!(told.unwrap(), at, "a caller's writes happen in the order it makes them");
                    answered.fetch_add(1, Relaxed);
                }
            });
        }
    });
    assert_eq!(answered.load(Relaxed), CALLERS * EACH);
    let all = meta.transact(Synced, |txn| number(txn, "all")).unwrap();
    assert_eq!(all, CALLERS * EACH, "no write is lost or made twice");
    assert_eq!(meta.stats().queue_depth, 0);
}

pub(crate) fn a_caller_behind_the_thread_is_served(fixture: &Fixture) {
    let meta = &fixture.meta;
    let gate = Gate::close(meta);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| meta.transact(Buffered, |txn| count(txn, "a")));
        while meta.stats().queue_depth == 0 {
            std::thread::yield_now();
        }
        let behind = put(meta, "b", "1");
        gate.open();
        assert_eq!(waiting.join().unwrap().unwrap(), 0);
        behind.wait().unwrap();
    });
}

pub(crate) fn a_thread_behind_a_caller_is_served(fixture: &Fixture) {
    let meta = &fixture.meta;
    let queued = meta.clone();
    // Queues an operation while a caller leads, when the thread finds a leader or sleeps.
    let ticket = meta.transact(Buffered, move |_| Ok(put(&queued, "a", "1"))).unwrap();
    ticket.wait().unwrap();
    let mut last = None;
    for _ in 0..200 {
        let queued = meta.clone();
        last = Some(meta.transact(Buffered, move |_| Ok(put(&queued, "b", "2"))).unwrap());
    }
    last.unwrap().wait().unwrap();
    assert_eq!(value_of(&*meta.snapshot(), "b").as_deref(), Some("2"));
}

pub(crate) fn failures_of_a_caller_are_its_own(fixture: &Fixture) {
    let meta = &fixture.meta;
    let commits = meta.stats().commits;
    let failed = meta.transact(Synced, |txn| {
        txn.put("a".into(), "1".into());
        Err::<(), _>(refusal())
    });
    assert!(matches!(failed, Err(Error::Engine { why }) if why.contains("as the test wants")));
    let panicked = meta.transact(Synced, |txn| {
        txn.put("a".into(), "1".into());
        if txn.get(b"a")?.is_some() {
            panic!("as the test wants");
        }
        Ok(())
    });
    assert!(matches!(panicked, Err(Error::Engine { .. })));
    assert_eq!(meta.stats().commits, commits);
    meta.transact(Buffered, |txn| count(txn, "a")).unwrap();
    assert!(!meta.is_synced());
    meta.sync().wait().unwrap();
    assert!(meta.is_synced());
}

pub(crate) fn a_sync_waits_for_no_turn(fixture: &Fixture) {
    let meta = &fixture.meta;
    put(meta, "a", "1").wait().unwrap();
    let syncs = meta.stats().syncs;
    let gate = Gate::close(meta);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| meta.sync_here().unwrap());
        }
    });
    assert!(meta.is_synced());
    assert!(meta.stats().syncs <= syncs + 1, "one sync serves all callers");
    gate.open();
}

pub(crate) fn syncs_serve_what_came_before_them(fixture: &Fixture) {
    let meta = &fixture.meta;
    std::thread::scope(|scope| {
        for key in ["a", "b", "c", "d"] {
            scope.spawn(move || {
                for _ in 0..50 {
                    meta.transact(Buffered, move |txn| count(txn, key)).unwrap();
                    // The number of batches so far, in a new store; the engine's thread may have made some.
                    let commits = meta.stats().commits;
                    meta.sync_here().unwrap();
                    assert!(meta.synced_batch() >= commits);
                }
            });
        }
    });
    assert!(meta.is_synced());
    assert_eq!(meta.transact(Synced, |txn| number(txn, "all")).unwrap(), 200);
}

pub(crate) fn a_caller_may_close_the_engine(fixture: &Fixture) {
    let inner = fixture.meta.clone();
    let closed = fixture.meta.transact(Synced, move |txn| {
        txn.put("a".into(), "1".into());
        inner.close();
        Ok(())
    });
    closed.unwrap();
    let late = fixture.meta.transact(Buffered, |txn| count(txn, "a"));
    assert!(matches!(late, Err(Error::Engine { .. })));
}

pub(crate) fn what_a_caller_buffers_reaches_disk_unasked(fixture: &Fixture) {
    let meta = &fixture.meta;
    let write = |meta: &Meta| meta.transact(Buffered, |txn| count(txn, "a")).unwrap();
    for _ in 0..2 {
        write(meta);
        await_sync(meta);
    }
}

pub(crate) fn async_tasks_write_beside_the_thread(fixture: &Fixture) {
    const EACH: u64 = 100;
    for workers in [0, 2] {
        let runtime = match workers {
            0 => tokio::runtime::Builder::new_current_thread().build(),
            _ => tokio::runtime::Builder::new_multi_thread().worker_threads(workers).build(),
        };
        let runtime = runtime.unwrap();
        let tasks: Vec<_> = (0..4)
            .map(|task| {
                let (meta, key) = (fixture.meta.clone(), format!("task {task} of {workers}"));
                runtime.spawn(async move {
                    for at in 0..EACH {
                        let key = key.clone();
                        let told = meta.write_awaited(Synced, move |txn| count(txn, &key)).await;
                        assert_eq!(told.unwrap(), at);
                    }
                })
            })
            .collect();
        runtime.block_on(async {
            for task in tasks {
                task.await.unwrap();
            }
        });
    }
    assert_eq!(fixture.meta.transact(Synced, |txn| number(txn, "all")).unwrap(), 8 * EACH);
    assert_eq!(fixture.meta.stats().queue_depth, 0);
}

pub(crate) fn epochs_end_with_commits_of_their_kinds(fixture: &Fixture) {
    let meta = &fixture.meta;
    let epochs = || [meta.epoch(b"a").unwrap(), meta.epoch(b"b").unwrap(), meta.epoch(b"ab").unwrap()];
    let before = epochs();
    put(meta, "c", "1").wait().unwrap();
    meta.write(Buffered, |txn| {
        txn.put("a".into(), "1".into());
        Err::<(), _>(refusal())
    })
    .wait()
    .unwrap_err();
    assert_eq!(epochs(), before);
    let inner = meta.clone();
    let seen = meta.write(Buffered, move |txn| {
        txn.put("a".into(), "1".into());
        let (sender, receiver) = std::sync::mpsc::channel();
        txn.after_commit(Box::new(move || sender.send(inner.epoch(b"a")).unwrap()));
        Ok(receiver)
    });
    let told = seen.wait().unwrap().recv().unwrap();
    let after = epochs();
    assert!(after[0] != before[0] && after[1] == before[1] && after[2] != before[2]);
    assert_eq!(told, Some(after[0]), "the epoch ends before any caller gets its answer");
}
