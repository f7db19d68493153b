//! The parser of sizes and durations, for flags, files, class parameters and mount options.
//!
//! - A size is a `resource.Quantity` of Kubernetes: a decimal number with a suffix (`Ki` to `Ei`; `n`, `u`, `m`, `k` to
//!   `E`) or an exponent (`e3`, `E3`), rounded up to whole bytes as `Quantity.Value` does. `K` is accepted for `k`.
//! - A duration is what Go's `time.ParseDuration` accepts, plus `d` and `w`, rounded up to whole milliseconds: `90s`,
//!   `1h30m`, `1.5h`.
//! - The only sign is `+`; spaces are refused, and nothing is guessed.

use std::time::Duration;

/// Suffixes of powers of 1024.
const BINARY: [(&str, u32); 6] = [("Ki", 1), ("Mi", 2), ("Gi", 3), ("Ti", 4), ("Pi", 5), ("Ei", 6)];
/// Suffixes of powers of ten, by their exponent.
const DECIMAL: [(&str, i32); 11] =
    [("n", -9), ("u", -6), ("m", -3), ("k", 3), ("K", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18), ("", 0)];
/// Units of time, in milliseconds.
const TIMES: [(&str, u64); 6] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60 * 1_000),
    ("h", 60 * 60 * 1_000),
    ("d", 24 * 60 * 60 * 1_000),
    ("w", 7 * 24 * 60 * 60 * 1_000),
];
/// The most digits of a number: no size needs more, and no arithmetic overflows.
const DIGITS_MAX: usize = 27;

/// A decimal number: its digits, and how many of them are after the point.
#[derive(Clone, Copy)]
struct Number {
    digits: u128,
    decimals: u32,
}

impl Number {
    /// The number at the beginning of a text, and the rest.
    fn take(text: &str) -> Option<(Self, &str)> {
        let end = text.bytes().position(|byte| !byte.is_ascii_digit() && byte != b'.').unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let decimals_shown = decimals.trim_end_matches('0');
        let digits = [whole.trim_start_matches('0'), decimals_shown].concat();
        if whole.len() + decimals.len() == 0 || decimals.contains('.') || digits.len() > DIGITS_MAX {
            return None;
        }
        let digits = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        Some((Self { digits, decimals: u32::try_from(decimals_shown.len()).ok()? }, rest))
    }

    /// The product with a whole number and a power of ten, rounded up.
    fn times(self, factor: u64, exponent: i32) -> Option<u64> {
        if self.digits == 0 {
            return Some(0);
        }
        let product = self.digits.checked_mul(u128::from(factor))?;
        let exponent = exponent.checked_sub_unsigned(self.decimals)?;
        let power = 10_u128.checked_pow(exponent.unsigned_abs());
        let scaled = match (exponent < 0, power) {
            (false, Some(power)) => product.checked_mul(power)?,
            (false, None) => return None,
            (true, Some(power)) => product.div_ceil(power),
            // Any fraction of a byte is rounded up to one.
            (true, None) => 1,
        };
        u64::try_from(scaled).ok()
    }
}

/// Parses a size in bytes.
///
/// # Errors
/// The accepted forms, in words.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let odd = || "use whole bytes, or a suffix: Ki, Mi, Gi, Ti, Pi, Ei, k, M, G, T, P or E, as in 10Gi".to_owned();
    let (number, suffix) = Number::take(text.strip_prefix('+').unwrap_or(text)).ok_or_else(odd)?;
    let (factor, exponent) = scale(suffix).ok_or_else(odd)?;
    number.times(factor, exponent).ok_or_else(|| "it is more than 16 EiB".to_owned())
}

/// The factor and the power of ten of a suffix.
fn scale(suffix: &str) -> Option<(u64, i32)> {
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((1 << (10 * power), 0));
    }
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((1, *exponent));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let is_number = (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| exponent.parse().ok()).flatten().map(|exponent| (1, exponent))
}

/// Parses a duration greater than zero.
///
/// # Errors
/// The accepted forms, in words.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let odd = || "use a number above 0 and a unit: ms, s, m, h, d or w, as in 24h or 1h30m".to_owned();
    let (mut rest, mut millis) = (text, 0_u64);
    while !rest.is_empty() {
        let (number, behind) = Number::take(rest).ok_or_else(odd)?;
        let end = behind.find(|letter: char| !letter.is_alphabetic()).unwrap_or(behind.len());
        let unit = TIMES.iter().find(|(name, _)| *name == &behind[..end]).ok_or_else(odd)?;
        millis = number.times(unit.1, 0).and_then(|part| millis.checked_add(part)).ok_or_else(odd)?;
        rest = &behind[end..];
    }
    if millis == 0 { Err(odd()) } else { Ok(Duration::from_millis(millis)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_quantities_of_kubernetes() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("+7", 7),
            ("10Gi", 10 << 30),
            ("15Ei", 15 << 60),
            ("500M", 500_000_000),
            ("3k", 3_000),
            ("3K", 3_000),
            ("2E", 2_000_000_000_000_000_000),
            ("2E3", 2_000),
            ("2e3", 2_000),
            ("12e+6", 12_000_000),
            ("123000e-3", 123),
            ("1.5Gi", 3 << 29),
            (".5Ki", 512),
            ("1.", 1),
            ("0.1", 1),
            ("100m", 1),
            ("5000m", 5),
            ("1n", 1),
            ("1e-99", 1),
            ("0e99", 0),
            ("0.000000000Ei", 0),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_sizes() {
        for text in [
            "", "Gi", "-1", "10 Gi", "10GB", "10gi", "1ki", "1Kb", "e3", "1e", "1e1.5", "1e+", "1.2.3", ".", "+",
            "++1", "0x10", "1_000", "1Gi ", "٣",
        ] {
            assert!(parse_size(text).is_err_and(|why| why.contains("Ki, Mi")), "{text}");
        }
        for text in ["16Ei", "18446744073709551616", "1e20", "1e999", "19E"] {
            assert!(parse_size(text).is_err_and(|why| why.contains("16 EiB")), "{text}");
        }
    }

    #[test]
    fn spans_are_read_with_their_units() {
        let millis = Duration::from_millis;
        for (text, span) in [
            ("500ms", millis(500)),
            ("10s", millis(10_000)),
            ("2m", millis(120_000)),
            ("24h", millis(86_400_000)),
            ("1d", millis(86_400_000)),
            ("1w", millis(7 * 86_400_000)),
            ("1h30m", millis(5_400_000)),
            ("1.5h", millis(5_400_000)),
            ("0.25ms", millis(1)),
        ] {
            assert_eq!(parse_duration(text), Ok(span), "{text}");
        }
        for text in
            ["", "10", "s", "0s", "-1s", "+1s", "1 h", "1y", "1M", "1h 5m", "9us", "99999999999999999999s", "1..5h"]
        {
            assert!(parse_duration(text).is_err_and(|why| why.contains("24h")), "{text}");
        }
    }
}
