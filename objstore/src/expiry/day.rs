//! Days of lifecycle rules.

use std::time::Duration;

use crate::clock::Timestamp;

/// A day, in nanoseconds.
const CALENDAR_NANOS: i64 = 24 * 60 * 60 * 1_000_000_000;
/// The number of passes in a short day.
const PASSES: u32 = 10;
/// The shortest time between the starts of two passes.
const PASS_MIN: Duration = Duration::from_secs(1);

/// The length of a day. Tests make it short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day(Duration);

impl Default for Day {
    fn default() -> Self {
        Self(Duration::from_nanos(CALENDAR_NANOS.unsigned_abs()))
    }
}

impl Day {
    /// A day of this length. Days of 24 hours end at midnight UTC; others have this length from any start.
    pub fn new(length: Duration) -> Self {
        Self(length)
    }

    /// Its length.
    pub(crate) fn length(self) -> Duration {
        self.0
    }

    fn is_calendar(self) -> bool {
        self == Self::default()
    }

    /// When something from the time `from` is `days` days old: at the first midnight UTC after that (S3 User Guide,
    /// "Lifecycle rules based on an object's age").
    pub fn due(self, from: Timestamp, days: u32) -> Timestamp {
        let length = i64::try_from(self.0.as_nanos()).unwrap_or(i64::MAX);
        let end = from.0.saturating_add(length.saturating_mul(i64::from(days)));
        Timestamp(if self.is_calendar() { midnight_from(end) } else { end })
    }

    /// The start of the pass after one begun at `started`: after the next midnight; several times in a short day.
    pub(crate) fn next_pass(self, started: Timestamp) -> Timestamp {
        if self.is_calendar() {
            return Timestamp(midnight_from(started.0.saturating_add(1)));
        }
        let pause = i64::try_from((self.0 / PASSES).max(PASS_MIN).as_nanos()).unwrap_or(i64::MAX);
        Timestamp(started.0.saturating_add(pause))
    }
}

/// The first midnight UTC that is not before `nanos`.
fn midnight_from(nanos: i64) -> i64 {
    nanos.saturating_add((-nanos).rem_euclid(CALENDAR_NANOS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = CALENDAR_NANOS / 24;

    #[test]
    fn days_of_the_calendar_end_at_midnight() {
        let day = Day::default();
        for (from, days, due) in [(10, 1, 48), (0, 1, 24), (24, 3, 96), (-10, 1, 24), (23, 0, 24)] {
            assert_eq!(day.due(Timestamp(from * HOUR), days), Timestamp(due * HOUR), "{from} {days}");
        }
        assert_eq!(day.next_pass(Timestamp(0)), Timestamp(24 * HOUR));
        assert_eq!(day.next_pass(Timestamp(25 * HOUR)), Timestamp(48 * HOUR));
        assert_eq!(day.due(Timestamp(i64::MAX), u32::MAX), Timestamp(i64::MAX));
    }

    #[test]
    fn short_days_are_just_so_long() {
        let day = Day::new(Duration::from_secs(20));
        assert_eq!(day.due(Timestamp(7), 3), Timestamp(60_000_000_007));
        assert_eq!(day.next_pass(Timestamp(0)), Timestamp(2_000_000_000));
        assert_eq!(Day::new(Duration::from_millis(10)).next_pass(Timestamp(0)), Timestamp(1_000_000_000));
    }
}
