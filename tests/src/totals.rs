//! Totals over all test binaries, parsed from their output.
//!
//! - A test that skipped itself returned, so the test harness counted it as passed; here it counts as skipped.

use std::fmt;

/// How many tests passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that panicked or returned an error.
    pub failed: u64,
    /// Tests that were ignored, or skipped because a tool or a privilege was missing.
    pub skipped: u64,
}

impl Totals {
    /// Adds the numbers of a test binary's summary line; other lines are ignored.
    pub fn add_line(&mut self, line: &str) {
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
            return;
        };
        for part in counts.split("; ") {
            let Some((Ok(count), what)) = part.split_once(' ').map(|(n, what)| (n.parse::<u64>(), what)) else {
                continue;
            };
            match what {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.skipped += count,
                _ => {}
            }
        }
    }

    /// Moves tests that skipped themselves from passed to skipped.
    pub fn move_skips(&mut self, count: u64) {
        let moved = count.min(self.passed);
        self.passed -= moved;
        self.skipped += moved;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_binaries_are_summed_and_skips_are_counted() {
        let mut totals = Totals::default();
        for line in [
            "running 3 tests",
            "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.10s",
            "test a::b ... FAILED",
            "test result: FAILED. 7 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s",
        ] {
            totals.add_line(line);
        }
        assert_eq!(totals, Totals { passed: 12, failed: 2, skipped: 1 });
        totals.move_skips(3);
        assert_eq!(totals.to_string(), "9 passed, 2 failed, 4 skipped");
    }
}
