//! A backend whose durability is a log on other machines; the engine below it is this server's copy.
//!
//! - Each batch is an entry of the log, with the batch's number. An entry names the content of the one before it, so two
//!   copies that have the same last entry are equal.
//! - A synced commit is in the log before it is visible here. A buffered one is visible first, and appended in order
//!   behind; a sync waits until the log has it. The copy itself is never synced.
//! - Until the log has acknowledged a buffered batch, the copy keeps its entry under a key of the engine's own.
//! - After the first append that failed, every commit and sync fails: the writer poisons the store, and this server has
//!   stepped down. So has it when another server takes the log over, or when the lease ended unrenewed. [`Lost`] learns
//!   the reason.
//! - After the loss, answers are withheld for a time that [`Place`] sets: the process may be replaced meanwhile.
//! - A read counts only if the lease is known to hold after it: another server may have written since. Without a lease,
//!   reads and commits wait for [`LEASE_WAIT`] and are then refused as busy.
//! - While the log is [`LAG_MAX`] behind, operations are refused as busy before they are queued.
//!
//! | module | job |
//! | --- | --- |
//! | `follow` | a copy that follows the log of another owner, until this server becomes the owner |
//! | `joint` | where a copy and the log part |
//! | `checkpoint` | copies of the whole store outside the log, behind which the log is trimmed |
//! | `entry`, `position` | the bytes of an entry; what a copy records about itself |
//! | `leased` | snapshots that are read under the lease |
//! | `place` | the log, the claim and the lease |
//!
//! A crash of the process leaves a copy with every answered batch; entries that the log lacks are appended at the next
//! opening, unless another server has written meanwhile. The loss of the copy leaves the log: every batch of an answered
//! synced commit or sync, and perhaps later ones.

mod checkpoint;
mod entry;
mod follow;
mod joint;
mod leased;
mod place;
mod position;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use objstore_base::error::{Error, Result};
use objstore_log::appender::Appender;
use objstore_log::keeper::Keeper;
use objstore_log::{Epoch, Log};
use parking_lot::Mutex;

use self::leased::{Leased, Withheld};
use self::position::{Position, unshipped_key};
use super::backend::{BATCH_KEY, Backend, Changes, decode_batch};
use super::engine::Durability;
use super::stats::LogStats;
use super::txn::Snapshot;

pub(super) use self::checkpoint::{Link, Linked, Taker, Worker, restore};
pub use self::follow::{Claimed, Followed};
pub(super) use self::follow::{Follower, Start};
pub use self::place::{Checkpoints, Lease, Lost, Place};
pub(super) use self::position::{detached, refuse_copy};

/// How far the log may be behind before operations are refused.
const LAG_MAX: Duration = Duration::from_secs(5);

/// How long a read or a commit waits for the lease to be renewed, as after a pause of the whole process.
const LEASE_WAIT: Duration = Duration::from_secs(1);

/// How many acknowledged entries a commit removes from the copy at most.
const FORGET_AT_ONCE: usize = 64;

/// A backend over the copy `B`.
pub(super) struct Shipped<B> {
    local: B,
    log: Arc<dyn Log>,
    epoch: Epoch,
    appender: Appender,
    keeper: Mutex<Option<Keeper>>,
    /// The thread of checkpoints, if there are any.
    checkpoints: Mutex<Option<Worker>>,
    /// The lease; `None` if nobody keeps it.
    lease: Option<leased::Lease>,
    withheld: Arc<Withheld>,
    /// Whether the lease is left to the next program of this process, or was released already.
    left: AtomicBool,
    /// Where the last commit left the copy. Locked by commits alone.
    position: Mutex<Position>,
    /// The number of the last batch that was committed and appended.
    last: AtomicU64,
}

impl<B: Backend> Backend for Shipped<B> {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        let snapshot = self.local.snapshot();
        match &self.lease {
            Some(lease) => Box::new(Leased::new(snapshot, lease.clone())),
            None => snapshot,
        }
    }

    fn commit(&self, mut changes: Changes, durability: Durability) -> Result<()> {
        let number = decode_batch(changes.get(BATCH_KEY).and_then(|value| value.as_deref()))?;
        let mut position = self.position.lock();
        let body = entry::encode(position.chain, &changes);
        let chain = entry::chain(&body);
        if durability == Durability::Synced {
            self.append(number, body.clone())?;
            self.answered(self.appender.wait(number))?;
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

    fn accepts(&self) -> Result<()> {
        if self.appender.lag() > LAG_MAX {
            return Err(Error::Busy { what: "the log of the metadata, which is behind,".into() });
        }
        Ok(())
    }

    fn room(&self) -> Result<()> {
        if let Some(failure) = self.appender.failure() {
            self.withheld.wait();
            return Err(Error::Poisoned { why: failure.to_string() });
        }
        self.lease.as_ref().map_or(Ok(()), leased::Lease::check)?;
        self.local.room()
    }

    fn sync(&self) -> Result<()> {
        self.answered(self.appender.wait(self.last.load(Ordering::Acquire)))
    }

    fn log(&self) -> Option<LogStats> {
        let checkpoint_batch = self.checkpoints.lock().as_ref().map_or(0, Worker::newest);
        Some(LogStats {
            last_batch: self.last.load(Ordering::Acquire),
            acknowledged_batch: self.appender.acknowledged(),
            checkpoint_batch,
            lease: self.lease.as_ref().map_or(Duration::ZERO, |lease| lease.term.remaining()),
        })
    }

    fn release(&self) {
        if self.left.swap(true, Ordering::AcqRel) {
            return;
        }
        self.withheld.end();
        drop(self.checkpoints.lock().take());
        drop(self.keeper.lock().take());
        if let Some(lease) = &self.lease {
            lease.term.end();
        }
        if self.appender.failure().is_none()
            && let Err(error) = self.log.release(self.epoch)
        {
            tracing::warn!(%error, "the log was not released; its lease ends by itself");
        }
    }

    fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }
}

impl<B> Shipped<B> {
    fn append(&self, number: u64, body: Bytes) -> Result<()> {
        self.answered(self.appender.push(number, body))
    }

    /// The outcome of a call to the appender, later if the log was lost.
    fn answered<T>(&self, outcome: objstore_log::Result<T>) -> Result<T> {
        outcome.map_err(|error| {
            if self.appender.failure().is_some() {
                self.withheld.wait();
            }
            failed(error)
        })
    }

    /// Makes checkpoints from now on, from the files that `source` links from the copy, by way of the folder `staging`.
    pub fn start_checkpoints(
        &self,
        source: impl FnOnce(&B) -> Box<dyn Link>,
        staging: PathBuf,
        Checkpoints { vault, log_bytes }: Checkpoints,
    ) -> Result<()> {
        let taker = Taker {
            source: source(&self.local),
            staging,
            vault,
            log: Arc::clone(&self.log),
            appender: self.appender.clone(),
            epoch: self.epoch,
            id: self.position.lock().id,
            known: BTreeMap::new(),
        };
        *self.checkpoints.lock() = Some(Worker::start(taker, log_bytes)?);
        Ok(())
    }
}

impl<B> Drop for Shipped<B> {
    fn drop(&mut self) {
        drop(self.checkpoints.lock().take());
        drop(self.keeper.lock().take());
        if !self.left.load(Ordering::Acquire)
            && self.appender.failure().is_none()
            && let Err(error) = self.log.release(self.epoch)
        {
            tracing::warn!(%error, "the log was not released; its lease ends by itself");
        }
    }
}

/// The store's error for one of the log.
pub(super) fn failed(error: objstore_log::Error) -> Error {
    match error {
        objstore_log::Error::Indeterminate { .. } => Error::Indeterminate { why: error.to_string() },
        objstore_log::Error::Unavailable { why } => Error::Busy { what: format!("the log ({why})") },
        other => Error::Unusable { why: other.to_string() },
    }
}

#[cfg(test)]
mod tests;
