//! Following the batches of an epoch, one by one.
//!
//! - A batch begins where the one before it ends, so no listing is needed, and a gap or a seal is noticed.
//! - After some batches in a row a listing tells which ones probably follow; these are read at the same time. A wrong
//!   listing costs requests and nothing else.

use std::collections::{BTreeMap, VecDeque};

use objstore_bucket::{Error as BucketError, Listed};

use super::record::{Record, Segment};
use super::stored::{self, STORED_BYTES_MAX, Stored};
use super::{S3, keys, unavailable};
use crate::batch::MAX_BATCH_ENTRIES;
use crate::error::{Error, Result};
use crate::owner::{Epoch, LogId};

/// After how many batches in a row a listing is asked for.
const ALONE_MAX: usize = 4;
/// How many batches are read at the same time, and their bytes.
const AHEAD_MAX: usize = 16;
const AHEAD_BYTES: u64 = 8 << 20;

/// How often an object is read that seems damaged.
const READS: u32 = 3;
/// How many places are looked at together for the beginning of a batch. Few, since an object may be large.
const PROBES: u64 = 4;

/// How far the batches of an epoch were followed without a gap.
#[derive(Clone, Copy)]
pub(super) struct Known {
    epoch: Epoch,
    end: u64,
    /// The last batch that was read, for the next read that begins within it.
    last: (Epoch, u64, u64),
}

/// Batches that were read before they are needed.
#[derive(Default)]
pub(super) struct Ahead {
    alone: usize,
    listed: VecDeque<Listed>,
    read: BTreeMap<u64, Stored>,
}

impl S3 {
    /// The object at (epoch, number), if there is one.
    pub(super) fn load(&self, id: LogId, at: (Epoch, u64), ahead: &mut Ahead) -> Result<Option<Stored>> {
        if let Some(read) = ahead.read.remove(&at.1) {
            return Ok(Some(read));
        }
        let Some(found) = self.read_object(id, at)? else { return Ok(None) };
        ahead.alone += 1;
        if ahead.alone >= ALONE_MAX && matches!(found, Stored::Batch(_)) {
            ahead.alone = 0;
            self.read_ahead(id, at, ahead);
        }
        Ok(Some(found))
    }

    /// Reads an object; a damaged one again, since the answer may be what is damaged.
    fn read_object(&self, id: LogId, at: (Epoch, u64)) -> Result<Option<Stored>> {
        let (key, mut attempt) = (keys::batch(at.0, at.1), 1);
        loop {
            let object = match self.data.get(&key, STORED_BYTES_MAX) {
                Ok(object) => object,
                Err(BucketError::Missing { .. }) => return Ok(None),
                Err(error) => return Err(unavailable(error)),
            };
            match stored::decode(id, at, &object.bytes) {
                Ok(found) => return Ok(Some(found)),
                Err(why) if attempt >= READS => {
                    let why = format!("the object \"{key}\" of the log at {} is damaged: {why}", self.place);
                    return Err(Error::Unusable { why });
                }
                Err(_) => attempt += 1,
            }
        }
    }

    /// Reads what a listing names behind `at`. Failures are those of hints.
    fn read_ahead(&self, id: LogId, (epoch, number): (Epoch, u64), ahead: &mut Ahead) {
        ahead.read.clear();
        ahead.listed.retain(|listed| keys::number(&listed.key).is_some_and(|at| at > number));
        if ahead.listed.is_empty() {
            let page = self.data.list(&keys::epoch(epoch), Some(&keys::batch(epoch, number)));
            ahead.listed = page.unwrap_or_default().into();
        }
        let (mut wanted, mut bytes) = (Vec::new(), 0);
        while wanted.len() < AHEAD_MAX
            && let Some(next) = ahead.listed.pop_front_if(|next| bytes + next.length <= AHEAD_BYTES)
        {
            bytes += next.length;
            wanted.push((next.key, usize::try_from(next.length).unwrap_or(usize::MAX).min(STORED_BYTES_MAX)));
        }
        for ((key, _), object) in wanted.iter().zip(self.data.get_each(&wanted)) {
            if let (Some(at), Ok(object)) = (keys::number(key), object)
                && let Ok(found) = stored::decode(id, (epoch, at), &object.bytes)
            {
                ahead.read.insert(at, found);
            }
        }
        // The next step after these asks again at once.
        if !ahead.read.is_empty() {
            ahead.alone = ALONE_MAX - 1;
        }
    }

    /// A number of the open segment up to which this client, or the record, knows all batches; a batch ends before it.
    pub(super) fn known_end(&self, record: &Record, open: Segment) -> u64 {
        let known = self.known.lock().filter(|known| known.epoch == open.epoch).map_or(0, |known| known.end);
        known.max(record.mark).max(open.begin)
    }

    /// Notes that all batches of the epoch before `end` are there.
    pub(super) fn know(&self, epoch: Epoch, end: u64) {
        let mut known = self.known.lock();
        let last = known.map_or((0, 0, 0), |known| known.last);
        if known.is_none_or(|known| (known.epoch, known.end) < (epoch, end)) {
            *known = Some(Known { epoch, end, last });
        }
    }

    /// Notes the batch that was read last.
    pub(super) fn note_read(&self, epoch: Epoch, first: u64, end: u64) {
        let mut known = self.known.lock();
        let at = known.map_or((0, 0), |known| (known.epoch, known.end));
        *known = Some(Known { epoch: at.0, end: at.1, last: (epoch, first, end) });
    }

    /// Where the batch begins that has the entry `number`, which the segment has; `None` if it is not there any more.
    pub(super) fn beginning(&self, id: LogId, segment: Segment, number: u64) -> Result<Option<u64>> {
        let last = self.known.lock().map(|known| known.last);
        if let Some((_, first, _)) =
            last.filter(|(epoch, first, end)| *epoch == segment.epoch && (*first..=*end).contains(&number))
        {
            return Ok(Some(if last.is_some_and(|(_, _, end)| end == number) { number } else { first }));
        }
        if number == segment.begin {
            return Ok(Some(number));
        }
        let lowest = segment.begin.max(number.saturating_sub(MAX_BATCH_ENTRIES as u64 - 1));
        let mut ahead = Ahead::default();
        // Mostly a batch begins there.
        let mut next = number;
        while next >= lowest {
            let bottom = if next == number { number } else { lowest.max(next.saturating_sub(PROBES - 1)) };
            let probes: Vec<_> =
                (bottom..=next).rev().map(|at| (keys::batch(segment.epoch, at), STORED_BYTES_MAX)).collect();
            let found = if probes.len() == 1 {
                self.load(id, (segment.epoch, next), &mut ahead)?.map(|_| next)
            } else {
                self.first_of(&probes)?
            };
            if found.is_some() {
                return Ok(found);
            }
            let Some(below) = bottom.checked_sub(1) else { break };
            next = below;
        }
        Ok(None)
    }

    /// The number of the first of these objects that exists.
    fn first_of(&self, probes: &[(String, usize)]) -> Result<Option<u64>> {
        for ((key, _), object) in probes.iter().zip(self.data.get_each(probes)) {
            match object {
                Ok(_) => return Ok(keys::number(key)),
                Err(BucketError::Missing { .. }) => {}
                Err(error) => return Err(unavailable(error)),
            }
        }
        Ok(None)
    }
}
