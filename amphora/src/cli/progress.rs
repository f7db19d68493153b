//! How far a long command is: one line on stderr that is written over, and only if that is a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use super::output::size_text;

/// How often the line changes.
const PERIOD: Duration = Duration::from_millis(100);

/// The line.
pub(super) struct Line {
    terminal: bool,
    shown: Option<Instant>,
}

impl Line {
    pub(super) fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), shown: None }
    }

    /// Shows a text, unless the last one is very new.
    pub(super) fn show(&mut self, text: &dyn Fn() -> String) {
        if self.terminal && self.shown.is_none_or(|shown| shown.elapsed() >= PERIOD) {
            self.shown = Some(Instant::now());
            // Whether anybody can read it makes no difference to the command.
            let _ = write!(std::io::stderr(), "\r\x1b[K{}", text());
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// So much of so much.
pub(super) fn share(done: u64, total: u64) -> String {
    if total == 0 {
        return size_text(done);
    }
    let percent = u128::from(done.min(total)) * 100 / u128::from(total);
    format!("{percent:3} %  {} of {}", size_text(done), size_text(total))
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
}
