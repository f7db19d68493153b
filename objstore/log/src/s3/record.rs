//! The owner's record: who owns the log, in which epochs its entries were written, and where it begins.
//!
//! - It is a text of lines `NAME VALUE`, so that an operator can read it. Lines of unknown names are refused: a newer
//!   program raises the format.
//! - It is changed by compare-and-swap alone, and each change raises the revision. So no two states have the same bytes,
//!   nor the same entity tag where that is a hash.
//! - A segment holds the entries of one epoch. It ends where the next one begins, and its seal is there. The last one is
//!   open: its owner appends to it, if the record still has its epoch.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;

use super::keys;
use crate::owner::{Epoch, LogId};

const TITLE: &str = "amphora log";
const FORMAT: &str = "1";
/// The most bytes of a record.
pub(super) const RECORD_BYTES_MAX: usize = 1 << 20;
/// The most segments, so that a record stays below its limit of bytes.
pub(super) const SEGMENTS_MAX: usize = 8192;

/// The entries of one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub epoch: Epoch,
    /// Its first entry.
    pub begin: u64,
}

/// An epoch whose entries were all trimmed, or that had none: its objects have to be removed, except the seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub epoch: Epoch,
    /// The number of its seal.
    pub seal: u64,
}

/// The state of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub id: LogId,
    pub revision: u64,
    pub epoch: Epoch,
    pub server: String,
    pub lease: Duration,
    /// Whether the owner has given its lease up.
    pub released: bool,
    /// The first entry that has not been trimmed.
    pub first: u64,
    /// All entries before it are in the log or were trimmed, and a batch ends before it; at least `first`.
    pub mark: u64,
    /// By their beginning; the last one is open.
    pub segments: Vec<Segment>,
    pub ended: Vec<Ended>,
}

impl Record {
    /// That of a new log, which nobody owns.
    pub fn new(id: LogId) -> Self {
        Self {
            id,
            revision: 1,
            epoch: 0,
            server: String::new(),
            lease: Duration::ZERO,
            released: true,
            first: 1,
            mark: 1,
            segments: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// The open segment.
    pub fn open(&self) -> Option<Segment> {
        self.segments.last().copied()
    }

    /// Where the segment at this index ends; `None` for the open one.
    pub fn end(&self, at: usize) -> Option<u64> {
        self.segments.get(at + 1).map(|next| next.begin)
    }

    /// The index of the segment that has, or will have, the entry `number`.
    pub fn segment_of(&self, number: u64) -> Option<usize> {
        self.segments.partition_point(|segment| segment.begin <= number).checked_sub(1)
    }

    /// Begins a segment of the present epoch at `begin`, where the open one was sealed.
    pub fn begin_segment(&mut self, begin: u64) {
        if let Some(last) = self.segments.pop_if(|last| last.begin == begin) {
            self.ended.push(Ended { epoch: last.epoch, seal: begin });
        }
        self.segments.push(Segment { epoch: self.epoch, begin });
        self.mark = begin;
    }

    /// Ends the segments whose entries are all below `first`.
    pub fn trim(&mut self, first: u64) {
        self.first = self.first.max(first);
        while let Some(end) = self.end(0).filter(|end| *end <= self.first) {
            let segment = self.segments.remove(0);
            self.ended.push(Ended { epoch: segment.epoch, seal: end });
        }
    }

    /// Its text.
    pub fn encode(&self) -> Bytes {
        let mut text = format!("{TITLE}\nformat {FORMAT}\nid {}\nrevision {}\n", self.id, self.revision);
        let _ = write!(
            text,
            "epoch {}\nserver {}\nlease-ms {}\nreleased {}\nfirst {}\nmark {}\n",
            self.epoch,
            keys::named(&self.server),
            self.lease.as_millis(),
            u8::from(self.released),
            self.first,
            self.mark
        );
        for Segment { epoch, begin } in &self.segments {
            let _ = writeln!(text, "segment {epoch} {begin}");
        }
        for Ended { epoch, seal } in &self.ended {
            let _ = writeln!(text, "ended {epoch} {seal}");
        }
        text.into()
    }

    /// Reads a record.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not text")?;
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) {
            return Err("it is not the record of a log".to_owned());
        }
        match lines.next().and_then(|line| line.strip_prefix("format ")) {
            Some(FORMAT) => {}
            Some(other) => {
                return Err(format!(
                    "it has the format {}, and this program reads {FORMAT}: use a newer program",
                    short(other)
                ));
            }
            None => return Err("it has no format".to_owned()),
        }
        let (mut record, mut seen) = (Self::new(LogId([0; 16])), 0);
        for line in lines {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            record.set(name, value).ok_or_else(|| format!("the line \"{}\" cannot be read", short(line)))?;
            seen += usize::from(!matches!(name, "segment" | "ended"));
        }
        record.check(seen)?;
        Ok(record)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let number = || value.parse::<u64>().ok();
        let pair = || {
            let (epoch, number) = value.split_once(' ')?;
            Some((epoch.parse().ok()?, number.parse().ok()?))
        };
        match name {
            "id" => self.id = id(value)?,
            "revision" => self.revision = number()?,
            "epoch" => self.epoch = number()?,
            "server" => self.server = keys::plain(value)?,
            "lease-ms" => self.lease = Duration::from_millis(number()?),
            "released" => self.released = number()? != 0,
            "first" => self.first = number()?,
            "mark" => self.mark = number()?,
            "segment" => self.segments.push(pair().map(|(epoch, begin)| Segment { epoch, begin })?),
            "ended" => self.ended.push(pair().map(|(epoch, seal)| Ended { epoch, seal })?),
            _ => return None,
        }
        Some(())
    }

    fn check(&self, fields: usize) -> Result<(), String> {
        let rising = self.segments.is_sorted_by(|one, next| one.epoch < next.epoch && one.begin < next.begin);
        let within = self.open().is_none_or(|open| open.epoch <= self.epoch && open.begin <= self.mark);
        let begins = self.segments.first().is_none_or(|segment| segment.begin <= self.first);
        if fields == 8 && rising && within && begins && (1..=self.mark).contains(&self.first) {
            return Ok(());
        }
        Err("its lines contradict each other".to_owned())
    }
}

fn id(text: &str) -> Option<LogId> {
    let digits = (text.len() == 32 && text.is_ascii()).then_some(text)?;
    let mut id = [0; 16];
    for (at, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(LogId(id))
}

fn short(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).take(60).collect()
}

/// Reads fields from bytes.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_others_are_refused_with_the_reason() {
        let mut record = Record::new(LogId([0xab; 16]));
        (record.epoch, record.server, record.lease) = (4, "a b\nserver".into(), Duration::from_secs(6));
        record.begin_segment(1);
        record.epoch = 5;
        record.begin_segment(9);
        record.epoch = 6;
        record.begin_segment(9);
        record.trim(3);
        assert_eq!(record.segments, [Segment { epoch: 4, begin: 1 }, Segment { epoch: 6, begin: 9 }]);
        assert_eq!(record.ended, [Ended { epoch: 5, seal: 9 }]);
        assert_eq!(
            [0, 1, 8, 9, 20].map(|number| record.segment_of(number)),
            [None, Some(0), Some(0), Some(1), Some(1)]
        );
        assert_eq!(Record::decode(&record.encode()), Ok(record.clone()));
        let text = String::from_utf8(record.encode().to_vec()).unwrap();
        for (from, to, why) in [
            ("format 1", "format 2", "use a newer program"),
            ("epoch 6", "epoch x", "epoch x"),
            ("first 3\n", "", "contradict"),
            ("segment 6 9", "segment 6 1", "contradict"),
            ("mark 9", "mark 8", "contradict"),
            ("amphora log", "something", "not the record"),
            ("mark 9", "marks 9", "marks 9"),
        ] {
            let refused = Record::decode(text.replace(from, to).as_bytes()).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        record.trim(9);
        assert_eq!((record.segments.len(), record.ended.len(), record.first), (1, 2, 9));
    }
}
