//! A backend whose durability is a log on other machines; the engine below it is this server's copy.
//!
//! - Each batch is an entry of the log, with the batch's number. An entry names the content of the one before it, so two
//!   copies that have the same last entry are equal.
//! - A synced commit is in the log before it is visible here. A buffered one is visible first, and appended in order
//!   behind; a sync waits until the log has it. The copy itself is never synced.
//! - Until the log has acknowledged a buffered batch, the copy keeps its entry under a key of the engine's own.
//! - After the first append that failed, every commit and sync fails: the writer poisons the store, and this server has
//!   stepped down. So has it when another server takes the log over.
//! - While the lease is not known to hold, or the log is far behind, commits are refused before they begin.
//!
//! A crash of the process leaves a copy with every answered batch; entries that the log lacks are appended at the next
//! opening, unless another server has written meanwhile. The loss of the copy leaves the log: every batch of an answered
//! synced commit or sync, and perhaps later ones.

mod entry;
mod open;
mod place;
mod position;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use objstore_base::error::{Error, Result};
use objstore_log::appender::Appender;
use objstore_log::keeper::Keeper;
use objstore_log::{Epoch, Log};
use parking_lot::Mutex;

use self::position::{Position, unshipped_key};
use super::backend::{BATCH_KEY, Backend, Changes, decode_batch};
use super::engine::Durability;
use super::txn::Snapshot;

pub(super) use self::open::Start;
pub use self::place::{Lease, Place};

/// How far the log may be behind before commits are refused.
const LAG_MAX: Duration = Duration::from_secs(10);

/// How many acknowledged entries a commit removes from the copy at most.
const FORGET_AT_ONCE: usize = 64;

/// A backend over the copy `B`.
pub(super) struct Shipped<B> {
    local: B,
    log: Arc<dyn Log>,
    epoch: Epoch,
    appender: Appender,
    keeper: Option<Keeper>,
    /// Where the last commit left the copy. Locked by commits alone.
    position: Mutex<Position>,
    /// The number of the last batch that was committed and appended.
    last: AtomicU64,
}

impl<B: Backend> Backend for Shipped<B> {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.local.snapshot()
    }

    fn commit(&self, mut changes: Changes, durability: Durability) -> Result<()> {
        let number = decode_batch(changes.get(BATCH_KEY).and_then(|value| value.as_deref()))?;
        let mut position = self.position.lock();
        let body = entry::encode(position.chain, &changes);
        let chain = entry::chain(&body);
        if durability == Durability::Synced {
            self.append(number, body.clone())?;
            self.appender.wait(number).map_err(failed)?;
        }
        for acknowledged in position.forget(self.appender.acknowledged(), FORGET_AT_ONCE) {
            changes.insert(unshipped_key(acknowledged), None);
        }
        if durability == Durability::Buffered {
            changes.insert(unshipped_key(number), Some(body.clone()));
            position.unshipped.push_back(number);
        }
        (position.last, position.chain) = (number, chain);
        let (key, value) = position.record();
        changes.insert(key, Some(value));
        self.local.commit(changes, Durability::Buffered)?;
        if durability == Durability::Buffered {
            self.append(number, body)?;
        }
        self.last.store(number, Ordering::Release);
        Ok(())
    }

    fn room(&self) -> Result<()> {
        if let Some(failure) = self.appender.failure() {
            return Err(Error::Poisoned { why: failure.to_string() });
        }
        if self.keeper.as_ref().is_some_and(|keeper| !keeper.holds()) {
            return Err(Error::Busy { what: "the log, whose lease could not be renewed,".into() });
        }
        if self.appender.lag() > LAG_MAX {
            return Err(Error::Busy { what: "the log, which is behind,".into() });
        }
        self.local.room()
    }

    fn sync(&self) -> Result<()> {
        self.appender.wait(self.last.load(Ordering::Acquire)).map_err(failed)
    }
}

impl<B> Shipped<B> {
    fn append(&self, number: u64, body: Bytes) -> Result<()> {
        self.appender.push(number, body).map_err(failed)
    }
}

impl<B> Drop for Shipped<B> {
    fn drop(&mut self) {
        drop(self.keeper.take());
        if self.appender.failure().is_none()
            && let Err(error) = self.log.release(self.epoch)
        {
            tracing::warn!(%error, "the log was not released; its lease ends by itself");
        }
    }
}

/// The store's error for one of the log.
fn failed(error: objstore_log::Error) -> Error {
    match error {
        objstore_log::Error::Indeterminate { .. } => Error::Indeterminate { why: error.to_string() },
        other => Error::Unusable { why: other.to_string() },
    }
}

#[cfg(test)]
mod tests;
