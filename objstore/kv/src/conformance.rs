//! The conformance suite of all engines; [`suite`] runs it against one.

mod scans;
mod turns;

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use objstore_base::error::{Error, Result};
use objstore_base::ticket::Ticket;
use parking_lot::Mutex;
use tempfile::TempDir;

use super::engine::Durability::{Buffered, Synced};
use super::handle::Meta;
use super::txn::{Pair, Read};

pub(super) use self::scans::{long_scans_cross_chunks, scans_match_a_model};
pub(super) use self::turns::{
    a_caller_behind_the_thread_is_served, a_caller_may_close_the_engine, a_sync_waits_for_no_turn,
    a_thread_behind_a_caller_is_served, async_tasks_write_beside_the_thread, callers_write_beside_the_thread,
    epochs_end_with_commits_of_their_kinds, failures_of_a_caller_are_its_own, syncs_serve_what_came_before_them,
    what_a_caller_buffers_reaches_disk_unasked,
};

/// An open engine and the folder that it may live in.
pub(super) struct Fixture {
    pub meta: Meta,
    pub folder: Option<TempDir>,
}

/// Makes each guarantee a test of its own, against the engine that `$open` opens.
macro_rules! suite {
    ($open:expr) => {
        suite!(@ $open, operation_reads_its_own_writes, failed_operation_undoes_only_itself,
            panicking_operation_undoes_only_itself, operations_run_in_order, snapshot_does_not_change,
            actions_run_in_commit_order_before_answers, scans_match_a_model, long_scans_cross_chunks,
            synced_read_waits_for_buffered_writes, buffered_write_reaches_disk_unasked, close_answers_all,
            engine_keys_are_refused_and_hidden, reading_commits_nothing, tickets_can_be_awaited,
            operation_may_close_the_engine, what_is_rolled_back_leaves_nothing, callers_write_beside_the_thread,
            a_caller_behind_the_thread_is_served, a_thread_behind_a_caller_is_served, failures_of_a_caller_are_its_own,
            a_caller_may_close_the_engine, what_a_caller_buffers_reaches_disk_unasked,
            async_tasks_write_beside_the_thread, epochs_end_with_commits_of_their_kinds, a_sync_waits_for_no_turn,
            syncs_serve_what_came_before_them);
    };
    (@ $open:expr, $($guarantee:ident),+) => {
        $(#[test] fn $guarantee() { $crate::conformance::$guarantee(&$open()); })+
    };
}
pub(super) use suite;

/// Keeps the writer inside an operation until it is released, so that operations queued meanwhile form one batch.
pub(super) struct Gate {
    open: mpsc::Sender<()>,
    ticket: Ticket<()>,
}

impl Gate {
    pub fn close(meta: &Meta) -> Self {
        let (open, opened) = mpsc::channel();
        let (entered, inside) = mpsc::channel();
        let ticket = meta.write(Buffered, move |_| {
            entered.send(()).unwrap();
            opened.recv().unwrap();
            Ok(())
        });
        inside.recv().unwrap();
        Self { open, ticket }
    }

    pub fn open(self) {
        self.release().unwrap();
    }

    /// Releases the writer, and returns the answer of the operation that kept it.
    pub fn release(self) -> Result<()> {
        self.open.send(()).unwrap();
        self.ticket.wait()
    }
}

pub(super) fn put(meta: &Meta, key: &'static str, value: &'static str) -> Ticket<()> {
    meta.write(Buffered, move |txn| {
        txn.put(key.into(), value.into());
        Ok(())
    })
}

fn value_of(view: &dyn Read, key: &str) -> Option<String> {
    view.get(key.as_bytes()).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn keys(pairs: &[Pair]) -> Vec<&str> {
    pairs.iter().map(|pair| std::str::from_utf8(&pair.key).unwrap()).collect()
}

fn refusal() -> Error {
    Error::Engine { why: "as the test wants".into() }
}

pub(super) fn operation_reads_its_own_writes(fixture: &Fixture) {
    put(&fixture.meta, "b", "old").wait().unwrap();
    let seen = fixture.meta.write(Synced, |txn| {
        txn.put("a".into(), "1".into());
        txn.put("c".into(), "3".into());
        txn.delete("b".into());
        let view: &dyn Read = txn;
        Ok((value_of(view, "a"), value_of(view, "b"), view.scan(b"a", b"z", 9)?, view.scan_back(b"a", b"z", 1)?))
    });
    let (a, b, up, down) = seen.wait().unwrap();
    assert_eq!((a.as_deref(), b), (Some("1"), None));
    assert_eq!((keys(&up), keys(&down)), (vec!["a", "c"], vec!["c"]));
    assert_eq!(keys(&fixture.meta.snapshot().scan(b"", b"z", 9).unwrap()), ["a", "c"]);
}

pub(super) fn failed_operation_undoes_only_itself(fixture: &Fixture) {
    undoes_only_itself(fixture, || Err(refusal()));
}

pub(super) fn panicking_operation_undoes_only_itself(fixture: &Fixture) {
    undoes_only_itself(fixture, || panic!("as the test wants"));
}

fn undoes_only_itself(fixture: &Fixture, fail: fn() -> Result<()>) {
    let meta = &fixture.meta;
    put(meta, "old", "0").wait().unwrap();
    let commits = meta.stats().commits;
    let gate = Gate::close(meta);
    let first = put(meta, "first", "1");
    let failing = meta.write(Synced, move |txn| {
        txn.put("first".into(), "spoiled".into());
        txn.put("first".into(), "spoiled again".into());
        txn.put("new".into(), "spoiled".into());
        txn.delete("old".into());
        txn.after_commit(Box::new(|| unreachable!("a failed operation has no action")));
        fail()
    });
    let last = meta.write(Buffered, |txn| {
        let seen = (value_of(txn, "first"), value_of(txn, "new"), value_of(txn, "old"));
        txn.put("last".into(), "3".into());
        Ok(seen)
    });
    gate.open();
    first.wait().unwrap();
    let error = failing.wait().unwrap_err();
    assert!(matches!(&error, Error::Engine { why } if why.contains("as the test wants")), "{error}");
    assert_eq!(last.wait().unwrap(), (Some("1".into()), None, Some("0".into())));
    assert_eq!(meta.stats().commits, commits + 1, "they were one batch");
    assert_eq!(meta.stats().failures, 1);
    assert_eq!(keys(&meta.snapshot().scan(b"", b"z", 9).unwrap()), ["first", "last", "old"]);
}

pub(super) fn operations_run_in_order(fixture: &Fixture) {
    let mut tickets = Vec::new();
    for number in 0..3000_u32 {
        tickets.push(fixture.meta.write(Buffered, move |txn| {
            let last = txn.get(b"last")?.map_or(0, |last| u32::from_be_bytes(last[..].try_into().unwrap()));
            txn.put("last".into(), (number + 1).to_be_bytes().into());
            Ok(last)
        }));
    }
    for (expected, ticket) in (0..).zip(tickets) {
        assert_eq!(ticket.wait().unwrap(), expected);
    }
    assert_eq!(fixture.meta.stats().queue_depth, 0);
}

pub(super) fn snapshot_does_not_change(fixture: &Fixture) {
    put(&fixture.meta, "a", "before").wait().unwrap();
    let before = fixture.meta.snapshot();
    put(&fixture.meta, "a", "after").wait().unwrap();
    put(&fixture.meta, "b", "after").wait().unwrap();
    assert_eq!(value_of(&*before, "a").as_deref(), Some("before"));
    assert_eq!(keys(&before.scan(b"", b"z", 9).unwrap()), ["a"]);
    assert_eq!(value_of(&*fixture.meta.snapshot(), "a").as_deref(), Some("after"));
    let elsewhere = std::thread::spawn(move || value_of(&*before, "b"));
    assert_eq!(elsewhere.join().unwrap(), None);
}

pub(super) fn actions_run_in_commit_order_before_answers(fixture: &Fixture) {
    let meta = &fixture.meta;
    let ran = Arc::new(Mutex::new(Vec::new()));
    let gate = Gate::close(meta);
    let mut tickets = Vec::new();
    for number in 0..50 {
        let ran = Arc::clone(&ran);
        tickets.push(meta.write(Synced, move |txn| {
            txn.put(vec![b'k', number], vec![number]);
            txn.after_commit(Box::new(move || ran.lock().push(number)));
            if number % 5 == 0 { Err(refusal()) } else { Ok(number) }
        }));
    }
    gate.open();
    let answered: Vec<u8> = tickets.into_iter().filter_map(|ticket| ticket.wait().ok()).collect();
    assert_eq!(*ran.lock(), answered);
    assert_eq!(answered.len(), 40);
}

pub(super) fn synced_read_waits_for_buffered_writes(fixture: &Fixture) {
    let meta = &fixture.meta;
    let before = meta.synced_batch();
    assert!(meta.is_synced());
    put(meta, "a", "1").wait().unwrap();
    put(meta, "b", "2").wait().unwrap();
    assert_eq!(meta.synced_batch(), before);
    assert!(!meta.is_synced());
    assert!(meta.write(Synced, |txn| txn.get(b"b")).wait().unwrap().is_some());
    assert_eq!(meta.synced_batch(), before + 2);
    put(meta, "c", "3").wait().unwrap();
    meta.sync().wait().unwrap();
    assert_eq!(meta.synced_batch(), before + 3);
    assert!(meta.is_synced());
    let syncs = meta.stats().syncs;
    meta.sync().wait().unwrap();
    assert_eq!(meta.stats().syncs, syncs, "nothing was left to sync");
}

pub(super) fn buffered_write_reaches_disk_unasked(fixture: &Fixture) {
    put(&fixture.meta, "a", "1").wait().unwrap();
    await_sync(&fixture.meta);
    assert_eq!(fixture.meta.synced_batch(), 1);
}

/// Waits until all that was answered is on disk, at most as long as is promised, plus the time of the sync itself,
/// which depends on the test's disk.
fn await_sync(meta: &Meta) {
    let (started, before) = (Instant::now(), meta.stats().sync_time_us);
    while !meta.is_synced() {
        assert!(started.elapsed() < Duration::from_secs(60), "nobody syncs");
        std::thread::sleep(Duration::from_millis(20));
    }
    let syncing = Duration::from_micros(meta.stats().sync_time_us - before);
    assert!(started.elapsed() < syncing + Duration::from_secs(4), "3 s are promised");
}

pub(super) fn close_answers_all(fixture: &Fixture) {
    let meta = &fixture.meta;
    let gate = Gate::close(meta);
    let queued: Vec<_> = (0..2000_u16)
        .map(|number| {
            meta.write(Buffered, move |txn| {
                txn.put([&b"k"[..], &number.to_be_bytes()].concat(), Vec::new());
                Ok(number)
            })
        })
        .collect();
    let closing = meta.clone();
    let closer = std::thread::spawn(move || closing.close());
    gate.open();
    for (number, ticket) in (0..).zip(queued) {
        assert_eq!(ticket.wait().unwrap(), number);
    }
    closer.join().unwrap();
    let batch = meta.synced_batch();
    assert!(batch >= 2, "2000 operations are more than a batch takes; {batch} are on disk");
    assert!(matches!(put(meta, "late", "").wait(), Err(Error::Engine { .. })));
    assert!(matches!(meta.sync().wait(), Err(Error::Engine { .. })));
    assert_eq!(meta.snapshot().scan(b"k", b"l", usize::MAX).unwrap().len(), 2000);
    meta.close();
}

pub(super) fn engine_keys_are_refused_and_hidden(fixture: &Fixture) {
    let meta = &fixture.meta;
    for key in ["", "\0", "\0batch"] {
        let refused = meta.write(Synced, move |txn| {
            txn.put("beside".into(), Vec::new());
            txn.put(key.into(), Vec::new());
            Ok(())
        });
        assert!(matches!(refused.wait(), Err(Error::Invalid { .. })));
        let refused = meta.write(Synced, move |txn| {
            txn.delete(key.into());
            Ok(())
        });
        assert!(matches!(refused.wait(), Err(Error::Invalid { .. })));
    }
    put(meta, "a", "1").wait().unwrap();
    let view = meta.snapshot();
    assert_eq!(keys(&view.scan(b"", b"\xff", 9).unwrap()), ["a"]);
    assert_eq!(keys(&view.scan_back(b"", b"\xff", 9).unwrap()), ["a"]);
    assert_eq!(view.scan(b"z", b"a", 9).unwrap(), []);
    assert_eq!(view.scan_back(b"a", b"a", 9).unwrap(), []);
    assert_eq!(view.scan(b"a", b"z", 0).unwrap(), []);
}

pub(super) fn reading_commits_nothing(fixture: &Fixture) {
    let commits = fixture.meta.stats().commits;
    fixture.meta.write(Buffered, |txn| txn.scan(b"a", b"z", 1)).wait().unwrap();
    fixture.meta.write(Synced, |txn| txn.get(b"a")).wait().unwrap();
    let stats = fixture.meta.stats();
    assert_eq!((stats.commits, stats.syncs), (commits, 0));
    assert_eq!(stats.operations, 2);
}

pub(super) fn tickets_can_be_awaited(fixture: &Fixture) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        put(&fixture.meta, "a", "1").await.unwrap();
        fixture.meta.sync().await.unwrap();
    });
    assert_eq!(value_of(&*fixture.meta.snapshot(), "a").as_deref(), Some("1"));
}

pub(super) fn operation_may_close_the_engine(fixture: &Fixture) {
    let inner = fixture.meta.clone();
    let ticket = fixture.meta.write(Synced, move |txn| {
        txn.put("a".into(), "1".into());
        inner.close();
        Ok(())
    });
    ticket.wait().unwrap();
}

pub(super) fn what_is_rolled_back_leaves_nothing(fixture: &Fixture) {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let ran = Arc::clone(&ran);
        Box::new(move || ran.lock().push(what))
    };
    let (kept, dropped) = (note("kept"), note("dropped"));
    let ticket = fixture.meta.write(Synced, move |txn| {
        txn.put("a".into(), "1".into());
        txn.after_commit(kept);
        let mark = txn.mark();
        txn.put("a".into(), "2".into());
        txn.put("\0refused".into(), Vec::new());
        txn.put("b".into(), "2".into());
        txn.after_commit(dropped);
        txn.roll_back(mark);
        txn.put("c".into(), "3".into());
        Ok(())
    });
    ticket.wait().unwrap();
    let view = fixture.meta.snapshot();
    assert_eq!(keys(&view.scan(b"", b"\xff", 9).unwrap()), ["a", "c"]);
    assert_eq!(value_of(&*view, "a").as_deref(), Some("1"));
    assert_eq!(*ran.lock(), ["kept"]);
    let refused = fixture.meta.write(Synced, |txn| {
        txn.put(Vec::new(), Vec::new());
        let mark = txn.mark();
        txn.roll_back(mark);
        Ok(())
    });
    assert!(
        matches!(refused.wait(), Err(Error::Invalid { .. })),
        "the refusal before the mark still fails the transaction"
    );
}
