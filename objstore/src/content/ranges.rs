//! Ranges of a file: those that hold data, and those in which two snapshots of one file differ (CSI v1.12, Snapshot
//! Metadata Service RPCs).
//!
//! - Every byte outside the ranges with data is zero, and every byte outside the differing ranges is equal.
//! - Ranges are in order, do not overlap, and begin and end at multiples of [`RANGE_BLOCK_BYTES`], but for the end of the
//!   file.
//! - Content that both snapshots have in the same place of the same blob is equal without reading: a blob that a snapshot
//!   refers to never changes. Everything else is compared byte by byte, since a disk that shares space between files
//!   gives a rewritten file a new blob.

use std::ops::Range;

use bytes::Bytes;

use super::plan::{Piece, Plan};
use super::reader::Reader;
use crate::error::Result;
use crate::tree::Tree;

/// The granularity of ranges, in bytes.
pub const RANGE_BLOCK_BYTES: u64 = 4096;
/// The most bytes compared at a time.
const COMPARED_BYTES: u64 = 1 << 20;

/// Ranges in order, merged where they touch.
#[derive(Default)]
struct Found(Vec<Range<u64>>);

impl Found {
    /// Adds a range that begins at or after the last one, extended to whole blocks up to `end`.
    fn add(&mut self, range: &Range<u64>, end: u64) {
        let from = range.start / RANGE_BLOCK_BYTES * RANGE_BLOCK_BYTES;
        let to = range.end.next_multiple_of(RANGE_BLOCK_BYTES).min(end);
        match self.0.last_mut() {
            Some(last) if from <= last.end => last.end = last.end.max(to),
            _ => self.0.push(from..to),
        }
    }
}

/// A piece of a plan at its position in the file.
struct Positioned {
    start: u64,
    piece: Piece,
}

impl Positioned {
    fn end(&self) -> u64 {
        self.start + self.piece.length()
    }

    /// Whether both have the same bytes of one blob, or none at all.
    fn is_same(&self, other: &Self) -> bool {
        match (&self.piece, &other.piece) {
            (Piece::Zeros(_), Piece::Zeros(_)) => true,
            (Piece::Blob { id, offset, .. }, Piece::Blob { id: of, offset: at, .. }) => {
                let place = |offset: u64, start: u64| i128::from(offset) - i128::from(start);
                id == of && place(*offset, self.start) == place(*at, other.start)
            }
            _ => false,
        }
    }
}

impl Reader {
    /// The size of the content, in bytes.
    pub fn size(&self) -> u64 {
        self.inode.size
    }

    /// The ranges with data from `from` to `to`. Blocking; no content is read.
    pub fn data_ranges(&self, from: u64, to: u64) -> Result<Vec<Range<u64>>> {
        let mut found = Found::default();
        for positioned in self.pieces(from, to)? {
            for run in self.runs(&positioned)? {
                found.add(&run, self.size());
            }
        }
        Ok(found.0)
    }

    /// The ranges from `from` to `to` in which this content differs from an earlier one of the same file. Both have to
    /// be of snapshots. Beyond the end of the earlier content there are zeros. Blocking; ask for some MiB per call.
    pub fn changed_ranges(&self, earlier: &Self, from: u64, to: u64) -> Result<Vec<Range<u64>>> {
        let (new, old) = (self.pieces(from, to)?, earlier.padded_pieces(from, to.min(self.size()))?);
        let mut found = Found::default();
        let (mut new, mut old) = (new.iter().peekable(), old.iter().peekable());
        let mut at = from;
        while let (Some(&one), Some(&other)) = (new.peek(), old.peek()) {
            let end = one.end().min(other.end());
            if !one.is_same(other) {
                self.compare(earlier, (one, other), at..end, &mut found)?;
            }
            at = end;
            new.next_if(|one| one.end() <= at);
            old.next_if(|other| other.end() <= at);
        }
        Ok(found.0)
    }

    /// Compares the bytes of a range that may differ: only where one of the contents has data.
    fn compare(
        &self,
        earlier: &Self,
        (one, other): (&Positioned, &Positioned),
        range: Range<u64>,
        found: &mut Found,
    ) -> Result<()> {
        let mut runs = self.runs(one)?;
        runs.extend(earlier.runs(other)?);
        runs.sort_unstable_by_key(|run| run.start);
        let mut at = range.start;
        for run in runs {
            let end = run.end.min(range.end);
            at = at.max(run.start);
            while at < end {
                // Blocks are those of the file, so that a block is found once.
                let step = (at / RANGE_BLOCK_BYTES * RANGE_BLOCK_BYTES + COMPARED_BYTES).min(end);
                self.compare_bytes(earlier, at..step, found)?;
                at = step;
            }
        }
        Ok(())
    }

    fn compare_bytes(&self, earlier: &Self, range: Range<u64>, found: &mut Found) -> Result<()> {
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let new = self.read(range.start, length)?;
        let old = if range.start < earlier.size() { earlier.read(range.start, length)? } else { Bytes::new() };
        let mut at = range.start;
        while at < range.end {
            let end = ((at / RANGE_BLOCK_BYTES + 1) * RANGE_BLOCK_BYTES).min(range.end);
            if !equal(part(&new, range.start, at..end), part(&old, range.start, at..end)) {
                found.add(&(at..end), self.size());
            }
            at = end;
        }
        Ok(())
    }

    /// The runs of bytes of a piece that may be other than zero.
    fn runs(&self, positioned: &Positioned) -> Result<Vec<Range<u64>>> {
        let parts = positioned.piece.without_holes(&self.core.blobs, &self.guard)?.into_iter();
        Ok(parts
            .map(|part| positioned.start + part.offset..positioned.start + part.offset + part.piece.length())
            .collect())
    }

    fn pieces(&self, from: u64, to: u64) -> Result<Vec<Positioned>> {
        let tree = Tree { read: &*self.snapshot, ancestry: &self.ancestry };
        let plan = Plan::of(tree, self.ino, &self.inode, from, to.saturating_sub(from))?;
        let mut start = from;
        let positioned = plan.0.into_iter().map(|piece| {
            let positioned = Positioned { start, piece };
            start = positioned.end();
            positioned
        });
        Ok(positioned.collect())
    }

    /// The pieces up to `to`, with zeros beyond the end of the content.
    fn padded_pieces(&self, from: u64, to: u64) -> Result<Vec<Positioned>> {
        let mut pieces = self.pieces(from, to)?;
        let end = pieces.last().map_or(from, Positioned::end);
        if end < to {
            pieces.push(Positioned { start: end, piece: Piece::Zeros(to - end) });
        }
        Ok(pieces)
    }
}

/// The bytes of a range of the file in `bytes`, which begin at `start`; fewer beyond their end.
fn part(bytes: &[u8], start: u64, range: Range<u64>) -> &[u8] {
    let within = |offset: u64| usize::try_from(offset - start).unwrap_or(usize::MAX).min(bytes.len());
    &bytes[within(range.start)..within(range.end)]
}

/// Whether two contents are equal; what one has beyond the other counts as compared with zeros.
fn equal(one: &[u8], other: &[u8]) -> bool {
    let common = one.len().min(other.len());
    one[..common] == other[..common] && one[common..].iter().chain(&other[common..]).all(|byte| *byte == 0)
}
