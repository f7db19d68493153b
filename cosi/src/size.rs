//! Sizes as people write them: a number of bytes, or one with a suffix.

use objstore::{Error, Result};

/// Suffixes and how many bytes each stands for.
const SUFFIXES: [(&str, u64); 10] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
];

/// Parses a size such as `1073741824`, `1Gi` or `500M`. `what` names the field in the error.
pub fn parse(what: &'static str, text: &str) -> Result<u64> {
    let (digits, unit) =
        SUFFIXES.iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit))).unwrap_or((text, 1));
    let bytes = || {
        // `u64::from_str` takes a leading plus.
        let number: u64 = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
        number.checked_mul(unit).filter(|bytes| (1..=i64::MAX as u64).contains(bytes))
    };
    bytes().ok_or_else(|| {
        Error::invalid(what, text, "use a number of bytes above 0, or one with Ki, Mi, Gi, Ti, Pi, K, M, G, T or P")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_written() {
        let cases = [
            ("1", 1),
            ("4096", 4096),
            ("1Ki", 1024),
            ("1K", 1000),
            ("10Gi", 10 << 30),
            ("2T", 2_000_000_000_000),
            ("9223372036854775807", i64::MAX as u64),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse("quota", text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_by_name() {
        for text in
            ["", "0", "0Gi", "-1", "+1", "1.5Gi", "1 Gi", "Gi", "1gi", "1KiB", "9223372036854775808", "99999999Pi"]
        {
            let error = parse("quota", text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("quota \"{text}\"")), "{error}");
        }
    }
}
