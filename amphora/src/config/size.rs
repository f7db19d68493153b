//! Sizes as people write them, and as they are printed: `1048576`, `10Gi`, `500M`.

use std::fmt;
use std::str::FromStr;

use objstore::units::parse_size;

/// Suffixes for printing.
const SUFFIXES: [(&str, u64); 6] =
    [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("Ti", 1 << 40), ("Pi", 1 << 50), ("Ei", 1 << 60)];

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The number of bytes.
    pub bytes: u64,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_size(text).map(|bytes| Self { bytes })
    }
}

impl fmt::Display for Size {
    /// With at most one decimal, in powers of 1024.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SUFFIXES.iter().rev().find(|(_, factor)| self.bytes >= *factor) {
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
    fn prints_in_powers_of_1024() {
        let text = |bytes| Size { bytes }.to_string();
        assert_eq!((text(0), text(1023), text(1024)), ("0".into(), "1023".into(), "1Ki".into()));
        assert_eq!((text(1536), text(u64::MAX)), ("1.5Ki".into(), "15.9Ei".into()));
    }
}
