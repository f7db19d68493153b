//! One round of the commit leader: run the queued operations, commit once, sync if any asks for it, answer all.
//!
//! - Commits are numbered from 1; each stores its number under the engine's own key, in the same batch.
//! - After-commit actions run within the round, so in commit order. Operations are answered after it, so that an
//!   answered caller finds the leader's place free.
//! - Operations that wrote nothing but have to wait for the disk do so after the round ([`syncs`](super::syncs)).
//! - The first failed commit or sync poisons the store: nothing is written after it, so the data on disk stays a
//!   prefix. The failed batch is dropped after that, so that failure handlers of its operations remove no content.
//!
//! A crash at any point leaves whole batches: see the crate's documentation.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use objstore_base::error::{Error, Result};
use parking_lot::MutexGuard;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::backend::{BATCH_KEY, Backend, Changes, encode_batch};
use super::batch::{Answers, Batch, guarded};
use super::engine::Durability;
use super::queue::Request;
use super::shared::{Work, WriterState};

thread_local! {
    /// The number of rounds that this thread leads; more than one if they are of different stores.
    static TURNS: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread is a commit leader.
pub(super) fn is_here() -> bool {
    TURNS.get() > 0
}

/// A round of the commit leader; dropping it ends the round.
pub(super) struct Leadership<'a, B> {
    shared: &'a WriterState<B>,
    work: MutexGuard<'a, Work>,
}

impl<B> WriterState<B> {
    /// Waits until this thread is the commit leader.
    pub fn turn(&self) -> Leadership<'_, B> {
        Leadership::new(self, self.work.lock())
    }

    /// Becomes the commit leader if there is none.
    pub fn try_turn(&self) -> Option<Leadership<'_, B>> {
        Some(Leadership::new(self, self.work.try_lock()?))
    }

    /// Becomes the commit leader for an async task, if no one else seems to write and `block_in_place` works on this
    /// thread.
    pub fn try_turn_alone(&self) -> Option<Leadership<'_, B>> {
        let alone = self.last_operations.load(Ordering::Relaxed) <= 1 && self.queue.depth() <= 1;
        if alone && has_workers() { self.try_turn() } else { None }
    }

    /// Refuses new requests and drops the queued ones.
    pub fn abandon(&self) {
        self.queue.close();
        self.queue.take(&mut VecDeque::new());
    }
}

/// Whether this thread belongs to a runtime whose other workers take over the tasks of one that blocks.
fn has_workers() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

impl<'a, B> Leadership<'a, B> {
    fn new(shared: &'a WriterState<B>, work: MutexGuard<'a, Work>) -> Self {
        TURNS.set(TURNS.get() + 1);
        Self { shared, work }
    }
}

impl<B> Drop for Leadership<'_, B> {
    fn drop(&mut self) {
        TURNS.set(TURNS.get() - 1);
        if std::thread::panicking() {
            self.work.taken.clear();
            self.shared.abandon();
        }
    }
}

/// The operations written in a round, to be answered after it.
#[derive(Default)]
struct Written {
    answers: Answers,
    /// Whether what the operations read has to be synced before they are answered.
    owes_sync: bool,
}

impl<B: Backend> Leadership<'_, B> {
    /// Writes what is queued, up to one batch; returns whether any of it is left.
    pub fn take(mut self) -> bool {
        let written = self.write();
        let (shared, left) = (self.shared, !self.work.taken.is_empty());
        drop(self);
        shared.answer(written);
        left
    }

    /// Writes what is queued, up to one batch, and leaves the rest to the writer thread, because this thread has other
    /// things to do.
    pub fn take_and_call(mut self) {
        let written = self.write();
        let (shared, left) = (self.shared, !self.work.taken.is_empty());
        drop(self);
        shared.queue.call_after_turn(left, shared.deadline().is_some());
        shared.answer(written);
    }

    fn next(&mut self) -> Option<Request> {
        if self.work.taken.is_empty() {
            self.shared.queue.take(&mut self.work.taken);
        }
        let request = self.work.taken.pop_front()?;
        self.shared.queue.ran();
        Some(request)
    }

    /// Runs and commits the queued operations; returns their answers.
    fn write(&mut self) -> Written {
        let shared = self.shared;
        let Some(first) = self.next() else { return Written::default() };
        if let Err(refusal) = shared.poison.check().and_then(|()| shared.backend.room()) {
            return Written { answers: self.refuse(first, &refusal), owes_sync: false };
        }
        let base = shared.backend.snapshot();
        let mut batch = Batch::default();
        let mut request = Some(first);
        while let Some(Request { durability, operation, done }) = request {
            batch.run(&*base, durability, operation, done);
            request = if batch.is_full() { None } else { self.next() };
        }
        // Dropped now, so that the engine need not keep the values that this commit replaces.
        drop(base);
        let committed = self.commit(&mut batch);
        shared.last_operations.store(batch.operations(), Ordering::Relaxed);
        shared.counters.operations.fetch_add(batch.operations(), Ordering::Relaxed);
        shared.counters.failures.fetch_add(batch.failures(), Ordering::Relaxed);
        let owes_sync = batch.owes_sync();
        Written { answers: batch.finish(&committed), owes_sync }
    }

    fn refuse(&mut self, first: Request, error: &Error) -> Answers {
        let mut answers = Answers::default();
        let mut request = Some(first);
        while let Some(refused) = request {
            answers.add(refused.done, Err(error.clone()));
            request = self.next();
        }
        answers
    }

    /// Commits the batch's writes, as durably as its operations ask.
    fn commit(&mut self, batch: &mut Batch) -> Result<()> {
        let (shared, durability, bytes) = (self.shared, batch.durability(), batch.bytes());
        let Some(mut changes) = batch.take_changes() else { return Ok(()) };
        let number = self.work.last_batch + 1;
        changes.insert(Bytes::from_static(BATCH_KEY), Some(encode_batch(number)));
        // Held until this function returns: values that others have cached of these records become invalid before any
        // caller learns of the change.
        let _changing = shared.epochs.changing(&changes);
        self.store(changes, durability).map_err(|error| Error::Indeterminate { why: shared.fail(&error) })?;
        self.work.last_batch = number;
        shared.committed(number, durability);
        shared.counters.commits.fetch_add(1, Ordering::Relaxed);
        shared.counters.committed_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn store(&self, changes: Changes, durability: Durability) -> Result<()> {
        let started = Instant::now();
        guarded("a commit", || self.shared.backend.commit(changes, durability))?;
        let took = started.elapsed();
        self.shared.counters.committed(took);
        if durability == Durability::Synced {
            self.shared.counters.synced(took);
        }
        Ok(())
    }
}

impl<B: Backend> WriterState<B> {
    /// Answers the operations of the round.
    fn answer(&self, written: Written) {
        let synced = if written.owes_sync { self.sync() } else { Ok(()) };
        written.answers.send(&synced);
    }
}
