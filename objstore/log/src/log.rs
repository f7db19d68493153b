//! The trait of a log's engine.

use std::time::Duration;

use crate::batch::{Batch, Entry, Limit};
use crate::error::Result;
use crate::owner::{Claim, Epoch, Tail, Tenure};
use crate::standing::Standing;

/// Receives the result of an append. May run on any thread, also within [`Log::append`], and must not block it.
pub type Done = Box<dyn FnOnce(Result<()>) + Send>;

/// A fenced log; see the crate's documentation for what holds. All methods except [`Log::append`] may block.
pub trait Log: Send + Sync {
    /// Makes a server the owner: if the log is new or was released, if the owner's lease has ended, or if the owner has
    /// the server's name. Removes entries behind a gap, which were never acknowledged.
    ///
    /// # Errors
    /// - [`Error::Held`](crate::Error::Held): another server's lease has not ended.
    /// - [`Error::Indeterminate`](crate::Error::Indeterminate): the log may be the caller's; it may call again.
    fn fence(&self, claim: &Claim) -> Result<Tenure>;

    /// Begins the owner's lease again.
    ///
    /// # Errors
    /// [`Error::Fenced`](crate::Error::Fenced): the epoch has ended.
    fn renew(&self, epoch: Epoch) -> Result<()>;

    /// Ends the owner's lease, so that another server need not wait for its end. The epoch lasts until the next
    /// [`Log::fence`].
    ///
    /// # Errors
    /// [`Error::Fenced`](crate::Error::Fenced): the epoch has ended.
    fn release(&self, epoch: Epoch) -> Result<()>;

    /// Appends entries. Several appends may be under way, at most [`MAX_UNDER_WAY`](crate::MAX_UNDER_WAY); they may
    /// reach the log in another order, so an append is acknowledged to the outside only after all before it.
    ///
    /// # Errors
    /// These are passed to `done`:
    /// - [`Error::Fenced`](crate::Error::Fenced): the epoch has ended; nothing was inserted.
    /// - [`Error::Taken`](crate::Error::Taken): the log has one of these numbers; nothing was inserted.
    /// - [`Error::Indeterminate`](crate::Error::Indeterminate): the entries may be in the log, or may arrive as long as
    ///   the epoch lasts.
    fn append(&self, batch: Batch, done: Done);

    /// The entries from `number` on, without a gap; none if the log ends before it.
    ///
    /// What it returns is final only for the owner, after [`Log::fence`]: another reader may see entries that the next
    /// owner removes.
    ///
    /// # Errors
    /// [`Error::Trimmed`](crate::Error::Trimmed): an entry from `number` on was trimmed.
    fn read_from(&self, number: u64, limit: Limit) -> Result<Vec<Entry>>;

    /// Removes the entries below `below`, at once for readers, and from the engine's disk as its units allow. The last
    /// entry always stays: its number and content identify the end of the log.
    ///
    /// # Errors
    /// - [`Error::Fenced`](crate::Error::Fenced): the epoch has ended.
    /// - [`Error::Invalid`](crate::Error::Invalid): the log has no entry `below`.
    fn trim(&self, epoch: Epoch, below: u64) -> Result<()>;

    /// Where the log begins and ends now.
    fn tail(&self) -> Result<Tail>;

    /// Notes that the server named `server` follows the log and has its entries up to `at`. It is not durable.
    fn announce(&self, server: &str, at: u64) -> Result<()>;

    /// The owner, and the other servers that announced themselves `within` this time.
    fn standing(&self, within: Duration) -> Result<Standing>;

    /// Works on appends that are under way, for an engine without threads of its own. Called again and again by a
    /// caller that waits for one; returns whether there was anything to do.
    fn drive(&self) -> bool {
        false
    }
}
