//! The owner's record: reading it, changing it by compare-and-swap, and taking the log over.
//!
//! - A lease has ended for this server once it has seen the same revision for the whole lease, and the compare-and-swap of
//!   the takeover proves that the revision is still there.

use std::time::Duration;

use objstore_bucket::Error as BucketError;

use super::append::Own;
use super::record::{RECORD_BYTES_MAX, Record, SEGMENTS_MAX, Segment};
use super::stored::{self, Stored};
use super::walk::Ahead;
use super::{S3, indeterminate, keys, random, unavailable, unknown};
use crate::error::{Error, Result};
use crate::owner::{Claim, Epoch, LogId, Tail, Tenure};

/// How often a change is tried that meets those of others.
const ATTEMPTS: usize = 16;

/// The record with its entity tag.
#[derive(Clone)]
pub(super) struct Cached {
    pub record: Record,
    etag: String,
}

/// A revision of the record, and when this client saw it first.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    revision: u64,
    at: Duration,
}

impl S3 {
    /// Makes the log if there is none, and makes sure that the store honours conditions.
    pub(super) fn prepare(&self) -> Result<()> {
        match self.fetch()? {
            Some(_) => self.probe(),
            None => {
                self.refuse_foreign()?;
                self.probe()?;
                self.make()
            }
        }
    }

    fn make(&self) -> Result<()> {
        match self.records.put(keys::OWNER, Record::new(LogId(random()?)).encode()) {
            // Another server was faster.
            Ok(_) | Err(BucketError::Conflict { .. }) => self.record().map(drop),
            Err(error) => Err(unknown(error)),
        }
    }

    fn refuse_foreign(&self) -> Result<()> {
        let listed = self.records.list("", None).map_err(unavailable)?;
        let Some(other) = listed.iter().find(|object| !object.key.starts_with("probe/")) else { return Ok(()) };
        // Another server may have made the log meanwhile, or this one by a write that it gave up.
        if self.fetch()?.is_some() {
            return Ok(());
        }
        let why = format!(
            "{} has objects and no log, such as {:?}: use a prefix that is empty, or restore the object \"{}\" of the log",
            self.place,
            other.key,
            keys::OWNER
        );
        Err(Error::Unusable { why })
    }

    /// The record as it is now.
    pub(super) fn record(&self) -> Result<Record> {
        self.current().map(|current| current.record)
    }

    fn current(&self) -> Result<Cached> {
        let why = || format!("there is no log at {}: its object \"{}\" does not exist", self.place, keys::OWNER);
        self.fetch()?.ok_or_else(|| Error::Unusable { why: why() })
    }

    /// The record as this client knows it, from the store if it knows none.
    pub(super) fn recent(&self) -> Result<Record> {
        let known = self.cached.lock().as_ref().map(|cached| cached.record.clone());
        known.map_or_else(|| self.record(), Ok)
    }

    /// Reads the record, and notes when its revision was seen first.
    fn fetch(&self) -> Result<Option<Cached>> {
        let object = match self.records.get(keys::OWNER, RECORD_BYTES_MAX) {
            Ok(object) => object,
            Err(BucketError::Missing { .. }) => return Ok(None),
            Err(error) => return Err(unavailable(error)),
        };
        // Counted from the answer: the renewal of this revision was sent before.
        let now = (self.clock)();
        let unusable = |why: String| Error::Unusable {
            why: format!("the object \"{}\" at {} cannot be used: {why}", keys::OWNER, self.place),
        };
        let record = Record::decode(&object.bytes).map_err(unusable)?;
        let fetched = Cached { record, etag: object.etag };
        self.see(fetched.record.revision, now);
        // It may be older than what another thread has written meanwhile; then the next change finds that and reads again.
        *self.cached.lock() = Some(fetched.clone());
        Ok(Some(fetched))
    }

    fn see(&self, revision: u64, at: Duration) {
        let mut seen = self.seen.lock();
        if seen.is_none_or(|seen| seen.revision != revision) {
            *seen = Some(Seen { revision, at });
        }
    }

    /// How long the lease in the record still lasts, as far as this client knows.
    pub(super) fn remaining(&self, record: &Record) -> Duration {
        let since = self.seen.lock().filter(|seen| seen.revision == record.revision).map(|seen| seen.at);
        let passed = since.map_or(Duration::ZERO, |at| (self.clock)().saturating_sub(at));
        if record.released { Duration::ZERO } else { record.lease.saturating_sub(passed) }
    }

    /// Changes the record as the owner of `epoch`.
    pub(super) fn change(&self, epoch: Epoch, change: impl Fn(&mut Record)) -> Result<Record> {
        for _ in 0..ATTEMPTS {
            // What this client knows of another epoch may be old.
            let known = self.cached.lock().clone().filter(|known| known.record.epoch == epoch);
            let current = known.map_or_else(|| self.current(), Ok)?;
            if current.record.epoch != epoch {
                self.lose(epoch);
                return Err(Error::Fenced { epoch });
            }
            let mut next = current.record.clone();
            change(&mut next);
            match self.swap(&current, next)? {
                Some(changed) => return Ok(changed.record),
                // Perhaps another thread of this client was faster.
                None => drop(self.fetch()?),
            }
        }
        Err(Error::Unavailable { why: format!("the record of the log at {} is changed all the time", self.place) })
    }

    /// Replaces the record; `None` if it is another one already.
    fn swap(&self, current: &Cached, mut next: Record) -> Result<Option<Cached>> {
        next.revision = current.record.revision + 1;
        let sent = (self.clock)();
        match self.records.replace(keys::OWNER, next.encode(), &current.etag) {
            Ok(etag) => {
                self.see(next.revision, sent);
                let changed = Cached { record: next, etag };
                *self.cached.lock() = Some(changed.clone());
                Ok(Some(changed))
            }
            Err(BucketError::Conflict { .. } | BucketError::Missing { .. }) => Ok(None),
            Err(error) => {
                // Whether it was changed is unknown: the next change reads it first.
                *self.cached.lock() = None;
                Err(unknown(error))
            }
        }
    }

    /// Makes the claim's server the owner.
    pub(super) fn take_over(&self, claim: &Claim) -> Result<Tenure> {
        for _ in 0..ATTEMPTS {
            let current = self.current()?;
            let record = &current.record;
            let remaining = self.remaining(record);
            if record.server != claim.server && !remaining.is_zero() {
                return Err(Error::Held { server: record.server.clone(), remaining });
            }
            if record.segments.len() + record.ended.len() >= SEGMENTS_MAX {
                let why = format!("the log at {} had {SEGMENTS_MAX} owners since it was trimmed", self.place);
                return Err(Error::Unusable { why });
            }
            let mut next = record.clone();
            next.epoch += 1;
            (next.server, next.lease, next.released) = (claim.server.clone(), claim.lease, false);
            if let Some(claimed) = self.swap(&current, next)?
                && let Some(tenure) = self.open_epoch(&claimed)?
            {
                return Ok(tenure);
            }
        }
        Err(Error::Unavailable { why: format!("many servers claim the log at {} at the same time", self.place) })
    }

    /// Seals the epoch before the one that was claimed, and opens this one behind it; `None` if another server has claimed
    /// the log meanwhile.
    fn open_epoch(&self, claimed: &Cached) -> Result<Option<Tenure>> {
        let begin = match claimed.record.open() {
            Some(open) => self.seal(&claimed.record, open).map_err(indeterminate)?,
            None => claimed.record.first,
        };
        let mut next = claimed.record.clone();
        next.begin_segment(begin);
        let Some(Cached { record: opened, .. }) = self.swap(claimed, next)? else { return Ok(None) };
        *self.own.lock() = Some(Own::new(opened.id, opened.epoch, begin));
        let tail = Tail { id: opened.id, first: opened.first, next: begin };
        Ok(Some(Tenure { epoch: opened.epoch, tail }))
    }

    /// Creates the seal of the open segment, at the first number without a batch; returns that number.
    fn seal(&self, record: &Record, open: Segment) -> Result<u64> {
        let (mut ahead, mut at) = (Ahead::default(), self.known_end(record, open));
        let mut conflicts = 0;
        while conflicts < ATTEMPTS {
            match self.load(record.id, (open.epoch, at), &mut ahead)? {
                Some(Stored::Seal) => return Ok(at),
                Some(Stored::Batch(entries)) => {
                    at += entries.len() as u64;
                    self.know(open.epoch, at);
                    continue;
                }
                None => {}
            }
            match self.data.put(&keys::batch(open.epoch, at), stored::seal(record.id, open.epoch, at)) {
                Ok(_) => return Ok(at),
                // The former owner was faster, or another server that seals; both are read.
                Err(BucketError::Conflict { .. }) => (ahead, conflicts) = (Ahead::default(), conflicts + 1),
                Err(error) => return Err(unknown(error)),
            }
        }
        Err(Error::Unavailable {
            why: format!("the S3 store at {} refuses a seal and shows no object there", self.place),
        })
    }

    /// Notes that the epoch has ended.
    pub(super) fn lose(&self, epoch: Epoch) {
        if let Some(own) = self.own.lock().as_mut().filter(|own| own.epoch == epoch) {
            own.fenced = true;
        }
    }

    /// The number behind the entries of `epoch` that this client has appended without a gap; 0 for another epoch.
    pub(super) fn next_of(&self, epoch: Epoch) -> u64 {
        self.own.lock().as_ref().filter(|own| own.epoch == epoch).map_or(0, |own| own.next)
    }
}
