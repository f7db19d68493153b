//! Durations as people write them: `24h`, `90s`, `500ms`.

use std::str::FromStr;
use std::time::Duration;

use objstore::units::parse_duration;

/// A duration greater than zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(pub Duration);

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_duration(text).map(Self)
    }
}

/// The interval of a periodic task: `7d`, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval(pub Option<Duration>);

impl FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        text.parse().map(|Period(span)| Self(Some(span))).map_err(|why| format!("{why}; or off"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_at_intervals_can_be_off() {
        assert_eq!("off".parse(), Ok(Interval(None)));
        assert_eq!("7d".parse(), Ok(Interval(Some(Duration::from_secs(7 * 86_400)))));
        assert!("never".parse::<Interval>().is_err_and(|why| why.contains("off")));
    }
}
