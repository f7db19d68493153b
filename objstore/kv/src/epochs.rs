//! Change counts for each kind of key; a key's kind is its first byte.
//!
//! - A count is odd while a commit changes its kind, and even otherwise. It becomes odd before a reader can see the
//!   change, and even before the change is answered or announced.
//! - Counts only rise, and commits are serial. So while the sum of some counts is the same, none of those kinds has
//!   changed: a value read after the sum was taken is still current.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::backend::Changes;

/// A change count for each kind of key.
pub(super) struct Epochs([AtomicU64; 256]);

impl Default for Epochs {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; 256])
    }
}

impl Epochs {
    /// The sum of the counts of `kinds`, or `None` while one of them is being changed.
    pub fn of(&self, kinds: &[u8]) -> Option<u64> {
        kinds.iter().try_fold(0_u64, |sum, kind| {
            let count = self.0[usize::from(*kind)].load(SeqCst);
            count.is_multiple_of(2).then(|| sum.wrapping_add(count))
        })
    }

    /// Marks the kinds that a commit changes as being changed, until the result is dropped.
    pub fn changing(&self, changes: &Changes) -> Changing<'_> {
        let mut kinds: Vec<u8> = changes.keys().filter_map(|key| key.first().copied()).collect();
        // Keys are in order.
        kinds.dedup();
        let changing = Changing { epochs: self, kinds };
        changing.step();
        changing
    }
}

/// The kinds that a commit in progress changes.
pub(super) struct Changing<'a> {
    epochs: &'a Epochs,
    kinds: Vec<u8>,
}

impl Changing<'_> {
    fn step(&self) {
        for kind in &self.kinds {
            self.epochs.0[usize::from(*kind)].fetch_add(1, SeqCst);
        }
    }
}

impl Drop for Changing<'_> {
    /// Also ends the change of a failed commit: what that left can become visible only when the store is opened again.
    fn drop(&mut self) {
        self.step();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn an_epoch_ends_with_a_change_of_its_kinds_alone_and_there_is_none_meanwhile() {
        let epochs = Epochs::default();
        let changes: Changes = ["b1", "b2", "c"].map(|key| (Bytes::from_static(key.as_bytes()), None)).into();
        let (before, other) = (epochs.of(b"ab"), epochs.of(b"ad"));
        let changing = epochs.changing(&changes);
        assert_eq!((epochs.of(b"ab"), epochs.of(b"c"), epochs.of(b"ad")), (None, None, other));
        drop(changing);
        assert!(before.is_some() && epochs.of(b"ab").is_some() && epochs.of(b"ab") != before);
        assert_eq!(epochs.of(b"ad"), other);
    }
}
