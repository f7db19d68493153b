//! Sizes as people write them: `1048576`, `10Gi`, `500M`.

use std::fmt;
use std::str::FromStr;

/// What a suffix multiplies by: powers of 1024 with an `i`, of 1000 without (as Kubernetes quantities).
const SUFFIXES: [(&str, u64); 12] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
];

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// How many.
    pub bytes: u64,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
        let (digits, suffix) = text.split_at(end);
        let factor = if suffix.is_empty() {
            Some(1)
        } else {
            SUFFIXES.iter().find(|(name, _)| *name == suffix).map(|(_, factor)| *factor)
        };
        let (false, Some(factor)) = (digits.is_empty(), factor) else {
            return Err("use whole bytes, or a suffix: Ki, Mi, Gi, Ti, Pi, Ei, k, M, G, T, P or E, as in 10Gi".into());
        };
        let bytes = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(factor));
        bytes.map(|bytes| Self { bytes }).ok_or_else(|| "it is more than 16 EiB".into())
    }
}

impl fmt::Display for Size {
    /// One decimal at most, in powers of 1024.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = SUFFIXES.iter().take(6).rev();
        match binary.into_iter().find(|(_, factor)| self.bytes >= *factor) {
            None => write!(f, "{}", self.bytes),
            Some((name, factor)) => {
                let (whole, tenths) = (self.bytes / factor, u128::from(self.bytes % factor) * 10 / u128::from(*factor));
                if tenths == 0 { write!(f, "{whole}{name}") } else { write!(f, "{whole}.{tenths}{name}") }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_multiply() {
        let bytes = |text: &str| text.parse::<Size>().map(|size| size.bytes);
        assert_eq!(bytes("0"), Ok(0));
        assert_eq!(bytes("10Gi"), Ok(10 << 30));
        assert_eq!(bytes("500M"), Ok(500_000_000));
        assert_eq!(bytes("3k"), Ok(3_000));
        assert_eq!(bytes("15Ei"), Ok(15 << 60));
    }

    #[test]
    fn other_text_is_refused_with_the_suffixes() {
        for bad in ["", "Gi", "1.5Gi", "-1", "10 Gi", "10GB", "10gi", "1K"] {
            let error = bad.parse::<Size>().expect_err(bad);
            assert!(error.contains("Ki, Mi"), "{bad}: {error}");
        }
        assert!("16Ei".parse::<Size>().expect_err("too much").contains("16 EiB"));
    }

    #[test]
    fn prints_in_powers_of_1024() {
        let text = |bytes| Size { bytes }.to_string();
        assert_eq!((text(0), text(1023), text(1024)), ("0".into(), "1023".into(), "1Ki".into()));
        assert_eq!((text(1536), text(u64::MAX)), ("1.5Ki".into(), "15.9Ei".into()));
    }
}
