//! Files that were too small to be read past the server when they were opened last: they are not looked at again until
//! somebody opens them for writing.
//!
//! - A file forgotten here is looked at once more; one that grew without an open here, through another mount, is read
//!   through the server. Both are right, and slower.

use std::sync::atomic::{AtomicU64, Ordering};

/// Files remembered, at most: each has one place.
const PLACES: usize = 1 << 14;

/// Nodes of small files.
pub(super) struct SmallFiles(Box<[AtomicU64]>);

impl SmallFiles {
    /// None yet.
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

    /// A node is small.
    pub fn insert(&self, node: u64) {
        self.place(node).store(node, Ordering::Relaxed);
    }

    /// A node may grow.
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
