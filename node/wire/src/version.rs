//! Versions of the protocol, and the choice of one that both sides speak.
//!
//! A release speaks its own version and the one before it, so a node and a store one minor release apart work together
//! in both directions. Further apart, the store refuses and names both ranges.

use std::fmt;

/// A range of protocol versions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest version.
    pub min: u32,
    /// The newest version.
    pub max: u32,
}

/// The versions that this release speaks. There is no version before the first one.
pub const SPOKEN: Versions = Versions { min: 1, max: 1 };

impl Versions {
    /// The newest version that both ranges contain.
    pub fn highest_common(self, other: Self) -> Option<u32> {
        let highest = self.max.min(other.max);
        (highest >= self.min.max(other.min)).then_some(highest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_speak_the_highest_common_version_and_others_none() {
        let release = |max: u32| Versions { min: max - 1, max };
        assert_eq!(release(5).highest_common(release(5)), Some(5));
        assert_eq!(release(5).highest_common(release(6)), Some(5), "an older store");
        assert_eq!(release(6).highest_common(release(5)), Some(5), "an older node");
        assert_eq!(release(5).highest_common(release(7)), None);
        assert_eq!(Versions { min: 9, max: 2 }.highest_common(release(5)), None, "an empty range");
    }
}
