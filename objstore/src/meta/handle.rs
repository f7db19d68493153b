//! The cheap handle to an engine that all callers use.

use std::sync::Arc;

use parking_lot::Mutex;

use super::engine::{Done, Durability, Engine, Operation};
use super::stats::Stats;
use super::txn::{Snapshot, Txn};
use crate::disk::Poison;
use crate::error::{Error, Result};
use crate::ticket::Ticket;

/// A shared engine. Clones are the same store; when the last is dropped, the engine closes.
#[derive(Clone)]
pub struct Meta(Arc<dyn Engine>);

impl Meta {
    /// A handle on `engine`.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self(engine)
    }

    /// The store after the last commit.
    pub fn snapshot(&self) -> Box<dyn Snapshot> {
        self.0.snapshot()
    }

    /// Queues `f` as one write transaction. Its value is answered once the write is as durable as asked.
    /// The errors are those of [`Engine::submit`].
    pub fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        f: impl FnOnce(&mut dyn Txn) -> Result<T> + Send + 'static,
    ) -> Ticket<T> {
        let (operation, done, ticket) = packed(f);
        self.0.submit(durability, operation, done);
        ticket
    }

    /// The same for an async task that awaits the answer at once. While nobody else writes, the task's worker does; see
    /// [`Engine::submit_awaited`] for who may not. `f` may run on the thread of another caller.
    pub fn write_awaited<T: Send + 'static>(
        &self,
        durability: Durability,
        f: impl FnOnce(&mut dyn Txn) -> Result<T> + Send + 'static,
    ) -> Ticket<T> {
        let (operation, done, ticket) = packed(f);
        self.0.submit_awaited(durability, operation, done);
        ticket
    }

    /// The same, and waits for the answer. While nobody else writes, this thread does, which is faster than to have it
    /// done; see [`Engine::submit_here`] for who may not. `f` may run on the thread of another caller.
    pub fn transact<T: Send + 'static>(
        &self,
        durability: Durability,
        f: impl FnOnce(&mut dyn Txn) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (operation, done, ticket) = packed(f);
        self.0.submit_here(durability, operation, done);
        ticket.wait()
    }

    /// The same as long as no key that begins with one of `kinds` changes; see [`Engine::epoch`].
    pub fn epoch(&self, kinds: &[u8]) -> Option<u64> {
        self.0.epoch(kinds)
    }

    /// Answers once everything written before is on disk.
    pub fn sync(&self) -> Ticket<()> {
        self.0.sync()
    }

    /// Returns once everything answered before is on disk; see [`Engine::sync_here`] for who may not call it.
    pub fn sync_here(&self) -> Result<()> {
        self.0.sync_here()
    }

    /// The first failed write to disk, if there was one: since then all writes are refused.
    pub fn poisoned(&self) -> Option<String> {
        self.poison().why()
    }

    /// The memory of it; see [`Engine::poison`].
    pub fn poison(&self) -> Poison {
        self.0.poison()
    }

    /// The number of the last batch known to be on disk; see [`Engine::synced_batch`].
    pub fn synced_batch(&self) -> u64 {
        self.0.synced_batch()
    }

    /// Whether everything that was answered so far is on disk; see [`Engine::is_synced`].
    pub fn is_synced(&self) -> bool {
        self.0.is_synced()
    }

    /// Answers what is queued, syncs and stops the writer. Reads go on.
    pub fn close(&self) {
        self.0.close();
    }

    /// What the engine did since it was opened.
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }
}

/// `f` as an operation, and the ticket its value is answered on.
fn packed<T: Send + 'static>(
    f: impl FnOnce(&mut dyn Txn) -> Result<T> + Send + 'static,
) -> (Operation, Done, Ticket<T>) {
    let (answer, ticket) = Ticket::pair();
    let value = Arc::new(Mutex::new(None));
    let result = Arc::clone(&value);
    let operation: Operation = Box::new(move |txn| {
        let returned = f(txn)?;
        *value.lock() = Some(returned);
        Ok(())
    });
    let done: Done = Box::new(move |outcome| {
        let unanswered = || Error::Engine { why: "it reported an operation done that never ran".into() };
        answer.send(outcome.and_then(|()| result.lock().take().ok_or_else(unanswered)));
    });
    (operation, done, ticket)
}
