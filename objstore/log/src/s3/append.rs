//! Appending: the owner creates an object for each batch, several at a time.
//!
//! - The epoch is this client's alone, so its memory tells which numbers are taken. Only a seal can be at a key that this
//!   client did not write: then the epoch has ended.
//! - An append behind a gap may be acknowledged after a takeover: it lies behind the seal, so nobody reads it, like one that
//!   the takeover has removed. The append that would close the gap is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use objstore_bucket::Error as BucketError;
use parking_lot::Mutex;

use super::{S3, keys, stored, unavailable};
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::log::Done;
use crate::owner::{Epoch, LogId};

/// What this client knows about the epoch that it owns.
pub(super) struct Own {
    id: LogId,
    pub epoch: Epoch,
    /// Every entry of the epoch before it is in the log.
    pub next: u64,
    /// Whether the epoch has ended.
    pub fenced: bool,
    /// The appends from `next` on: where each begins, where it ends, and whether it is acknowledged.
    appends: BTreeMap<u64, (u64, bool)>,
}

impl Own {
    pub fn new(id: LogId, epoch: Epoch, begin: u64) -> Self {
        Self { id, epoch, next: begin, fenced: false, appends: BTreeMap::new() }
    }

    /// Begins an append; `false` if one of its numbers is taken.
    fn begin(&mut self, first: u64, end: u64) -> bool {
        let overlaps = self.appends.range(..end).next_back().is_some_and(|(_, (other, _))| *other > first);
        if first < self.next || overlaps {
            return false;
        }
        self.appends.insert(first, (end, false));
        true
    }

    fn acknowledge(&mut self, first: u64) {
        if let Some((_, acknowledged)) = self.appends.get_mut(&first) {
            *acknowledged = true;
        }
        while let Some((end, true)) = self.appends.get(&self.next).copied() {
            self.appends.remove(&self.next);
            self.next = end;
        }
    }
}

impl S3 {
    pub(super) fn create(&self, batch: &Batch, done: Done) {
        let (epoch, first) = (batch.epoch, batch.first);
        let begun = match &mut *self.own.lock() {
            Some(own) if own.epoch == epoch && !own.fenced => {
                if own.begin(first, batch.last() + 1) {
                    Ok(own.id)
                } else {
                    Err(Error::Taken { number: first })
                }
            }
            _ => Err(Error::Fenced { epoch }),
        };
        let id = match begun {
            Ok(id) => id,
            Err(error) => return done(Err(error)),
        };
        let answer = Answer { own: Arc::clone(&self.own), epoch, first, done: Some(done) };
        let then = move |outcome: objstore_bucket::Result<String>| answer.give(outcome);
        self.data.put_then(&keys::batch(epoch, first), stored::encode(id, batch), Box::new(then));
    }
}

/// The answer to an append. Dropped without an outcome, as when the client is closed, it says that none is known.
struct Answer {
    own: Arc<Mutex<Option<Own>>>,
    epoch: Epoch,
    first: u64,
    done: Option<Done>,
}

impl Answer {
    fn give(mut self, outcome: objstore_bucket::Result<String>) {
        let outcome = self.note(outcome);
        if let Some(done) = self.done.take() {
            done(outcome);
        }
    }

    fn note(&self, outcome: objstore_bucket::Result<String>) -> Result<()> {
        let mut own = self.own.lock();
        let own = own.as_mut().filter(|own| own.epoch == self.epoch);
        match outcome {
            Ok(_) => {
                own.into_iter().for_each(|own| own.acknowledge(self.first));
                Ok(())
            }
            Err(BucketError::Conflict { .. }) => {
                own.into_iter().for_each(|own| own.fenced = true);
                Err(Error::Fenced { epoch: self.epoch })
            }
            // Also a refusal may follow an attempt that was made and not answered.
            Err(error) => {
                let (Error::Unavailable { why } | Error::Unusable { why }) = unavailable(error) else {
                    unreachable!("no other errors are made")
                };
                Err(Error::Indeterminate { why })
            }
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(done) = self.done.take() {
            done(Err(Error::Indeterminate { why: "the client of the log was closed".into() }));
        }
    }
}
