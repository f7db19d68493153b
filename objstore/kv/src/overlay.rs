//! The writes of a batch, overlaid on the stored data and read as one.
//!
//! - The operation in progress can be undone alone, in full or back to a mark: the log holds what it replaced.
//! - Stored data is read in bounded chunks, never beyond the requested range.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::ops::Bound;

use bytes::Bytes;
use objstore_base::error::Result;

use super::backend::{Changes, span};
use super::txn::{Pair, Read, Value};

/// The number of pairs read from the store at a time while they are merged with the overlay.
const CHUNK_PAIRS: usize = 1024;

/// The writes of a batch so far.
#[derive(Default)]
pub(super) struct Overlay {
    changes: Changes,
    replaced: Vec<(Bytes, Option<Option<Value>>)>,
    bytes: usize,
    kept_bytes: usize,
}

/// Which end of a range comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Ascending,
    Descending,
}

impl Overlay {
    /// Sets `key`, or deletes it if the value is `None`, for the operation in progress.
    pub fn set(&mut self, key: Bytes, value: Option<Value>) {
        self.bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
        let old = self.changes.insert(key.clone(), value);
        self.replaced.push((key, old));
    }

    /// Whether the operation in progress has written anything.
    pub fn wrote(&self) -> bool {
        !self.replaced.is_empty()
    }

    /// Ends the operation in progress and keeps its writes.
    pub fn keep(&mut self) {
        self.replaced.clear();
        self.kept_bytes = self.bytes;
    }

    /// Ends the operation in progress and undoes its writes.
    pub fn undo(&mut self) {
        self.undo_to((0, self.kept_bytes));
    }

    /// The progress of the operation: the number of its writes, and the bytes of all writes.
    pub fn progress(&self) -> (usize, usize) {
        (self.replaced.len(), self.bytes)
    }

    /// Undoes what the operation in progress wrote since [`Overlay::progress`] returned these numbers.
    pub fn undo_to(&mut self, (writes, bytes): (usize, usize)) {
        for (key, old) in self.replaced.drain(writes..).rev() {
            match old {
                Some(old) => self.changes.insert(key, old),
                None => self.changes.remove(&key),
            };
        }
        self.bytes = bytes;
    }

    /// The bytes of all keys and values written.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// All writes of the batch.
    pub fn into_changes(self) -> Changes {
        self.changes
    }

    /// The value of `key`, from the overlay or else from `base`.
    pub fn get(&self, base: &dyn Read, key: &[u8]) -> Result<Option<Value>> {
        match self.changes.get(key) {
            Some(value) => Ok(value.clone()),
            None => base.get(key),
        }
    }

    /// Up to `limit` pairs of overlay and `base` with `from` <= key < `to`.
    pub fn scan(
        &self,
        base: &dyn Read,
        from: &[u8],
        to: &[u8],
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Pair>> {
        let Some((from, to)) = span(from, to) else { return Ok(Vec::new()) };
        if self.changes.range::<[u8], _>(range(from, to)).next().is_none() {
            return read(base, from, to, limit, direction);
        }
        match direction {
            Direction::Ascending => self.ascend(base, from, to, limit),
            Direction::Descending => self.descend(base, from, to, limit),
        }
    }

    fn ascend(&self, base: &dyn Read, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>> {
        let mut found = Vec::new();
        let mut next = Bytes::copy_from_slice(from);
        while found.len() < limit {
            let wanted = (limit - found.len()).min(CHUNK_PAIRS);
            let chunk = base.scan(&next, to, wanted)?;
            let end = if chunk.len() < wanted { None } else { chunk.last().map(|pair| successor(&pair.key)) };
            let written = self.changes.range::<[u8], _>(range(&next, end.as_deref().unwrap_or(to)));
            merge(chunk, written, Bytes::cmp, limit, &mut found);
            let Some(end) = end else { break };
            next = end;
        }
        Ok(found)
    }

    fn descend(&self, base: &dyn Read, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>> {
        let mut found = Vec::new();
        let mut end = Bytes::copy_from_slice(to);
        while found.len() < limit {
            let wanted = (limit - found.len()).min(CHUNK_PAIRS);
            let chunk = base.scan_back(from, &end, wanted)?;
            let start = if chunk.len() < wanted { None } else { chunk.last().map(|pair| pair.key.clone()) };
            let written = self.changes.range::<[u8], _>(range(start.as_deref().unwrap_or(from), &end)).rev();
            merge(chunk, written, |a, b| b.cmp(a), limit, &mut found);
            let Some(start) = start else { break };
            end = start;
        }
        Ok(found)
    }
}

fn read(base: &dyn Read, from: &[u8], to: &[u8], limit: usize, direction: Direction) -> Result<Vec<Pair>> {
    match direction {
        Direction::Ascending => base.scan(from, to, limit),
        Direction::Descending => base.scan_back(from, to, limit),
    }
}

fn range<'a>(from: &'a [u8], to: &'a [u8]) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    (Bound::Included(from), Bound::Excluded(to))
}

/// The smallest key larger than `key`.
fn successor(key: &[u8]) -> Bytes {
    [key, &[0]].concat().into()
}

/// Merges both sides into `found` in the order of `before`, until it has `limit` pairs. For a key on both sides the
/// overlay's value counts.
fn merge<'a>(
    base: Vec<Pair>,
    written: impl Iterator<Item = (&'a Bytes, &'a Option<Value>)>,
    before: impl Fn(&Bytes, &Bytes) -> Ordering,
    limit: usize,
    found: &mut Vec<Pair>,
) {
    let mut base = base.into_iter().peekable();
    let mut written = written.peekable();
    while found.len() < limit {
        let order = match (base.peek(), written.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(pair), Some((key, _))) => before(&pair.key, key),
        };
        match order {
            Ordering::Less => found.extend(base.next()),
            Ordering::Equal => {
                base.next();
                found.extend(live(&mut written));
            }
            Ordering::Greater => found.extend(live(&mut written)),
        }
    }
}

/// The next written pair that is not a deletion.
fn live<'a>(written: &mut Peekable<impl Iterator<Item = (&'a Bytes, &'a Option<Value>)>>) -> Option<Pair> {
    let (key, value) = written.next()?;
    Some(Pair { key: key.clone(), value: value.clone()? })
}
