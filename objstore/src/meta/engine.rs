//! The trait of a metadata engine.

use super::stats::Stats;
use super::txn::{Snapshot, Txn};
use crate::disk::Poison;
use crate::error::Result;
use crate::ticket::Ticket;

/// One write transaction's code. What it returns decides: `Ok` commits its writes, `Err` drops them.
pub type Operation = Box<dyn FnOnce(&mut dyn Txn) -> Result<()> + Send>;

/// Hears how an operation ended; runs on the thread that wrote and must not block it.
pub type Done = Box<dyn FnOnce(Result<()>) + Send>;

/// When a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Once the write, and everything committed before it, is on disk: it survives a power cut.
    Synced,
    /// Once the log is handed to the operating system: it survives the death of this process, and reaches the disk
    /// within 3 s, or with the next synced write.
    Buffered,
}

/// An ordered key-value store with serial write transactions and snapshots.
pub trait Engine: Send + Sync {
    /// The store after the last commit.
    fn snapshot(&self) -> Box<dyn Snapshot>;

    /// Queues one operation; its end is told once through `done`.
    ///
    /// - The operation's own error: nothing was changed.
    /// - [`Error::Engine`](crate::error::Error::Engine): it panicked, or the engine is closed; nothing was changed.
    /// - [`Error::Poisoned`](crate::error::Error::Poisoned): an earlier write to disk failed; nothing was changed.
    /// - [`Error::Indeterminate`](crate::error::Error::Indeterminate): this write to disk failed. It is not visible
    ///   now, yet may be after the store is opened again.
    ///
    /// An operation that writes nothing makes no commit; if synced, it still waits for the writes it may have read.
    fn submit(&self, durability: Durability, operation: Operation, done: Done);

    /// The same from a thread that waits for the end anyway: while nobody else writes, it does, and that of others too.
    /// Not for async workers, and not within an operation or an action.
    fn submit_here(&self, durability: Durability, operation: Operation, done: Done);

    /// The same from an async task that waits for the end at once: while nobody else writes, its worker does, having
    /// handed its other tasks on. Not within an operation or an action, and not with a lock held.
    fn submit_awaited(&self, durability: Durability, operation: Operation, done: Done) {
        self.submit(durability, operation, done);
    }

    /// A number that stays the same as long as no key that begins with one of `kinds` is changed by a commit, so that
    /// what is read after it was asked for holds while it does. `None` while such a commit is under way.
    fn epoch(&self, kinds: &[u8]) -> Option<u64>;

    /// Answers once everything submitted before is on disk.
    fn sync(&self) -> Ticket<()>;

    /// Returns once everything answered before is on disk. Who calls it syncs himself, while others write, or waits for
    /// who does. Not for async workers, and not within an operation or an action.
    fn sync_here(&self) -> Result<()>;

    /// The memory of the first failed write to disk, to be shared with what writes the content that records name. It is
    /// set before the operations of a failed commit are answered or dropped.
    fn poison(&self) -> Poison;

    /// The number of the last batch known to be on disk. It only grows, also across openings, since each commit
    /// stores its own.
    fn synced_batch(&self) -> u64;

    /// Whether everything committed so far is on disk.
    fn is_synced(&self) -> bool;

    /// Refuses new operations, answers those queued, syncs and stops the writer. Snapshots stay readable.
    fn close(&self);

    /// What the engine did since it was opened.
    fn stats(&self) -> Stats;
}
