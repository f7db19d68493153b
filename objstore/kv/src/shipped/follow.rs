//! A copy that follows the log: a standby does so until it becomes the owner, and an owner begins with it.
//!
//! - What a standby reads of the log may be removed by the next owner only behind what is acknowledged; the chain of
//!   entries tells, and then the copy is made again.
//! - The lease is kept from the moment at which the log becomes this server's, also while its end is replayed.
//! - A damaged copy is made again, and so is one that does not continue the log. One of another log, or of none, is
//!   refused, and kept.
//!
//! A crash leaves the copy at one of its batches, and the log with all its entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use objstore_base::error::{Error, Result};
use objstore_log::appender::Appender;
use objstore_log::keeper::Keeper;
use objstore_log::{Entry, Limit, LogId, Tenure, since_boot};
use parking_lot::Mutex;

use super::entry;
use super::joint::{Joint, joint, lacking};
use super::leased::{self, Withheld};
use super::place::{Lease, Place};
use super::position::{Position, unshipped_key};
use super::{Shipped, failed};
use crate::backend::Backend;
use crate::engine::Durability;

/// How a copy begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With what it has.
    Existing,
    /// Without content: what there is has to be removed.
    Empty,
}

/// The outcome of one step along the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The last batch that the copy has.
    pub at: u64,
    /// How many entries were replayed; 0 at the end of the log.
    pub entries: usize,
}

/// The outcome of a claim to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// This server owns the log.
    Owner,
    /// Another server does.
    Held {
        /// Its name.
        server: String,
        /// How long its lease still lasts, unless it is renewed.
        remaining: Duration,
    },
}

/// The ownership of a follower that has become the owner.
struct Owned {
    tenure: Tenure,
    appender: Appender,
    keeper: Option<Keeper>,
}

/// Opens the copy.
type Open<B> = Box<dyn FnMut(Start) -> Result<B> + Send>;

/// A copy that follows the log of `place`.
pub(crate) struct Follower<B> {
    open: Open<B>,
    /// `None` only while it is made again.
    local: Option<B>,
    position: Position,
    place: Place,
    owned: Option<Owned>,
}

impl<B: Backend> Follower<B> {
    /// Begins with the copy that `open` opens.
    pub fn open(open: impl FnMut(Start) -> Result<B> + Send + 'static, place: Place) -> Result<Self> {
        let mut open: Open<B> = Box::new(open);
        let id = place.log.tail().map_err(failed)?.id;
        let existing = open(Start::Existing).and_then(|local| {
            let position = Position::read(&*local.snapshot())?;
            Ok((local, position.unwrap_or_else(|| Position::begin(id))))
        });
        let (local, position) = match existing {
            Err(error @ Error::Corrupt { .. }) => {
                tracing::warn!(%error, "the local copy is damaged, and made again from the log");
                let local = open(Start::Empty)?;
                let position = Position::read(&*local.snapshot())?;
                (local, position.unwrap_or_else(|| Position::begin(id)))
            }
            existing => existing?,
        };
        refuse_other(position.id, id)?;
        Ok(Self { open, local: Some(local), position, place, owned: None })
    }

    /// Replays the next page of the log; none at its end.
    pub fn follow(&mut self) -> Result<Followed> {
        let next = self.position.last + 1;
        // The log may lack what this copy keeps, and have entries behind that gap, which the next owner removes.
        if !self.position.unshipped.is_empty() && next >= self.place.log.tail().map_err(failed)?.next {
            return Ok(Followed { at: self.position.last, entries: 0 });
        }
        let entries = match self.place.log.read_from(next, Limit::default()) {
            Err(objstore_log::Error::Trimmed { first }) => {
                self.make_again_behind(first)?;
                return Ok(Followed { at: self.position.last, entries: 1 });
            }
            entries => entries.map_err(failed)?,
        };
        let first = entries.first().map(|entry| entry::decode(entry.number, &entry.body)).transpose()?;
        if first.is_some_and(|(before, _)| before != self.position.chain) {
            self.make_again()?;
            return Ok(Followed { at: self.position.last, entries: 1 });
        }
        let count = entries.len();
        for entry in entries {
            self.replay(&entry)?;
        }
        Ok(Followed { at: self.position.last, entries: count })
    }

    /// Notes in the log that this server follows it, and how far it is.
    pub fn announce(&self) -> Result<()> {
        self.place.log.announce(&self.place.claim.server, self.position.last).map_err(failed)
    }

    /// Claims the log for this server.
    pub fn claim(&mut self) -> Result<Claimed> {
        if self.owned.is_some() {
            return Ok(Claimed::Owner);
        }
        let (log, sent) = (&self.place.log, since_boot());
        let tenure = match log.fence(&self.place.claim) {
            Ok(tenure) => tenure,
            Err(objstore_log::Error::Held { server, remaining }) => return Ok(Claimed::Held { server, remaining }),
            Err(error) => return Err(failed(error)),
        };
        let appender = Appender::new(Arc::clone(log), tenure.epoch, tenure.tail.next);
        let lost = Arc::clone(&self.place.lost);
        appender.on_failure(move |error| lost(&error.to_string()));
        let kept = || {
            let lease = (self.place.claim.lease, sent);
            Keeper::start(Arc::clone(log), tenure.epoch, lease, appender.failing())
        };
        let keeper = (self.place.lease == Lease::Kept).then(kept).transpose().map_err(failed)?;
        self.owned = Some(Owned { tenure, appender, keeper });
        Ok(Claimed::Owner)
    }

    /// The copy alone, which follows the log no more.
    pub fn into_copy(mut self) -> Result<B> {
        self.local.take().ok_or_else(gone)
    }

    /// Makes the copy and the log equal, and continues as the log's owner.
    ///
    /// # Errors
    /// [`Error::Unusable`]: the log is not this server's, or lacks what this copy acknowledged.
    pub fn into_owner(mut self) -> Result<Shipped<B>> {
        let Some(Owned { tenure, appender, keeper }) = self.owned.take() else {
            return Err(Error::Unusable { why: "another server owns the log".into() });
        };
        refuse_other(self.position.id, tenure.tail.id)?;
        let mut joined = self.joint(&tenure)?;
        match joined {
            Joint::Parted => self.make_again()?,
            Joint::Behind => self.make_again_behind(tenure.tail.first)?,
            Joint::Replay | Joint::Append(_) => {}
        }
        if matches!(joined, Joint::Parted | Joint::Behind) {
            joined = self.joint(&tenure)?;
        }
        match joined {
            Joint::Replay => self.replay_up_to(tenure.tail.next)?,
            Joint::Append(bodies) => {
                for (number, body) in (tenure.tail.next..).zip(bodies) {
                    appender.push(number, body).map_err(failed)?;
                }
                appender.wait(self.position.last).map_err(failed)?;
            }
            Joint::Parted | Joint::Behind => {
                return Err(Error::Engine { why: "a new copy does not continue with the log".into() });
            }
        }
        let local = self.local.take().ok_or_else(gone)?;
        let withheld = Arc::new(Withheld::new(self.place.withheld));
        let kept = |keeper: &Keeper| leased::Lease { term: keeper.term(), withheld: Arc::clone(&withheld) };
        let lease = keeper.as_ref().map(kept);
        Ok(Shipped {
            local,
            log: self.place.log,
            epoch: tenure.epoch,
            appender,
            keeper: Mutex::new(keeper),
            checkpoints: Mutex::new(None),
            lease,
            withheld,
            left: AtomicBool::new(false),
            last: AtomicU64::new(self.position.last),
            position: Mutex::new(self.position),
        })
    }

    fn joint(&self, tenure: &Tenure) -> Result<Joint> {
        let local = self.local.as_ref().ok_or_else(gone)?;
        joint(&*local.snapshot(), &*self.place.log, tenure.tail, &self.position)
    }

    fn make_again(&mut self) -> Result<()> {
        tracing::warn!("the local copy does not continue the log, as after another server: it is made again");
        let id = self.position.id;
        // The engine refuses a second opening of its folder.
        drop(self.local.take());
        let local = (self.open)(Start::Empty)?;
        self.position = Position::read(&*local.snapshot())?.unwrap_or_else(|| Position::begin(id));
        self.local = Some(local);
        refuse_other(self.position.id, id)
    }

    /// Makes the copy again from a checkpoint, since the log begins with the entry `first`.
    fn make_again_behind(&mut self, first: u64) -> Result<()> {
        if self.place.checkpoints.is_some() {
            self.make_again()?;
        }
        if self.position.last + 1 >= first {
            return Ok(());
        }
        let last = self.position.last;
        let why = format!("the copy ends at entry {last} and the log begins at {first}: entries between were trimmed");
        Err(Error::Unusable { why })
    }

    /// Brings the copy to the log's end.
    fn replay_up_to(&mut self, next: u64) -> Result<()> {
        while self.position.last + 1 < next {
            let entries = self.place.log.read_from(self.position.last + 1, Limit::default()).map_err(failed)?;
            if entries.is_empty() {
                return Err(lacking(self.position.last + 1));
            }
            for entry in entries.into_iter().take_while(|entry| entry.number < next) {
                self.replay(&entry)?;
            }
        }
        Ok(())
    }

    fn replay(&mut self, entry: &Entry) -> Result<()> {
        let (before, mut changes) = entry::decode(entry.number, &entry.body)?;
        let position = &mut self.position;
        if before != position.chain {
            let what = format!("entry {} of the log", entry.number);
            return Err(Error::corrupt(what, "a batch that follows the one before", "another"));
        }
        (position.last, position.chain) = (entry.number, entry::chain(&entry.body));
        // The log has everything that the copy kept.
        changes.extend(position.unshipped.drain(..).map(|number| (unshipped_key(number), None)));
        let (key, record) = position.record();
        changes.insert(key, Some(record));
        self.local.as_ref().ok_or_else(gone)?.commit(changes, Durability::Buffered)
    }
}

fn refuse_other(ours: LogId, its: LogId) -> Result<()> {
    if ours == its {
        return Ok(());
    }
    let why = format!("the folder is a copy of the log {ours}, not of {its}: use another folder, or that log");
    Err(Error::Unusable { why })
}

fn gone() -> Error {
    Error::Engine { why: "the copy could not be made again".into() }
}
