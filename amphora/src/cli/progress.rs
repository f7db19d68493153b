//! Progress of a long command: one line on stderr that is overwritten, only if stderr is a terminal.
//!
//! - For bytes it shows the rate, and if the total is known, the remaining time at that rate.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use super::output::size_text;

/// The interval of updates.
const PERIOD: Duration = Duration::from_millis(100);
/// How long to wait before a rate is meaningful.
const FIRST_RATE: Duration = Duration::from_secs(1);

/// The line.
pub(super) struct Line {
    terminal: bool,
    shown: Option<Instant>,
    pace: Option<ProgressRate>,
}

impl Line {
    pub(super) fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), shown: None, pace: None }
    }

    /// Shows a text, unless the last one is very recent.
    pub(super) fn show(&mut self, text: &dyn Fn() -> String) {
        if self.is_due() {
            self.write(&text());
        }
    }

    /// Shows how many of how many bytes are done, with the rate; `more` is appended.
    pub(super) fn show_bytes(&mut self, work: &str, (done, total): (u64, u64), more: &str) {
        // The next bucket or phase starts a new rate.
        if self.pace.as_ref().is_none_or(|pace| pace.work != work || done < pace.first) {
            self.pace = Some(ProgressRate { work: work.to_owned(), begun: Instant::now(), first: done });
        }
        if self.is_due() {
            let took = self.pace.as_ref().map(|pace| (pace.begun.elapsed(), done - pace.first));
            let pace = took.map(|(time, bytes)| pace_text(bytes, time, total.saturating_sub(done))).unwrap_or_default();
            self.write(&format!("{work} {}{pace}{more}", share(done, total)));
        }
    }

    fn is_due(&self) -> bool {
        self.terminal && self.shown.is_none_or(|shown| shown.elapsed() >= PERIOD)
    }

    fn write(&mut self, text: &str) {
        self.shown = Some(Instant::now());
        // A failed write does not matter to the command.
        let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// The work in progress, when it began, and what was done before.
struct ProgressRate {
    work: String,
    begun: Instant,
    first: u64,
}

/// A share of a total.
pub(super) fn share(done: u64, total: u64) -> String {
    if total == 0 {
        return size_text(done);
    }
    let percent = u128::from(done.min(total)) * 100 / u128::from(total);
    format!("{percent:3} %  {} of {}", size_text(done), size_text(total))
}

/// The rate of `done` bytes in `time`, and the remaining time for `left` bytes.
fn pace_text(done: u64, time: Duration, left: u64) -> String {
    if time < FIRST_RATE || done == 0 {
        return String::new();
    }
    let a_second = u128::from(done) * 1000 / time.as_millis().max(1);
    let rate = size_text(u64::try_from(a_second).unwrap_or(u64::MAX));
    if left == 0 {
        return format!(", {rate}/s");
    }
    let seconds = u128::from(left).div_ceil(a_second.max(1));
    format!(", {rate}/s, {} left", span_text(u64::try_from(seconds).unwrap_or(u64::MAX)))
}

/// A duration in its two largest units.
fn span_text(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match hours {
        0 if minutes == 0 => format!("{seconds} s"),
        0 => format!("{minutes} min {} s", seconds % 60),
        1..48 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_in_percent_where_the_whole_is_known() {
        assert_eq!(share(512, 1024), " 50 %  512 of 1Ki");
        assert_eq!(share(2048, 1024), "100 %  2Ki of 1Ki");
        assert_eq!(share(2048, 0), "2Ki");
    }

    #[test]
    fn a_rate_tells_the_time_that_is_left() {
        let pace = |done, seconds, left| pace_text(done, Duration::from_secs(seconds), left);
        assert_eq!(pace(10 << 20, 10, 60 << 20), ", 1Mi/s, 1 min 0 s left");
        assert_eq!(pace(10 << 20, 10, 0), ", 1Mi/s");
        assert_eq!(pace(10 << 20, 0, 1), "", "too early");
        assert_eq!(pace(0, 10, 1), "", "nothing yet");
        assert_eq!(pace(1, 3600, u64::MAX).split(", ").count(), 3);
    }

    #[test]
    fn spans_have_two_units() {
        let text = [59, 61, 3_600, 86_400, 200_000].map(span_text);
        assert_eq!(text, ["59 s", "1 min 1 s", "1 h 0 min", "24 h 0 min", "2 d 7 h"]);
    }
}
