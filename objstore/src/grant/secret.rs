//! The secret of an access key in memory.

use zeroize::Zeroizing;

/// A secret: it is never printed, and its memory is overwritten on drop.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(Zeroizing::new(secret.into()))
    }

    /// The secret's text; never to be logged or put in an error.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use zeroize::ZeroizeOnDrop;

    use super::*;

    #[test]
    fn a_secret_is_overwritten_when_it_is_dropped() {
        let is_overwritten = |_: &dyn ZeroizeOnDrop| true;
        assert!(is_overwritten(&Secret::new("hush").0));
    }
}
