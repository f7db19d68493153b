//! Lines that wait for their delivery.
//!
//! - All lines together take at most [`BYTES_MAX`], those whose bucket was not looked up yet at most [`HELD_BYTES_MAX`]
//!   of it; lines that are being delivered count until that is done.
//! - A batch is delivered when it has [`BATCH_BYTES`], or when its oldest line is old enough.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use objstore::name::BucketName;
use time::Date;

use super::route::Route;

/// The most bytes of all lines.
pub(super) const BYTES_MAX: usize = 32 << 20;
/// The most bytes of lines whose bucket was not looked up yet.
const HELD_BYTES_MAX: usize = 4 << 20;
/// The size at which a batch is delivered; one line may exceed it.
pub(super) const BATCH_BYTES: usize = 4 << 20;
/// Bytes counted for a batch or a held line besides its text.
const OVERHEAD_BYTES: usize = 512;

/// The outcome of adding a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// The line waits with others.
    Waits,
    /// The line waits, and the delivery task has work at once.
    Due,
    /// The buffer is full: the line is dropped.
    Full,
}

/// Lines of one day with one route: one object.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) route: Arc<Route>,
    /// The day of the requests.
    pub(super) day: Date,
    /// The lines.
    pub(super) text: String,
    /// The number of lines.
    pub(super) lines: u64,
    since: Instant,
}

/// A line whose route is not known yet.
pub(super) struct Held {
    pub(super) bucket: BucketName,
    pub(super) day: Date,
    pub(super) text: String,
}

/// All waiting lines.
#[derive(Default)]
pub(super) struct Buffer {
    batches: HashMap<(Arc<Route>, Date), Batch>,
    held: Vec<Held>,
    held_bytes: usize,
    bytes: usize,
}

impl Buffer {
    /// Adds a line whose route is known; `text` begins behind the name of the bucket's owner.
    pub(super) fn append(&mut self, route: Arc<Route>, day: Date, text: &str, now: Instant) -> Kept {
        let bytes = route.owner.len() + text.len() + 2;
        if self.bytes + bytes + OVERHEAD_BYTES > BYTES_MAX {
            return Kept::Full;
        }
        let batch = self.batches.entry((Arc::clone(&route), day)).or_insert_with(|| {
            self.bytes += OVERHEAD_BYTES;
            Batch { route, day, text: String::new(), lines: 0, since: now }
        });
        self.bytes += bytes;
        for part in [&batch.route.owner, " ", text, "\n"] {
            batch.text.push_str(part);
        }
        batch.lines += 1;
        // The worker sleeps until the oldest batch is due, so it has to learn of a new one.
        if batch.lines == 1 || batch.text.len() >= BATCH_BYTES { Kept::Due } else { Kept::Waits }
    }

    /// Keeps a line until its route was looked up.
    pub(super) fn hold(&mut self, bucket: &BucketName, day: Date, text: String) -> Kept {
        let bytes = text.len() + OVERHEAD_BYTES;
        if self.held_bytes + bytes > HELD_BYTES_MAX || self.bytes + bytes > BYTES_MAX {
            return Kept::Full;
        }
        (self.bytes, self.held_bytes) = (self.bytes + bytes, self.held_bytes + bytes);
        self.held.push(Held { bucket: bucket.clone(), day, text });
        Kept::Due
    }

    /// Takes all lines whose route has to be looked up; the caller appends or drops them.
    pub(super) fn take_held(&mut self) -> Vec<Held> {
        self.bytes -= std::mem::take(&mut self.held_bytes);
        std::mem::take(&mut self.held)
    }

    /// Takes the batches that are due. Their bytes count until [`Buffer::done`].
    pub(super) fn take_due(&mut self, now: Instant, delay: Duration) -> Vec<Batch> {
        let due = |batch: &Batch| batch.text.len() >= BATCH_BYTES || now.duration_since(batch.since) >= delay;
        self.batches.extract_if(|_, batch| due(batch)).map(|(_, batch)| batch).collect()
    }

    /// Stops counting a batch with so many bytes of text, which was delivered or dropped.
    pub(super) fn done(&mut self, text_bytes: usize) {
        self.bytes -= text_bytes + OVERHEAD_BYTES;
    }

    /// When the next batch is old enough.
    pub(super) fn next_due(&self, delay: Duration) -> Option<Instant> {
        self.batches.values().map(|batch| batch.since + delay).min()
    }
}

#[cfg(test)]
mod tests {
    use objstore::store::LogKeyFormat;
    use time::macros::date;

    use super::*;

    const DAY: Date = date!(2026 - 03 - 09);
    const DELAY: Duration = Duration::from_secs(300);

    fn route(source: &str) -> Arc<Route> {
        Arc::new(Route {
            source: source.parse().unwrap(),
            owner: "alice".into(),
            owner_id: 7,
            target: "logs".parse().unwrap(),
            prefix: String::new(),
            format: LogKeyFormat::Unset,
        })
    }

    #[test]
    fn all_lines_together_are_bounded_and_a_delivery_makes_room() {
        let (mut buffer, now, line) = (Buffer::default(), Instant::now(), "x".repeat(60_000));
        let mut kept = 0;
        while buffer.append(route(&format!("bucket-{kept}")), DAY, &line, now) != Kept::Full {
            kept += 1;
        }
        assert!(buffer.bytes <= BYTES_MAX && kept > 500, "{kept} {}", buffer.bytes);
        let due = buffer.take_due(now, Duration::ZERO);
        assert_eq!((due.len(), buffer.append(route("more"), DAY, &line, now)), (kept, Kept::Full), "they still count");
        due.iter().for_each(|batch| buffer.done(batch.text.len()));
        assert_eq!((buffer.bytes, buffer.append(route("more"), DAY, &line, now)), (0, Kept::Due));
    }

    #[test]
    fn lines_whose_way_is_unknown_take_only_a_part() {
        let (mut buffer, bucket) = (Buffer::default(), "abc".parse().unwrap());
        while buffer.hold(&bucket, DAY, "x".repeat(60_000)) != Kept::Full {}
        assert!(buffer.held_bytes <= HELD_BYTES_MAX);
        assert_eq!(buffer.append(route("other"), DAY, "line", Instant::now()), Kept::Due);
        assert!(buffer.take_held().len() > 60 && buffer.held_bytes == 0);
    }

    #[test]
    fn a_batch_is_due_by_its_age_or_its_size() {
        let (mut buffer, now) = (Buffer::default(), Instant::now());
        assert_eq!(buffer.append(route("small"), DAY, "first", now), Kept::Due, "the worker learns when it is due");
        assert_eq!(buffer.append(route("small"), DAY, "second", now + DELAY / 2), Kept::Waits);
        assert_eq!((buffer.next_due(DELAY), buffer.take_due(now, DELAY).len()), (Some(now + DELAY), 0));
        let line = "x".repeat(BATCH_BYTES);
        assert_eq!(buffer.append(route("large"), DAY, &line, now), Kept::Due);
        assert_eq!(buffer.take_due(now, DELAY).len(), 1, "the large one");
        let due = buffer.take_due(now + DELAY, DELAY);
        assert_eq!((due[0].lines, due[0].text.as_str()), (2, "alice first\nalice second\n"));
    }
}
