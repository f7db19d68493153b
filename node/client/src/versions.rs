//! Whether the bucket keeps versions, as the store tells with its answers.
//!
//! A mount asks for it after each opening for writing, and the answer to that opening tells it. A bucket that had versioning
//! once counts as one that keeps versions for ever. So an answer that was overtaken by a later one changes nothing.

use std::sync::atomic::{AtomicU32, Ordering};

use node_codec::session::{NEVER_VERSIONED, VERSIONED};

/// What was told last; 0 before anything was.
#[derive(Default)]
pub(crate) struct Versions(AtomicU32);

impl Versions {
    /// An answer told this; 0 tells nothing.
    pub(crate) fn tell(&self, versions: u32) {
        if matches!(versions, NEVER_VERSIONED | VERSIONED) {
            self.0.fetch_max(versions, Ordering::AcqRel);
        }
    }

    /// Whether the bucket keeps versions; `None` if the store has to be asked.
    pub(crate) fn told(&self) -> Option<bool> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            versions => Some(versions == VERSIONED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_that_kept_versions_once_does_so_for_ever() {
        let versions = Versions::default();
        versions.tell(0);
        assert_eq!(versions.told(), None);
        versions.tell(NEVER_VERSIONED);
        assert_eq!(versions.told(), Some(false));
        versions.tell(VERSIONED);
        versions.tell(NEVER_VERSIONED);
        versions.tell(77);
        assert_eq!(versions.told(), Some(true));
    }
}
