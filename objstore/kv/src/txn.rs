//! Transactions and readers: the view of the store that operations have.

use bytes::Bytes;

use objstore_base::error::Result;

/// A stored value; cloning shares the bytes.
///
/// It may share a whole block of the engine's cache, so keep what was decoded from it rather than the value.
pub type Value = Bytes;

/// A callback for [`Txn::after_commit`].
pub type Action = Box<dyn FnOnce() + Send>;

/// A point in a transaction to which it can be rolled back.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub(super) writes: usize,
    pub(super) bytes: usize,
    pub(super) actions: usize,
    pub(super) refused: bool,
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The whole key.
    pub key: Bytes,
    /// Its value.
    pub value: Value,
}

/// A consistent view of the store.
///
/// Give every scan the nearest `to` that holds what is wanted: an engine walks over all deleted keys between `from` and
/// the first existing one, and stops only at `to`.
pub trait Read {
    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Value>>;

    /// Up to `limit` pairs with `from` <= key < `to`, ascending. Nothing if `from` >= `to`.
    /// The engine's own keys are left out.
    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>>;

    /// Up to `limit` pairs with `from` <= key < `to`, descending. Nothing if `from` >= `to`. The engine's own keys are
    /// left out.
    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>>;
}

/// One write transaction: it sees its own writes and those of every earlier transaction.
pub trait Txn: Read {
    /// Sets `key` to `value`.
    ///
    /// A key the engine cannot hold (empty, over 65,535 bytes, or one of its own) fails the whole transaction with
    /// [`Error::Invalid`](objstore_base::error::Error::Invalid) when it ends; the same goes for [`Txn::delete`].
    fn put(&mut self, key: Vec<u8>, value: Vec<u8>);

    /// Removes `key`; an absent key is no error.
    fn delete(&mut self, key: Vec<u8>);

    /// Runs `action` after the commit, on the thread that writes, in commit order, before the ticket is answered.
    /// Not run if the transaction or the commit fails. It must be short and must not wait for a ticket: the
    /// writer waits for it.
    fn after_commit(&mut self, action: Action);

    /// The current point of the transaction.
    fn mark(&self) -> Mark;

    /// Undoes what was written, refused and registered since `mark`, which must be of this transaction and not undone
    /// itself.
    fn roll_back(&mut self, mark: Mark);
}

/// A view of the store at one moment, which later writes do not change. Drop it soon: it keeps superseded values on
/// disk.
pub trait Snapshot: Read + Send + Sync {}
