//! Shrinking of in-memory tables: a table that was large once, for instance while a million files were deleted, would
//! otherwise keep its memory until the process ends.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

/// The capacity that is always kept: below it shrinking saves nothing.
const KEPT: usize = 1024;

/// A table that can shrink.
pub(crate) trait Shrink {
    /// The number of entries, and the capacity.
    fn room(&self) -> (usize, usize);

    /// Shrinks the capacity to this many entries.
    fn keep(&mut self, entries: usize);

    /// Shrinks if less than an eighth is used: so the cost of moving is spread over the removed entries.
    fn shrink(&mut self) {
        let (len, room) = self.room();
        if room > KEPT && len < room / 8 {
            self.keep((2 * len).max(KEPT / 2));
        }
    }
}

impl<K: Eq + Hash, V, S: BuildHasher> Shrink for HashMap<K, V, S> {
    fn room(&self) -> (usize, usize) {
        (self.len(), self.capacity())
    }

    fn keep(&mut self, entries: usize) {
        self.shrink_to(entries);
    }
}

impl<K: Eq + Hash, S: BuildHasher> Shrink for HashSet<K, S> {
    fn room(&self) -> (usize, usize) {
        (self.len(), self.capacity())
    }

    fn keep(&mut self, entries: usize) {
        self.shrink_to(entries);
    }
}

impl<T> Shrink for VecDeque<T> {
    fn room(&self) -> (usize, usize) {
        (self.len(), self.capacity())
    }

    fn keep(&mut self, entries: usize) {
        self.shrink_to(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_was_large_gives_its_room_back() {
        let mut table: HashMap<u64, u64> = (0..100_000).map(|number| (number, number)).collect();
        for number in 0..100_000 {
            table.remove(&number);
            table.shrink();
        }
        assert!(table.capacity() <= KEPT, "{}", table.capacity());
        let mut queue: VecDeque<u64> = (0..100_000).collect();
        queue.clear();
        queue.shrink();
        assert!(queue.capacity() <= KEPT, "{}", queue.capacity());
        let mut small: HashSet<u64> = (0..100).collect();
        let room = small.capacity();
        small.clear();
        small.shrink();
        assert_eq!(small.capacity(), room, "what is small stays as it is");
    }
}
