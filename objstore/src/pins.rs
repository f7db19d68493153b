//! Inodes that mounts hold, by the kernel's lookup counts.
//!
//! - A pinned inode that loses its last name stays, as an orphan, until its last pin goes.
//! - Pins live in memory: they end with the process, and opening the store collects the orphans they leave.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;

use crate::record::key::Family;

/// An inode, whichever branch shows it.
type Held = (Family, u64);

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
    pub fn pin(&self, family: Family, ino: u64) {
        *self.0.lock().counts.entry((family, ino)).or_default() += 1;
    }

    /// Takes `count` pins back; whether that was the last of an orphan, which is to be collected now.
    pub fn unpin(&self, family: Family, ino: u64, count: u64) -> bool {
        let mut table = self.0.lock();
        let Some(held) = table.counts.get_mut(&(family, ino)) else { return false };
        *held = held.saturating_sub(count);
        if *held > 0 {
            return false;
        }
        table.counts.remove(&(family, ino));
        table.orphans.remove(&(family, ino))
    }

    /// Whether an inode that loses its last name has to stay; if so its last pin will collect it.
    pub fn keep_if_pinned(&self, family: Family, ino: u64) -> bool {
        let mut table = self.0.lock();
        let pinned = table.counts.contains_key(&(family, ino));
        if pinned {
            table.orphans.insert((family, ino));
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
