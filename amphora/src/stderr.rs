//! Standard error for the log: if its reader stops reading, the server continues and drops lines.
//!
//! - A line is written if there is room for it. Otherwise it waits for [`PATIENCE`] and is then dropped, and so are the
//!   following lines until there is room again. The next line is preceded by the number of dropped ones.
//! - After a line waited in vain, no line waits for [`REST`], so a reader that takes a line now and then delays
//!   nothing.
//! - Nothing is buffered: what was written reaches the reader even if the process dies.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long a line waits for a slow reader.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long no line waits after one waited in vain.
const REST: Duration = Duration::from_secs(10);
/// The most bytes that a pipe or socket accepts without blocking once it is writable (`PIPE_BUF`).
const PIECE_BYTES: usize = 4096;

/// Formats the notice about a number of dropped lines.
type Notice = fn(u64) -> String;

/// A stream that does not wait for its reader.
pub(crate) struct Stream<W> {
    inner: W,
    notice: Notice,
    /// Number of dropped lines.
    missed: u64,
    /// Whether the last line was written in part.
    torn: bool,
    /// Until when no line waits.
    hurry: Option<Instant>,
}

impl<W: Write + AsFd> Stream<W> {
    /// Writes to `inner`.
    pub(crate) fn new(inner: W, notice: Notice) -> Self {
        Self { inner, notice, missed: 0, torn: false, hurry: None }
    }

    /// Writes a text, if there is room for it.
    fn put(&mut self, text: &[u8]) -> bool {
        for (index, piece) in text.chunks(PIECE_BYTES).enumerate() {
            if !self.has_room() || self.inner.write_all(piece).is_err() {
                self.torn |= index > 0;
                return false;
            }
        }
        true
    }

    fn has_room(&mut self) -> bool {
        let now = Instant::now();
        let waits = self.hurry.is_none_or(|until| now >= until);
        let patience = if waits { PATIENCE } else { Duration::ZERO };
        let patience = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
        let room = poll(&mut [PollFd::new(&self.inner, PollFlags::OUT)], Some(&patience)) != Ok(0);
        if !room && waits {
            self.hurry = Some(now + REST);
        }
        room
    }

    /// Writes the notice about dropped lines, if there is room for it.
    fn catch_up(&mut self) {
        if self.missed == 0 {
            return;
        }
        let end = if self.torn { "\n" } else { "" };
        let notice = format!("{end}{}\n", (self.notice)(self.missed));
        if self.put(notice.as_bytes()) {
            (self.missed, self.torn) = (0, false);
        }
    }
}

impl<W: Write + AsFd> Write for Stream<W> {
    /// Takes a whole line, whether it is written or dropped.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.catch_up();
        if self.missed > 0 || !self.put(line) {
            self.missed += 1;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use super::*;

    const LINES: usize = 2000;

    #[test]
    fn a_reader_that_stops_holds_nothing_up_and_is_told_what_it_missed() {
        let (reader, writer) = io::pipe().unwrap();
        let mut stream = Stream::new(writer, |missed| format!("missed {missed}"));
        let begun = Instant::now();
        let line = format!("{}\n", "x".repeat(99));
        for _ in 0..LINES {
            stream.write_all(line.as_bytes()).unwrap();
        }
        let waited = begun.elapsed();
        assert!(waited >= PATIENCE && waited < REST, "{waited:?}");
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        let missed = usize::try_from(stream.missed).unwrap();
        assert!((1..LINES).contains(&missed), "{missed}");
        assert!(lines.by_ref().take(LINES - missed).all(|line| line.len() == 99));
        stream.write_all(b"again\n").unwrap();
        assert_eq!(lines.next(), Some(format!("missed {missed}")));
        assert_eq!(lines.next().as_deref(), Some("again"));
    }

    #[test]
    fn a_long_line_that_found_no_end_ends_before_the_next() {
        let (reader, writer) = io::pipe().unwrap();
        let mut stream = Stream::new(writer, |missed| format!("missed {missed}"));
        stream.write_all(&[vec![b'x'; 1 << 20], b"\n".to_vec()].concat()).unwrap();
        assert!(stream.torn);
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        let reading = std::thread::spawn(move || (lines.next(), lines.next(), lines.next()));
        while stream.missed > 0 {
            stream.catch_up();
        }
        stream.write_all(b"again\n").unwrap();
        let (torn, notice, again) = reading.join().unwrap();
        assert!(torn.is_some_and(|torn| torn.len() < 1 << 20));
        assert_eq!((notice.as_deref(), again.as_deref()), (Some("missed 1"), Some("again")));
    }
}
