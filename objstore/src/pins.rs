//! Inodes that mounts hold, by the kernel's lookup counts.
//!
//! - A pinned inode that loses its last name stays, as an orphan, until its last pin goes.
//! - Pins live in memory: they end with the process, and opening the store collects the orphans they leave.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;

/// A bucket by id, and an inode: a bucket and its clones share numbers, and what one does is nothing to the others.
type Held = (u64, u64);

/// All pins.
#[derive(Default)]
pub(crate) struct Pins(Mutex<Table>);

#[derive(Default)]
struct Table {
    counts: HashMap<Held, u64>,
    orphans: HashSet<Held>,
}

impl Pins {
    /// Adds a pin.
    pub fn pin(&self, bucket: u64, ino: u64) {
        *self.0.lock().counts.entry((bucket, ino)).or_default() += 1;
    }

    /// Takes `count` pins back; whether that was the last of an orphan, which is to be collected now.
    pub fn unpin(&self, bucket: u64, ino: u64, count: u64) -> bool {
        let mut table = self.0.lock();
        let Some(held) = table.counts.get_mut(&(bucket, ino)) else { return false };
        *held = held.saturating_sub(count);
        if *held > 0 {
            return false;
        }
        table.counts.remove(&(bucket, ino));
        table.orphans.remove(&(bucket, ino))
    }

    /// Whether somebody holds an inode.
    pub fn pinned(&self, bucket: u64, ino: u64) -> bool {
        self.0.lock().counts.contains_key(&(bucket, ino))
    }

    /// Whether an inode that loses its last name has to stay; if so its last pin will collect it.
    pub fn keep_if_pinned(&self, bucket: u64, ino: u64) -> bool {
        let mut table = self.0.lock();
        let pinned = table.counts.contains_key(&(bucket, ino));
        if pinned {
            table.orphans.insert((bucket, ino));
        }
        pinned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pin_of_an_orphan_collects_it() {
        let pins = Pins::default();
        assert!(!pins.keep_if_pinned(1, 2));
        pins.pin(1, 2);
        pins.pin(1, 2);
        assert!(pins.keep_if_pinned(1, 2));
        assert!(!pins.unpin(1, 2, 1));
        assert!(pins.unpin(1, 2, 1));
        pins.pin(1, 2);
        assert!(!pins.unpin(1, 2, 1), "it is an orphan no more");
    }
}
