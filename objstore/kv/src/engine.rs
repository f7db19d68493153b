//! The trait of a metadata engine.

use objstore_base::error::Result;
use objstore_base::ticket::Ticket;
use objstore_disk::Poison;

use super::stats::Stats;
use super::txn::{Snapshot, Txn};

/// The code of one write transaction. `Ok` commits its writes, `Err` drops them.
pub type Operation = Box<dyn FnOnce(&mut dyn Txn) -> Result<()> + Send>;

/// Receives the result of an operation. Runs on the thread that wrote, and must not block it.
pub type Done = Box<dyn FnOnce(Result<()>) + Send>;

/// When a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Once the write and everything committed before it are on disk: it survives a power cut.
    Synced,
    /// Once the operating system has the log: the write survives the death of this process, and reaches the disk within
    /// 3 s or with the next synced write.
    Buffered,
}

/// An ordered key-value store with serial write transactions and snapshots.
pub trait Engine: Send + Sync {
    /// A snapshot of the store after the last commit.
    fn snapshot(&self) -> Box<dyn Snapshot>;

    /// Queues one operation; `done` receives its result, once.
    ///
    /// # Errors
    /// These are passed to `done`:
    /// - The operation's own error: nothing was changed.
    /// - [`Error::Engine`](objstore_base::error::Error::Engine): it panicked, or the engine is closed; nothing was changed.
    /// - [`Error::Poisoned`](objstore_base::error::Error::Poisoned): an earlier write to disk failed; nothing was changed.
    /// - [`Error::Indeterminate`](objstore_base::error::Error::Indeterminate): this write to disk failed. It is not visible
    ///   now, yet may be after the store is opened again.
    ///
    /// An operation that writes nothing makes no commit; if synced, it still waits for the writes it may have read.
    fn submit(&self, durability: Durability, operation: Operation, done: Done);

    /// Queues one operation, as [`Engine::submit`] does, from a thread that waits for the result anyway: if there is no
    /// commit leader, this thread leads, and commits the operations of other callers too. Not for async workers, and
    /// not within an operation or an action.
    fn submit_here(&self, durability: Durability, operation: Operation, done: Done);

    /// Queues one operation, as [`Engine::submit`] does, from an async task that awaits the result at once: if no one
    /// else writes, its worker thread leads the commit, after handing its other tasks to another worker. Not within an
    /// operation or an action, and not with a lock held.
    fn submit_awaited(&self, durability: Durability, operation: Operation, done: Done) {
        self.submit(durability, operation, done);
    }

    /// A number that changes whenever a commit changes a key whose first byte is one of `kinds`: a value read after
    /// this call is current as long as the number is the same. `None` while such a commit is in progress.
    fn epoch(&self, kinds: &[u8]) -> Option<u64>;

    /// A ticket that is answered once everything submitted before is on disk.
    fn sync(&self) -> Ticket<()>;

    /// Returns once everything answered before is on disk. The calling thread makes the sync itself, while others
    /// commit, or waits for a sync in progress. Not for async workers, and not within an operation or an action.
    fn sync_here(&self) -> Result<()>;

    /// The record of the first failed write to disk, to be shared with the code that writes the content which records
    /// refer to. It is set before the operations of a failed commit are answered or dropped.
    fn poison(&self) -> Poison;

    /// The number of the last batch known to be on disk. It only grows, also across openings, since each commit stores
    /// its own number.
    fn synced_batch(&self) -> u64;

    /// Whether everything committed so far is on disk.
    fn is_synced(&self) -> bool;

    /// Refuses new operations, answers the queued ones, syncs and stops the writer. Snapshots stay readable, unless
    /// other servers may own the store afterwards.
    fn close(&self);

    /// Called before [`Engine::close`]: the ownership of a store that other servers could take over stays with this
    /// process, whose next program continues it.
    fn leave(&self) {}

    /// Counters since the engine was opened.
    fn stats(&self) -> Stats;
}
