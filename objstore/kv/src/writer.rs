//! The writer: group commit by a commit leader, which takes all queued operations, commits once, syncs once and answers
//! all.
//!
//! - There is one leader at a time. A thread of the engine leads for callers that cannot wait; a caller that waits
//!   anyway leads itself if no one else does, which saves two thread switches. Either way operations run in queue
//!   order.
//! - An async task leads only if no one else seems to write: under load the thread makes larger batches, and each sync
//!   covers more of them.
//! - No queued operation is left behind: the leader checks the queue once more after its round, and a caller that finds
//!   a leader has queued before.
//! - The thread syncs buffered commits within [`SYNC_AFTER`], unless another sync covers them first.
//! - [`leader`](super::leader) describes a round, [`syncs`](super::syncs) the syncs outside of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use objstore_base::error::{Error, Result};
use objstore_base::ticket::Ticket;
use objstore_disk::Poison;
use parking_lot::Mutex;

use super::backend::Backend;
use super::engine::{Done, Durability, Engine, Operation};
use super::leader;
use super::queue::{Refusal, Request, Wake};
use super::shared::WriterState;
use super::stats::Stats;
use super::txn::Snapshot;

/// How long a buffered commit waits for another sync to cover it; the promise of 3 s leaves room for the sync itself.
pub(super) const SYNC_AFTER: Duration = Duration::from_secs(2);

/// An engine over the backend `B`. Dropping it closes it.
pub(super) struct Writer<B: Backend> {
    shared: Arc<WriterState<B>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<B: Backend> Writer<B> {
    /// Starts the writer thread over `backend`, all of whose content is on disk.
    pub fn start(backend: B) -> Result<Self> {
        let shared = Arc::new(WriterState::new(backend, SYNC_AFTER)?);
        let thread = Thread(Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("meta-writer".into())
            .spawn(move || thread.run())
            .map_err(|source| Error::io("starting the metadata writer thread", source))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Queues an operation. If it is refused, answers it with the reason and returns false.
    fn push(&self, durability: Durability, operation: Operation, done: Done) -> bool {
        if let Err(error) = self.shared.backend.accepts() {
            done(Err(error));
            return false;
        }
        let refused = self.shared.queue.push(Request { durability, operation, done }).err();
        let queued = refused.is_none();
        if let Some((why, request)) = refused {
            (request.done)(Err(match why {
                Refusal::Closed => Error::Engine { why: "the store is shutting down".into() },
                Refusal::Full => Error::Busy { what: "the queue of writes".into() },
            }));
        }
        queued
    }
}

impl<B: Backend> Engine for Writer<B> {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.shared.backend.snapshot()
    }

    fn submit(&self, durability: Durability, operation: Operation, done: Done) {
        if self.push(durability, operation, done) {
            self.shared.queue.call();
        }
    }

    fn submit_here(&self, durability: Durability, operation: Operation, done: Done) {
        if self.push(durability, operation, done) {
            // If there is another leader, that one checks the queue after its round.
            if let Some(turn) = self.shared.try_turn() {
                turn.take_and_call();
            }
        }
    }

    fn submit_awaited(&self, durability: Durability, operation: Operation, done: Done) {
        if !self.push(durability, operation, done) {
            return;
        }
        match self.shared.try_turn_alone() {
            Some(turn) => tokio::task::block_in_place(|| turn.take_and_call()),
            None => self.shared.queue.call(),
        }
    }

    fn epoch(&self, kinds: &[u8]) -> Option<u64> {
        self.shared.epochs.of(kinds)
    }

    fn sync(&self) -> Ticket<()> {
        let (answer, ticket) = Ticket::pair();
        self.submit(Durability::Synced, Box::new(|_| Ok(())), Box::new(|outcome| answer.send(outcome)));
        ticket
    }

    fn sync_here(&self) -> Result<()> {
        self.shared.sync()
    }

    fn poison(&self) -> Poison {
        self.shared.poison.clone()
    }

    fn synced_batch(&self) -> u64 {
        self.shared.synced_batch.load(Ordering::Acquire)
    }

    fn is_synced(&self) -> bool {
        // The order matters: a batch committed between these steps was not answered before.
        let committed = self.shared.committed_batch.load(Ordering::Acquire);
        self.synced_batch() >= committed && self.shared.poison.check().is_ok()
    }

    fn close(&self) {
        self.stop();
    }

    fn leave(&self) {
        self.shared.backend.leave();
    }

    fn stats(&self) -> Stats {
        Stats { log: self.shared.backend.log(), ..self.shared.counters.read(self.shared.queue.depth()) }
    }
}

impl<B: Backend> Writer<B> {
    fn stop(&self) {
        self.shared.queue.close();
        let Some(thread) = self.thread.lock().take() else { return };
        // An operation's closure may drop the last handle: then the thread cannot wait for itself, nor for the round in
        // which the handle is dropped.
        if !leader::is_here() {
            // If the thread panicked, dropping the queue answered all operations.
            let _ = thread.join();
        }
        self.shared.backend.release();
    }
}

impl<B: Backend> Drop for Writer<B> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The writer thread.
struct Thread<B>(Arc<WriterState<B>>);

impl<B: Backend> Thread<B> {
    fn run(self) {
        let shared = &self.0;
        loop {
            shared.sync_if_due();
            match shared.queue.wait(shared.deadline()) {
                Wake::Called => self.write(),
                Wake::Deadline => {}
                Wake::Closed => break,
            }
        }
        self.write();
        // A failure poisons the store; there is no caller to report it to.
        drop(shared.sync());
    }

    /// Writes until nothing is queued.
    fn write(&self) {
        while self.0.turn().take() || !self.0.queue.is_empty() {
            self.0.sync_if_due();
        }
    }
}

impl<B> Drop for Thread<B> {
    /// Ensures that no one waits for a thread that has ended: a dropped request answers its ticket.
    fn drop(&mut self) {
        self.0.abandon();
    }
}
