//! A cache of nodes too small for passthrough at their last open. They are not examined again until a program opens
//! them for writing.
//!
//! - A node dropped from the cache is examined once more. A file that grew through another mount is read through the
//!   server. Both are correct and only slower.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of entries; each node has one possible place.
const PLACES: usize = 1 << 14;

/// Nodes of small files.
pub(super) struct SmallFiles(Box<[AtomicU64]>);

impl SmallFiles {
    /// An empty cache.
    pub fn new() -> Self {
        Self((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }

    fn place(&self, node: u64) -> &AtomicU64 {
        &self.0[(node.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 50) as usize % PLACES]
    }

    /// Whether a node is known to be small.
    pub fn contains(&self, node: u64) -> bool {
        self.place(node).load(Ordering::Relaxed) == node
    }

    /// Records that a node is small.
    pub fn insert(&self, node: u64) {
        self.place(node).store(node, Ordering::Relaxed);
    }

    /// Records that a node may grow.
    pub fn remove(&self, node: u64) {
        let _ = self.place(node).compare_exchange(node, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_are_known_until_they_may_grow() {
        let small = SmallFiles::new();
        small.insert(7);
        assert!(small.contains(7) && !small.contains(8));
        small.remove(7);
        assert!(!small.contains(7));
    }
}
