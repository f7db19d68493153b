//! Opening a copy: own the log, find where the copy and the log part, and make them equal.
//!
//! | the copy | what is done |
//! | --- | --- |
//! | ends within the log, with the log's entry | the later entries are replayed |
//! | ends after the log, and keeps the entries that the log lacks | these are appended |
//! | ends with a batch that the log does not have, as another server wrote meanwhile | it is made again |
//! | is damaged | it is made again |
//! | belongs to another log, or to none; or has acknowledged batches that the log lost | it is refused, and kept |
//!
//! A crash leaves the copy at one of its batches, and the log with all its entries.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use bytes::Bytes;
use objstore_base::error::{Error, Result};
use objstore_log::appender::Appender;
use objstore_log::keeper::Keeper;
use objstore_log::{Limit, Log, Tail};
use parking_lot::Mutex;

use super::entry::{self, Chain};
use super::place::{Lease, Place};
use super::position::{Position, unshipped_key};
use super::{Shipped, failed};
use crate::backend::Backend;
use crate::engine::Durability;
use crate::txn::Read;

/// How a copy begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With what it has.
    Existing,
    /// Without content: what there is has to be removed.
    Empty,
}

/// How a copy continues.
enum Joint {
    /// With the entries of the log after its last batch.
    Replay(Position),
    /// The log continues with these entries of the copy.
    Append(Position, Vec<Bytes>),
    /// Not at all: another server wrote other batches, or the entries that it keeps are damaged.
    Parted,
}

impl<B: Backend> Shipped<B> {
    /// Becomes the owner of the log, and brings the copy that `local` opens to the log's end.
    pub fn open(mut local: impl FnMut(Start) -> Result<B>, place: &Place) -> Result<Self> {
        let (log, sent) = (Arc::clone(&place.log), Instant::now());
        let tenure = log.fence(&place.claim).map_err(failed)?;
        let (epoch, tail) = (tenure.epoch, tenure.tail);
        let appender = Appender::new(Arc::clone(&log), epoch, tail.next);
        let kept = || Keeper::start(Arc::clone(&log), epoch, (place.claim.lease, sent), appender.failing());
        let keeper = (place.lease == Lease::Kept).then(kept).transpose().map_err(failed)?;
        let (local, joint) = opened(&mut local, &*log, tail)?;
        let position = match joint {
            Joint::Replay(position) => replay(&local, &*log, tail, position)?,
            Joint::Append(position, bodies) => {
                for (number, body) in (tail.next..).zip(bodies) {
                    appender.push(number, body).map_err(failed)?;
                }
                appender.wait(position.last).map_err(failed)?;
                position
            }
            Joint::Parted => return Err(Error::Engine { why: "an empty copy does not begin with the log".into() }),
        };
        let last = AtomicU64::new(position.last);
        Ok(Self { local, log, epoch, appender, keeper, position: Mutex::new(position), last })
    }
}

/// The copy, made again if it is damaged or has parted from the log.
fn opened<B: Backend>(local: &mut impl FnMut(Start) -> Result<B>, log: &dyn Log, tail: Tail) -> Result<(B, Joint)> {
    let existing = local(Start::Existing).and_then(|local| {
        let position = Position::read(&*local.snapshot())?;
        Ok((local, position))
    });
    match existing {
        Ok((local, position)) => {
            let joint = joint(&*local.snapshot(), log, tail, position.unwrap_or_else(|| Position::begin(tail.id)))?;
            if !matches!(joint, Joint::Parted) {
                return Ok((local, joint));
            }
            tracing::warn!("the local copy does not continue the log, as after another server: it is made again");
        }
        // Damage of the log itself is found later, and leaves the copy.
        Err(error @ Error::Corrupt { .. }) => {
            tracing::warn!(%error, "the local copy is damaged, and made again from the log");
        }
        Err(error) => return Err(error),
    }
    let local = local(Start::Empty)?;
    let joint = joint(&*local.snapshot(), log, tail, Position::begin(tail.id))?;
    Ok((local, joint))
}

fn joint(view: &dyn Read, log: &dyn Log, tail: Tail, position: Position) -> Result<Joint> {
    if position.id != tail.id {
        let (ours, its) = (position.id, tail.id);
        let why = format!("the folder is a copy of the log {ours}, not of {its}: use another folder, or that log");
        return Err(Error::Unusable { why });
    }
    if position.last + 1 < tail.first {
        let (last, first) = (position.last, tail.first);
        let why = format!("the copy ends at entry {last} and the log begins at {first}: entries between were trimmed");
        return Err(Error::Unusable { why });
    }
    if position.last >= tail.next {
        return ahead(view, log, tail, position);
    }
    let here = content(log, tail, position.last)?;
    Ok(if here == position.chain { Joint::Replay(position) } else { Joint::Parted })
}

/// The content of the log's entry `number`, which may be the one before its first.
fn content(log: &dyn Log, tail: Tail, number: u64) -> Result<Chain> {
    let read = |number| -> Result<Option<Bytes>> {
        let entries = log.read_from(number, Limit { entries: 1, bytes: 1 }).map_err(failed)?;
        Ok(entries.into_iter().next().map(|entry| entry.body))
    };
    if number >= tail.first {
        let body = read(number)?;
        return body.map(|body| entry::chain(&body)).ok_or_else(|| lacking(number));
    }
    match read(number + 1)? {
        Some(body) => Ok(entry::decode(number + 1, &body)?.0),
        None if number == 0 => Ok(Chain::FIRST),
        None => Err(lacking(number + 1)),
    }
}

fn lacking(number: u64) -> Error {
    Error::corrupt("the log", format!("an entry {number}"), "none")
}

/// A copy that ends after the log: it has to keep what the log lacks.
fn ahead(view: &dyn Read, log: &dyn Log, tail: Tail, position: Position) -> Result<Joint> {
    let mut bodies = Vec::new();
    for number in tail.next..=position.last {
        let Some(body) = view.get(&unshipped_key(number))? else {
            let (next, last) = (tail.next, position.last);
            let why = format!(
                "the log ends before entry {next}, and this server has acknowledged batches up to {last}: the log has \
                 lost entries, perhaps as an older state of it was restored; restore the newer one"
            );
            return Err(Error::Unusable { why });
        };
        bodies.push(body);
    }
    let mut before = content(log, tail, tail.next - 1)?;
    for (number, body) in (tail.next..).zip(&bodies) {
        match entry::decode(number, body) {
            Ok((follows, _)) if follows == before => before = entry::chain(body),
            Ok(_) | Err(Error::Corrupt { .. }) => return Ok(Joint::Parted),
            Err(error) => return Err(error),
        }
    }
    Ok(Joint::Append(position, bodies))
}

/// Brings the copy to the log's end.
fn replay<B: Backend>(local: &B, log: &dyn Log, tail: Tail, mut position: Position) -> Result<Position> {
    while position.last + 1 < tail.next {
        let entries = log.read_from(position.last + 1, Limit::default()).map_err(failed)?;
        if entries.is_empty() {
            return Err(lacking(position.last + 1));
        }
        for entry in entries.into_iter().take_while(|entry| entry.number < tail.next) {
            let (before, mut changes) = entry::decode(entry.number, &entry.body)?;
            if before != position.chain {
                let what = format!("entry {} of the log", entry.number);
                return Err(Error::corrupt(what, "a batch that follows the one before", "another"));
            }
            (position.last, position.chain) = (entry.number, entry::chain(&entry.body));
            // The log has everything that the copy kept.
            changes.extend(position.unshipped.drain(..).map(|number| (unshipped_key(number), None)));
            let (key, record) = position.record();
            changes.insert(key, Some(record));
            local.commit(changes, Durability::Buffered)?;
        }
    }
    Ok(position)
}
