//! The cheap handle to an engine that all callers use.

use std::sync::Arc;

use objstore_base::error::{Error, Result};
use objstore_base::ticket::Ticket;
use objstore_disk::Poison;
use parking_lot::Mutex;

use super::engine::{Done, Durability, Engine, Operation};
use super::stats::Stats;
use super::txn::{Snapshot, Txn};

/// A shared handle to an engine. Clones refer to the same store; dropping the last one closes the engine.
#[derive(Clone)]
pub struct Meta(Arc<dyn Engine>);

impl Meta {
    /// A handle to `engine`.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self(engine)
    }

    /// A snapshot of the store after the last commit.
    pub fn snapshot(&self) -> Box<dyn Snapshot> {
        self.0.snapshot()
    }

    /// Queues `f` as one write transaction. The ticket is answered with its value once the write is as durable as
    /// asked.
    ///
    /// # Errors
    /// Those of [`Engine::submit`].
    pub fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        f: impl FnOnce(&mut dyn Txn) -> Result<T> + Send + 'static,
    ) -> Ticket<T> {
        let (operation, done, ticket) = packed(f);
        self.0.submit(durability, operation, done);
        ticket
    }

    /// Queues `f` as one write transaction, for an async task that awaits the ticket at once. If no one else writes,
    /// the task's worker thread leads the commit; [`Engine::submit_awaited`] says who may not call this. `f` may run on
    /// another caller's thread.
    ///
    /// # Errors
    /// Those of [`Engine::submit`].
    pub fn write_awaited<T: Send + 'static>(
        &self,
        durability: Durability,
        f: impl FnOnce(&mut dyn Txn) -> Result<T> + Send + 'static,
    ) -> Ticket<T> {
        let (operation, done, ticket) = packed(f);
        self.0.submit_awaited(durability, operation, done);
        ticket
    }

    /// Runs `f` as one write transaction and waits for its result. If there is no commit leader, this thread leads,
    /// which is faster than a switch to the writer thread; [`Engine::submit_here`] says who may not call this. `f` may
    /// run on another caller's thread.
    ///
    /// # Errors
    /// Those of [`Engine::submit`].
    pub fn transact<T: Send + 'static>(
        &self,
        durability: Durability,
        f: impl FnOnce(&mut dyn Txn) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (operation, done, ticket) = packed(f);
        self.0.submit_here(durability, operation, done);
        ticket.wait()
    }

    /// A number that changes whenever a commit changes a key whose first byte is one of `kinds`; see [`Engine::epoch`].
    pub fn epoch(&self, kinds: &[u8]) -> Option<u64> {
        self.0.epoch(kinds)
    }

    /// A ticket that is answered once everything written before is on disk.
    pub fn sync(&self) -> Ticket<()> {
        self.0.sync()
    }

    /// Returns once everything answered before is on disk; [`Engine::sync_here`] says who may not call this.
    pub fn sync_here(&self) -> Result<()> {
        self.0.sync_here()
    }

    /// The first failed write to disk, if there was one: since then all writes are refused.
    pub fn poisoned(&self) -> Option<String> {
        self.poison().why()
    }

    /// The shared record of the first failed write to disk; see [`Engine::poison`].
    pub fn poison(&self) -> Poison {
        self.0.poison()
    }

    /// The number of the last batch known to be on disk; see [`Engine::synced_batch`].
    pub fn synced_batch(&self) -> u64 {
        self.0.synced_batch()
    }

    /// Whether everything answered so far is on disk; see [`Engine::is_synced`].
    pub fn is_synced(&self) -> bool {
        self.0.is_synced()
    }

    /// Answers the queued operations, syncs and stops the writer. Reads continue.
    pub fn close(&self) {
        self.0.close();
    }

    /// Leaves the ownership of the store to the next program of this process; see [`Engine::leave`].
    pub fn leave(&self) {
        self.0.leave();
    }

    /// Counters since the engine was opened.
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }
}

/// Wraps `f` as an operation, with the ticket on which its value is answered.
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
        let unanswered = || Error::Engine { why: "it reported the end of an operation that never ran".into() };
        answer.send(outcome.and_then(|()| result.lock().take().ok_or_else(unanswered)));
    });
    (operation, done, ticket)
}
