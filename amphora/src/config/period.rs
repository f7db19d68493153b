//! Spans of time as people write them: `24h`, `90s`, `500ms`.

use std::str::FromStr;
use std::time::Duration;

/// What a suffix multiplies by, in milliseconds. `ms` stands before `m` and `s`, which it ends with.
const SUFFIXES: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60 * 1_000), ("h", 60 * 60 * 1_000), ("d", 24 * 60 * 60 * 1_000)];

/// A span of time, longer than nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(pub Duration);

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, factor)));
        let count = read.filter(|(digits, _)| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let span = count.and_then(|(digits, factor)| digits.parse::<u64>().ok()?.checked_mul(*factor));
        match span {
            Some(span @ 1..) => Ok(Self(Duration::from_millis(span))),
            _ => Err("use a whole number above 0 and a unit: ms, s, m, h or d, as in 24h".into()),
        }
    }
}

/// How often something is done of its own accord: `7d`, or `off`.
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

    #[test]
    fn spans_are_read_with_their_unit() {
        for (text, span) in [("500ms", 500), ("10s", 10_000), ("2m", 120_000), ("24h", 86_400_000), ("1d", 86_400_000)]
        {
            assert_eq!(text.parse(), Ok(Period(Duration::from_millis(span))), "{text}");
        }
        for text in ["", "10", "s", "0s", "-1s", "1.5h", "+1s", "1 h", "1w", "99999999999999999999s"] {
            assert!(text.parse::<Period>().is_err_and(|why| why.contains("24h")), "{text}");
        }
    }
}
