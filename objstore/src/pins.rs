//! Inode references of mounts: the kernels' lookup counts, and inodes that a kernel may still know from an earlier
//! server.
//!
//! - A referenced inode that loses its last name stays as an orphan until its last reference is dropped.
//! - Counts live in memory and end with the process. A mount taken over from an earlier process is an *inherited*
//!   session (`heir`): its kernel may hold inodes that were not counted here, if they were created before the takeover.
//!   Each inherited session is a *suspect* for such an orphan, which stays until the kernel of each suspect was asked
//!   and did not hold it.
//! - Between the decision that an inode is unreferenced and the commit that deletes it, the inode is still visible in
//!   the store. A thread that takes a reference then waits for the commit before it looks ([`Pins::await_end`]), and
//!   finds the inode gone.
//! - FORGET counts include lookups from before a takeover, so after one our count is a lower bound: a FORGET of as many
//!   references as were counted here, or more, proves nothing, and the kernel is asked again (`Left::Unsure`).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::shrink::Shrink;
use crate::volume::SessionId;

/// A bucket by id, and an inode: a bucket and its clones share numbers, and what one does is nothing to the others.
type Held = (u64, u64);

/// All pins.
#[derive(Default)]
pub(crate) struct Pins {
    table: Mutex<Table>,
    ended: Condvar,
}

#[derive(Default)]
struct Table {
    counts: HashMap<Held, u64>,
    /// With the suspects of each.
    orphans: HashMap<Held, Vec<SessionId>>,
    /// By bucket.
    heirs: HashMap<u64, Vec<Heir>>,
    /// What transactions under way end, and how many do.
    ending: HashMap<Held, u32>,
}

/// An inode that nobody holds, and that a transaction ends. To be dropped once that is committed or undone.
pub(crate) struct Ending {
    pins: Arc<Pins>,
    held: Held,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut table = self.pins.table.lock();
        if let Some(count) = table.ending.get_mut(&self.held) {
            *count -= 1;
            if *count == 0 {
                table.ending.remove(&self.held);
                table.ending.shrink();
            }
        }
        drop(table);
        self.pins.ended.notify_all();
    }
}

/// A session whose kernel may hold what nobody here counted.
struct Heir {
    session: SessionId,
    /// Inodes from this number on were made since, and are counted.
    below: u64,
}

/// What is left of an inode after a forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Somebody holds it, or it has a name.
    Held,
    /// Nobody holds the orphan: it is to be collected now.
    Nobody,
    /// The kernel that forgot has to be asked whether it still holds the orphan.
    Unsure,
}

impl Table {
    fn suspects(&self, (bucket, ino): Held) -> Vec<SessionId> {
        let heirs = self.heirs.get(&bucket).into_iter().flatten();
        heirs.filter(|heir| ino < heir.below).map(|heir| heir.session).collect()
    }

    fn may_be_held(&self, held: Held) -> bool {
        self.counts.contains_key(&held) || !self.suspects(held).is_empty()
    }

    fn orphan(&mut self, held: Held) {
        let suspects = self.suspects(held);
        self.orphans.entry(held).or_insert(suspects);
    }

    fn end(&mut self, pins: &Arc<Pins>, held: Held) -> Ending {
        *self.ending.entry(held).or_default() += 1;
        Ending { pins: pins.clone(), held }
    }

    fn uncount(&mut self, held: Held, count: u64) {
        if let Some(counted) = self.counts.get_mut(&held) {
            *counted = counted.saturating_sub(count);
            if *counted == 0 {
                self.counts.remove(&held);
                self.counts.shrink();
            }
        }
    }

    /// Takes an orphan that nobody holds out of the table; whether it was one.
    fn take_free(&mut self, held: Held) -> bool {
        let free = !self.counts.contains_key(&held) && self.orphans.get(&held).is_some_and(Vec::is_empty);
        let taken = free && self.orphans.remove(&held).is_some();
        self.orphans.shrink();
        taken
    }

    /// Takes all orphans of a bucket out of the table that nobody holds.
    fn take_all_free(&mut self, bucket: u64) -> Vec<u64> {
        let orphans = self.orphans.keys().filter(|(of, _)| *of == bucket).copied();
        let orphans: Vec<Held> = orphans.collect();
        orphans.into_iter().filter(|held| self.take_free(*held)).map(|(_, ino)| ino).collect()
    }
}

impl Pins {
    /// Adds a pin.
    pub fn pin(&self, bucket: u64, ino: u64) {
        *self.table.lock().counts.entry((bucket, ino)).or_default() += 1;
    }

    /// Takes `count` pins back; whether that was the last of an orphan, which is to be collected now.
    pub fn unpin(&self, bucket: u64, ino: u64, count: u64) -> bool {
        let mut table = self.table.lock();
        table.uncount((bucket, ino), count);
        table.take_free((bucket, ino))
    }

    /// The same for an heir that has nothing counted any more. `over`: its kernel gave back more than was counted.
    pub fn unpin_heir(&self, bucket: u64, ino: u64, count: u64, session: SessionId, over: bool) -> Left {
        let mut table = self.table.lock();
        let held = (bucket, ino);
        table.uncount(held, count);
        let may_suspect = over && table.suspects(held).contains(&session);
        if let Some(suspects) = table.orphans.get_mut(&held) {
            // What came too much was of lookups before: those counted since may be held still.
            if may_suspect && !suspects.contains(&session) {
                suspects.push(session);
            }
            if suspects.contains(&session) {
                return Left::Unsure;
            }
        }
        if table.take_free(held) { Left::Nobody } else { Left::Held }
    }

    /// Whether a kernel holds an inode, as far as is known here.
    pub fn may_be_held(&self, bucket: u64, ino: u64) -> bool {
        self.table.lock().may_be_held((bucket, ino))
    }

    /// Whether an inode that loses its last name has to stay; if so who holds it last will collect it.
    pub fn keep_if_held(&self, bucket: u64, ino: u64) -> bool {
        let mut table = self.table.lock();
        let held = (bucket, ino);
        let kept = table.may_be_held(held);
        if kept {
            table.orphan(held);
        }
        kept
    }

    /// The same for a transaction that ends the inode if this says that it may.
    pub fn keep_or_end(self: &Arc<Self>, bucket: u64, ino: u64) -> Option<Ending> {
        let mut table = self.table.lock();
        let held = (bucket, ino);
        if table.may_be_held(held) {
            table.orphan(held);
            return None;
        }
        Some(table.end(self, held))
    }

    /// Lets a transaction end an orphan that nobody holds. If it was pinned again meanwhile its last pin will collect it.
    pub fn collect_or_keep(self: &Arc<Self>, bucket: u64, ino: u64) -> Option<Ending> {
        let mut table = self.table.lock();
        let held = (bucket, ino);
        if table.counts.contains_key(&held) {
            table.orphans.entry(held).or_default();
            return None;
        }
        Some(table.end(self, held))
    }

    /// Waits for transactions under way that end an inode, which who calls this has pinned: no other will. Not for a
    /// transaction itself.
    pub fn await_end(&self, bucket: u64, ino: u64) {
        let mut table = self.table.lock();
        while table.ending.contains_key(&(bucket, ino)) {
            self.ended.wait(&mut table);
        }
    }

    /// An inode is an orphan from its beginning; who makes it pins it.
    pub fn orphan(&self, bucket: u64, ino: u64) {
        self.table.lock().orphan((bucket, ino));
    }

    /// Whether the kernels of heirs have to be asked for an orphan.
    pub fn is_suspected(&self, bucket: u64, ino: u64) -> bool {
        self.table.lock().orphans.get(&(bucket, ino)).is_some_and(|suspects| !suspects.is_empty())
    }

    /// The kernel of an heir does not hold an inode; whether nobody does and it is to be collected now.
    pub fn clear(&self, bucket: u64, ino: u64, session: SessionId) -> bool {
        let mut table = self.table.lock();
        let Some(suspects) = table.orphans.get_mut(&(bucket, ino)) else { return false };
        suspects.retain(|suspect| *suspect != session);
        table.take_free((bucket, ino))
    }

    /// A session has a kernel that may hold any inode of a bucket below a number, and is a suspect of each such
    /// orphan from now on.
    pub fn inherit(&self, bucket: u64, session: SessionId, below: u64) {
        let mut table = self.table.lock();
        let heirs = table.heirs.entry(bucket).or_default();
        heirs.retain(|heir| heir.session != session);
        heirs.push(Heir { session, below });
    }

    /// A session is left by this process: what it had counted here may be held still, as well as what it had not.
    pub fn leave(&self, bucket: u64, session: SessionId, counted: impl IntoIterator<Item = (u64, u64)>) {
        self.inherit(bucket, session, u64::MAX);
        let mut table = self.table.lock();
        for (ino, count) in counted {
            table.uncount((bucket, ino), count);
        }
        let orphans = table.orphans.iter_mut().filter(|((of, _), _)| *of == bucket);
        for (_, suspects) in orphans.filter(|(_, suspects)| !suspects.contains(&session)) {
            suspects.push(session);
        }
    }

    /// The kernel of a session is gone; the orphans that nobody holds any more, to be collected now.
    pub fn end(&self, bucket: u64, session: SessionId) -> Vec<u64> {
        let mut table = self.table.lock();
        if let Some(heirs) = table.heirs.get_mut(&bucket) {
            heirs.retain(|heir| heir.session != session);
            if heirs.is_empty() {
                table.heirs.remove(&bucket);
            }
        }
        for (_, suspects) in table.orphans.iter_mut().filter(|((of, _), _)| *of == bucket) {
            suspects.retain(|suspect| *suspect != session);
        }
        table.take_all_free(bucket)
    }

    /// The orphans of which a session is a suspect.
    pub fn suspected(&self, bucket: u64, session: SessionId) -> Vec<u64> {
        let table = self.table.lock();
        let orphans = table.orphans.iter().filter(|((of, _), suspects)| *of == bucket && suspects.contains(&session));
        orphans.map(|((_, ino), _)| *ino).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: u64) -> SessionId {
        SessionId::new(id).unwrap()
    }

    #[test]
    fn the_last_pin_of_an_orphan_collects_it() {
        let pins = Pins::default();
        assert!(!pins.keep_if_held(1, 2));
        pins.pin(1, 2);
        pins.pin(1, 2);
        assert!(pins.keep_if_held(1, 2));
        assert!(!pins.unpin(1, 2, 1));
        assert!(pins.unpin(1, 2, 1));
        pins.pin(1, 2);
        assert!(!pins.unpin(1, 2, 1), "it is an orphan no more");
    }

    #[test]
    fn who_pins_what_a_transaction_ends_waits_for_its_commit() {
        let pins = Arc::new(Pins::default());
        let ending = pins.keep_or_end(1, 2);
        assert!(ending.is_some());
        let looking = std::thread::spawn({
            let pins = pins.clone();
            move || {
                pins.pin(1, 2);
                pins.await_end(1, 2);
            }
        });
        while !pins.may_be_held(1, 2) {
            std::thread::yield_now();
        }
        assert!(pins.keep_or_end(1, 2).is_none() && !looking.is_finished());
        drop(ending);
        looking.join().unwrap();
        pins.await_end(1, 3);
    }

    #[test]
    fn an_orphan_stays_until_every_heir_was_asked() {
        let pins = Pins::default();
        let (first, second) = (session(1), session(2));
        pins.inherit(7, first, 100);
        pins.inherit(7, second, 50);
        assert!(!pins.keep_if_held(7, 100), "made since: it would be counted");
        assert!(!pins.keep_if_held(8, 20), "another bucket");
        assert!(pins.keep_if_held(7, 20) && pins.keep_if_held(7, 60));
        assert!(pins.clear(7, 60, first), "the second took over when it was made");
        assert!(!pins.clear(7, 20, first) && pins.is_suspected(7, 20));
        assert_eq!((pins.suspected(7, first), pins.suspected(7, second)), (vec![], vec![20]));
        assert!(pins.clear(7, 20, second) && !pins.is_suspected(7, 20));
    }

    #[test]
    fn a_forget_of_an_heir_is_certain_only_after_it_was_asked() {
        let pins = Arc::new(Pins::default());
        let heir = session(1);
        pins.inherit(7, heir, 100);
        pins.pin(7, 20);
        assert!(pins.keep_if_held(7, 20));
        assert_eq!(pins.unpin_heir(7, 20, 1, heir, false), Left::Unsure);
        pins.pin(7, 20);
        assert!(!pins.clear(7, 20, heir), "looked up since");
        assert_eq!(pins.unpin_heir(7, 20, 1, heir, true), Left::Unsure, "a late forget of lookups before");
        assert!(pins.clear(7, 20, heir));
        pins.pin(7, 20);
        assert!(pins.collect_or_keep(7, 20).is_none() && pins.unpin(7, 20, 1), "by number, as it was about to go");
        pins.pin(7, 30);
        assert!(pins.keep_if_held(7, 30) && !pins.clear(7, 30, heir));
        assert_eq!(pins.unpin_heir(7, 30, 1, heir, false), Left::Nobody);
    }

    #[test]
    fn a_session_that_is_left_may_hold_all_it_had_counted() {
        let pins = Pins::default();
        let left = session(1);
        pins.pin(7, 20);
        assert!(pins.keep_if_held(7, 20));
        pins.leave(7, left, [(20, 1)]);
        assert!(pins.is_suspected(7, 20) && pins.keep_if_held(7, 21));
        let mut collected = pins.end(7, left);
        collected.sort_unstable();
        assert_eq!(collected, [20, 21]);
        assert!(!pins.keep_if_held(7, 22));
    }
}
