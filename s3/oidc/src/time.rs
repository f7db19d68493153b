//! Times in tokens: seconds since 1970, with or without a fraction (RFC 7519, NumericDate).

use serde::{Deserialize, Deserializer};

/// How far the clock of an issuer may differ from ours, in seconds.
pub const LEEWAY_SECONDS: i64 = 30;

/// The latest second that counts as a time: the end of the year 9999.
const SECOND_MAX: f64 = 253_402_300_799.0;

/// A time of a token, in seconds since 1970; a fraction is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumericDate(pub(crate) i64);

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let seconds = number.as_f64().filter(|seconds| (0.0..=SECOND_MAX).contains(seconds));
        #[expect(clippy::cast_possible_truncation, reason = "the range was checked, and a fraction does not count")]
        seconds.map(|seconds| Self(seconds as i64)).ok_or_else(|| serde::de::Error::custom("no time"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_of_this_era() {
        let read = |text: &str| serde_json::from_str::<NumericDate>(text).ok().map(|date| date.0);
        for (text, expected) in [
            ("1800000000", Some(1_800_000_000)),
            ("1800000000.9", Some(1_800_000_000)),
            ("1.8e9", Some(1_800_000_000)),
            ("0", Some(0)),
            ("-1", None),
            ("1e300", None),
            ("253402300800", None),
            ("\"1800000000\"", None),
            ("null", None),
            ("true", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
