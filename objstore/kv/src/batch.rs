//! A batch: the operations that are committed together.
//!
//! - Each operation sees the writes of those before it, and is undone alone if it fails or panics.
//! - No operation is answered before the whole batch is committed, because it may have seen another's writes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use objstore_base::error::{Error, Result};

use super::backend::{Changes, check_key};
use super::engine::{Done, Durability, Operation};
use super::overlay::{Direction, Overlay};
use super::txn::{Action, Mark, Pair, Read, Txn, Value};

/// The number of operations at which a batch is full.
const MAX_OPERATIONS: usize = 1024;

/// The number of bytes written at which a batch is full.
const MAX_BYTES: usize = 4 << 20;

#[derive(Default)]
pub(super) struct Batch {
    overlay: Overlay,
    actions: Vec<Action>,
    ended: Vec<(Done, Result<()>)>,
    failures: u64,
    /// Whether a successful operation waits for the disk, and whether such an operation wrote.
    synced: bool,
    synced_writes: bool,
}

impl Batch {
    /// Whether the batch takes no further operation.
    pub fn is_full(&self) -> bool {
        self.ended.len() >= MAX_OPERATIONS || self.overlay.bytes() >= MAX_BYTES
    }

    /// How the batch is to be committed: synced if an operation that wrote waits for the disk, so that no one sees its
    /// writes before they are durable.
    pub fn durability(&self) -> Durability {
        if self.synced_writes { Durability::Synced } else { Durability::Buffered }
    }

    /// Whether an operation that wrote nothing waits for the disk although the commit was not synced.
    pub fn owes_sync(&self) -> bool {
        self.synced && !self.synced_writes
    }

    /// The number of operations run so far.
    pub fn operations(&self) -> u64 {
        self.ended.len() as u64
    }

    /// The number of operations that failed so far.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// The number of bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.overlay.bytes() as u64
    }

    /// Runs `operation` on top of `base` and of what this batch has written.
    pub fn run(&mut self, base: &dyn Read, durability: Durability, operation: Operation, done: Done) {
        let mut txn = BatchTxn { base, overlay: &mut self.overlay, actions: Vec::new(), refused: None };
        let returned = guarded("an operation", || operation(&mut txn));
        let outcome = returned.and_then(|()| txn.refused.take().map_or(Ok(()), Err));
        let actions = txn.actions;
        if outcome.is_ok() {
            let synced = durability == Durability::Synced;
            self.synced |= synced;
            self.synced_writes |= synced && self.overlay.wrote();
            self.overlay.keep();
            self.actions.extend(actions);
        } else {
            self.overlay.undo();
            self.failures += 1;
        }
        self.ended.push((done, outcome));
    }

    /// Takes out what was written; `None` if nothing was.
    pub fn take_changes(&mut self) -> Option<Changes> {
        let overlay = std::mem::take(&mut self.overlay);
        (!overlay.is_empty()).then(|| overlay.into_changes())
    }

    /// Runs the after-commit actions and returns each operation's answer. If the commit failed, its error is the answer
    /// to all.
    pub fn finish(self, committed: &Result<()>) -> Answers {
        if committed.is_ok() {
            for action in self.actions {
                shielded("an action after a commit", action);
            }
        }
        let told = self.ended.into_iter().map(|(done, outcome)| (done, committed.clone().and(outcome)));
        Answers(told.collect())
    }
}

/// Each operation's answer, not sent yet.
#[derive(Default)]
pub(super) struct Answers(Vec<(Done, Result<()>)>);

impl Answers {
    /// Adds the answer of one operation.
    pub fn add(&mut self, done: Done, outcome: Result<()>) {
        self.0.push((done, outcome));
    }

    /// Sends the answers. Operations that succeeded get the result of `synced`, the sync that followed.
    pub fn send(self, synced: &Result<()>) {
        for (done, outcome) in self.0 {
            shielded("the answer to a write", || done(outcome.and(synced.clone())));
        }
    }
}

/// The transaction of one operation in a batch.
struct BatchTxn<'a> {
    base: &'a dyn Read,
    overlay: &'a mut Overlay,
    actions: Vec<Action>,
    refused: Option<Error>,
}

impl BatchTxn<'_> {
    fn set(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        match check_key(&key) {
            Ok(()) => self.overlay.set(tight(key), value.map(tight)),
            Err(error) => {
                self.refused.get_or_insert(error);
            }
        }
    }
}

impl Read for BatchTxn<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.overlay.get(self.base, key)
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>> {
        self.overlay.scan(self.base, from, to, limit, Direction::Ascending)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>> {
        self.overlay.scan(self.base, from, to, limit, Direction::Descending)
    }
}

impl Txn for BatchTxn<'_> {
    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.set(key, Some(value));
    }

    fn delete(&mut self, key: Vec<u8>) {
        self.set(key, None);
    }

    fn after_commit(&mut self, action: Action) {
        self.actions.push(action);
    }

    fn mark(&self) -> Mark {
        let (writes, bytes) = self.overlay.progress();
        Mark { writes, bytes, actions: self.actions.len(), refused: self.refused.is_some() }
    }

    fn roll_back(&mut self, mark: Mark) {
        self.overlay.undo_to((mark.writes, mark.bytes));
        self.actions.truncate(mark.actions);
        if !mark.refused {
            self.refused = None;
        }
    }
}

/// Shares `bytes` without a copy, unless much unused capacity would stay allocated with them.
fn tight(mut bytes: Vec<u8>) -> Bytes {
    if bytes.capacity() - bytes.len() > 64 + bytes.len() / 4 {
        bytes.shrink_to_fit();
    }
    bytes.into()
}

/// Runs `work`; a panic becomes its error.
pub(super) fn guarded<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<&str>().map(ToString::to_string);
        let words = words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Error::Engine { why: format!("{what} panicked: {words}") })
    })
}

/// Runs a caller's closure; a panic in it is logged and stops nothing else.
fn shielded(what: &str, closure: impl FnOnce()) {
    if let Err(error) = guarded(what, || {
        closure();
        Ok(())
    }) {
        tracing::error!(%error, "a callback of the metadata writer panicked; the writer continues");
    }
}
