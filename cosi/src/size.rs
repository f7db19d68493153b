//! Sizes in class parameters: Kubernetes quantities greater than zero.

use objstore::units::parse_size;
use objstore::{Error, Result};

/// Parses a size such as `1073741824`, `1Gi` or `500M`. `what` names the field in the error.
pub fn parse(what: &'static str, text: &str) -> Result<u64> {
    match parse_size(text) {
        // The range of a quantity in Kubernetes.
        Ok(bytes) if (1..=i64::MAX as u64).contains(&bytes) => Ok(bytes),
        Ok(_) => Err(Error::invalid(what, text, "use a size above 0 and below 8Ei")),
        Err(why) => Err(Error::invalid(what, text, why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_written() {
        let cases = [
            ("1", 1),
            ("1Ki", 1024),
            ("1K", 1000),
            ("1k", 1000),
            ("10Gi", 10 << 30),
            ("1.5Gi", 3 << 29),
            ("2e9", 2_000_000_000),
            ("7Ei", 7 << 60),
            ("9223372036854775807", i64::MAX as u64),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse("quota", text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_by_name() {
        for text in ["", "0", "0Gi", "-1", "1 Gi", "Gi", "1gi", "1KiB", "9223372036854775808", "99999999Pi"] {
            let error = parse("quota", text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("quota \"{text}\"")), "{error}");
        }
    }
}
