//! Reading entries, and where the log ends.
//!
//! - In the open segment a read begins where all batches are known to be there, and follows them: an object behind a gap
//!   or a seal is never taken for an entry.
//! - A read that finds nothing, and every trim, is decided by the record as it is afterwards.

use super::S3;
use super::record::{Record, Segment};
use super::stored::Stored;
use super::walk::Ahead;
use crate::batch::{Entry, Limit};
use crate::error::{Error, Result};
use crate::owner::Tail;

/// How often a read begins again because the log's owner changed meanwhile.
const ATTEMPTS: usize = 16;

/// Entries that were read, and how many more are wanted.
struct Wanted {
    from: u64,
    limit: Limit,
    entries: Vec<Entry>,
    bytes: usize,
}

impl Wanted {
    /// Takes the entries of a batch; `false` once nothing more is wanted.
    fn take(&mut self, batch: Vec<Entry>) -> bool {
        for entry in batch.into_iter().filter(|entry| entry.number >= self.from) {
            self.bytes += entry.body.len();
            let full = self.entries.len() >= self.limit.entries || self.bytes > self.limit.bytes;
            if full && !self.entries.is_empty() {
                return false;
            }
            self.entries.push(entry);
        }
        true
    }
}

impl S3 {
    pub(super) fn entries(&self, from: u64, limit: Limit) -> Result<Vec<Entry>> {
        let mut record = self.recent()?;
        for _ in 0..ATTEMPTS {
            let mut wanted = Wanted { from, limit, entries: Vec::new(), bytes: 0 };
            let read = self.follow(&record, &mut wanted);
            let now = self.record()?;
            if from < now.first {
                return Err(Error::Trimmed { first: now.first });
            }
            // A batch that was removed meanwhile is an error of an old record.
            let state = |record: &Record| (record.segments.clone(), record.first, record.mark);
            let same = state(&now) == state(&record);
            match read {
                Ok(()) if same || !wanted.entries.is_empty() => return Ok(wanted.entries),
                Err(error) if same => return Err(error),
                _ => record = now,
            }
        }
        Err(self.restless())
    }

    /// Reads what is wanted, as far as the log goes.
    fn follow(&self, record: &Record, wanted: &mut Wanted) -> Result<()> {
        let Some(mut at) = record.segment_of(wanted.from) else { return Ok(()) };
        let mut number = wanted.from;
        while let Some(segment) = record.segments.get(at) {
            let start = match record.end(at) {
                Some(_) => self.beginning(record.id, *segment, number)?,
                None => self.reach(record, *segment, number)?,
            };
            let Some(start) = start else { return Ok(()) };
            let Some(end) = self.follow_segment(record, at, start, wanted)? else { return Ok(()) };
            (number, at) = (end, at + 1);
        }
        Ok(())
    }

    /// Reads from the batch at `start` on; returns the end of a sealed segment that was read to its end.
    fn follow_segment(&self, record: &Record, at: usize, start: u64, wanted: &mut Wanted) -> Result<Option<u64>> {
        let (segment, end) = (record.segments[at], record.end(at));
        let (mut ahead, mut next) = (Ahead::default(), start);
        while end != Some(next) {
            let Some(Stored::Batch(entries)) = self.load(record.id, (segment.epoch, next), &mut ahead)? else {
                return Ok(None);
            };
            let first = next;
            next += entries.len() as u64;
            if end.is_none() {
                self.know(segment.epoch, next);
            }
            self.note_read(segment.epoch, first, next);
            if !wanted.take(entries) {
                return Ok(None);
            }
        }
        Ok(end)
    }

    /// Where the batch of the open segment begins that has the entry `number`; `None` if the log ends before it.
    fn reach(&self, record: &Record, open: Segment, number: u64) -> Result<Option<u64>> {
        let known = self.known_end(record, open);
        if number < known {
            return self.beginning(record.id, open, number);
        }
        let (mut ahead, mut at) = (Ahead::default(), known);
        while at < number {
            let Some(Stored::Batch(entries)) = self.load(record.id, (open.epoch, at), &mut ahead)? else {
                return Ok(None);
            };
            let end = at + entries.len() as u64;
            self.know(open.epoch, end);
            self.note_read(open.epoch, at, end);
            if number < end {
                return Ok(Some(at));
            }
            at = end;
        }
        Ok(Some(at))
    }

    /// Where the log begins and ends now.
    pub(super) fn end(&self) -> Result<Tail> {
        let mut record = self.record()?;
        for _ in 0..ATTEMPTS {
            let Some(open) = record.open() else {
                return Ok(Tail { id: record.id, first: record.first, next: record.first });
            };
            let begin = self.known_end(&record, open);
            let (mut ahead, mut at) = (Ahead::default(), begin);
            loop {
                match self.load(record.id, (open.epoch, at), &mut ahead)? {
                    Some(Stored::Batch(entries)) => at += entries.len() as u64,
                    Some(Stored::Seal) | None => break,
                }
                self.know(open.epoch, at);
            }
            // Behind a seal another epoch may go on, and a trim may have removed what was followed.
            let now = self.record()?;
            if now.segments == record.segments && now.first <= begin {
                return Ok(Tail { id: now.id, first: now.first, next: at });
            }
            record = now;
        }
        Err(self.restless())
    }
    fn restless(&self) -> Error {
        Error::Unavailable { why: format!("the owner of the log at {} changes all the time", self.place) }
    }
}
