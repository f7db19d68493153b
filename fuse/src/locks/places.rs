//! The table of lock owners in a mount's shared memory: who has, or may have, locks of byte ranges of which file.
//!
//! - While no server runs, the holder answers closes of files by owners who are not in it. So an owner is in the table before
//!   the store is first asked for a lock, until the store has said that there is none.
//! - An owner for whom there is no room sets the overflow, as long as there is one: then no close is answered.
//! - A place has its owner before its node, and is free while its node is 0.
//!
//! A crash leaves owners who have no lock, never a lock whose owner is missing. What an overflow was about is not known to the
//! next process: it stays until no file has locks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::shared_memory::SharedMemory;

/// The places.
pub(super) struct Places {
    memory: Arc<SharedMemory>,
    free: Vec<usize>,
    /// How many owners have no place.
    without: usize,
    /// An earlier process had owners without a place.
    had_others: bool,
}

/// An owner in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub ino: u64,
    pub owner: u64,
    pub place: usize,
}

impl Places {
    /// The table of a mount, with the owners that an earlier process left.
    pub fn resume(memory: Arc<SharedMemory>) -> (Self, Vec<Placed>) {
        let (mut free, mut left) = (Vec::new(), Vec::new());
        for (place, found) in memory.owners().iter().enumerate() {
            match found.node.load(Ordering::Acquire) {
                0 => free.push(place),
                ino => left.push(Placed { ino, owner: found.owner.load(Ordering::Relaxed), place }),
            }
        }
        // The first places are taken first.
        free.reverse();
        let had_others = memory.have_owners_overflown();
        (Self { memory, free, without: 0, had_others }, left)
    }

    /// Takes a place for an owner. `None`: there is no room, and the table says so.
    pub fn take(&mut self, ino: u64, owner: u64) -> Option<usize> {
        let Some(place) = self.free.pop() else {
            self.without += 1;
            self.memory.overflow_owners(true);
            return None;
        };
        let found = &self.memory.owners()[place];
        found.owner.store(owner, Ordering::Relaxed);
        found.node.store(ino, Ordering::Release);
        Some(place)
    }

    /// Gives the place of an owner back, who has no lock any more.
    pub fn give_back(&mut self, place: Option<usize>) {
        match place {
            Some(place) => {
                self.memory.owners()[place].node.store(0, Ordering::Release);
                self.free.push(place);
            }
            None => {
                self.without -= 1;
                self.settle();
            }
        }
    }

    /// No file has locks.
    pub fn nobody_is_left(&mut self) {
        self.had_others = false;
        self.settle();
    }

    fn settle(&self) {
        if self.without == 0 && !self.had_others && self.memory.have_owners_overflown() {
            self.memory.overflow_owners(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_memory::Tables;

    #[test]
    fn an_owner_without_a_place_is_an_overflow_until_it_is_known_to_be_gone() {
        let memory = Arc::new(SharedMemory::create(Tables::Opens).unwrap());
        let (mut places, left) = Places::resume(memory.clone());
        assert!(left.is_empty());
        let room = memory.owners().len();
        let taken: Vec<_> = (0..room as u64).map(|owner| places.take(7, owner)).collect();
        assert!(taken.iter().all(Option::is_some) && !memory.have_owners_overflown());
        assert!(!memory.may_close(7, 3) && memory.may_close(8, 3));
        let none = places.take(8, 3);
        assert!(none.is_none() && memory.have_owners_overflown() && !memory.may_close(9, 9));
        places.give_back(taken[3]);
        assert!(memory.have_owners_overflown(), "the other has none still");
        places.give_back(none);
        assert!(!memory.have_owners_overflown() && memory.may_close(7, 3));
        assert_eq!(places.take(7, 3), taken[3]);
        assert!(places.take(8, 3).is_none());
        drop(places);
        let (mut next, left) = Places::resume(memory.clone());
        assert_eq!(left.len(), room);
        assert_eq!(left[1], Placed { ino: 7, owner: 1, place: 1 });
        left.into_iter().for_each(|placed| next.give_back(Some(placed.place)));
        assert!(memory.have_owners_overflown(), "this process does not know who it was");
        next.nobody_is_left();
        assert!(memory.may_close(7, 3));
    }
}
