//! Inode references of mounts: the kernels' lookup counts, and inodes that a kernel may still know from an earlier
//! server.
//!
//! - A referenced inode that loses its last name stays as an orphan until its last reference is dropped.
//! - Counts are kept in memory and end with the process. A mount taken over from an earlier process is an *inherited*
//!   session (`inherited`): its kernel may hold inodes that were not counted here, if they were created before the takeover.
//!   Each inherited session is a *suspect* for such an orphan, which stays until the kernel of each suspect was asked
//!   and did not hold it.
//! - Between the decision that an inode is unreferenced and the commit that deletes it, the inode is still visible in
//!   the store. A thread that takes a reference then waits for the commit before it looks ([`InodeRefs::await_end`]), and
//!   finds the inode gone.
//! - FORGET counts include lookups from before a takeover, so after one our count is a lower bound: a FORGET of as many
//!   references as were counted here, or more, proves nothing, and the kernel is asked again (`Left::Unsure`).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::session_id::SessionId;
use crate::shrink::Shrink;

/// A bucket by id, and an inode: a bucket and its clones share inode numbers, but not references.
type RefKey = (u64, u64);

/// All inode references.
#[derive(Default)]
pub(crate) struct InodeRefs {
    table: Mutex<Table>,
    ended: Condvar,
}

#[derive(Default)]
struct Table {
    counts: HashMap<RefKey, u64>,
    /// Orphans, with the suspects of each.
    orphans: HashMap<RefKey, Vec<SessionId>>,
    /// Inherited sessions, by bucket.
    inherited: HashMap<u64, Vec<InheritedSession>>,
    /// Inodes that transactions in progress delete, with the number of those transactions.
    ending: HashMap<RefKey, u32>,
}

/// An unreferenced inode that a transaction deletes. Must be dropped once that is committed or undone.
pub(crate) struct Ending {
    inode_refs: Arc<InodeRefs>,
    held: RefKey,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut table = self.inode_refs.table.lock();
        if let Some(count) = table.ending.get_mut(&self.held) {
            *count -= 1;
            if *count == 0 {
                table.ending.remove(&self.held);
                table.ending.shrink();
            }
        }
        drop(table);
        self.inode_refs.ended.notify_all();
    }
}

/// A session whose kernel may hold inodes that were not counted here.
struct InheritedSession {
    session: SessionId,
    /// Inodes from this number on were created since, and are counted.
    below: u64,
}

/// The state of an inode after a FORGET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// It is still referenced, or has a name.
    Held,
    /// The orphan is unreferenced and has to be collected now.
    Nobody,
    /// The kernel has to be asked whether it still holds the orphan.
    Unsure,
}

impl Table {
    fn suspects(&self, (bucket, ino): RefKey) -> Vec<SessionId> {
        let inherited = self.inherited.get(&bucket).into_iter().flatten();
        inherited.filter(|inherited| ino < inherited.below).map(|inherited| inherited.session).collect()
    }

    fn may_be_held(&self, held: RefKey) -> bool {
        self.counts.contains_key(&held) || !self.suspects(held).is_empty()
    }

    fn orphan(&mut self, held: RefKey) {
        let suspects = self.suspects(held);
        self.orphans.entry(held).or_insert(suspects);
    }

    fn end(&mut self, inode_refs: &Arc<InodeRefs>, held: RefKey) -> Ending {
        *self.ending.entry(held).or_default() += 1;
        Ending { inode_refs: inode_refs.clone(), held }
    }

    fn uncount(&mut self, held: RefKey, count: u64) {
        if let Some(counted) = self.counts.get_mut(&held) {
            *counted = counted.saturating_sub(count);
            if *counted == 0 {
                self.counts.remove(&held);
                self.counts.shrink();
            }
        }
    }

    /// Removes an unreferenced orphan from the table. Returns whether it was one.
    fn take_free(&mut self, held: RefKey) -> bool {
        let free = !self.counts.contains_key(&held) && self.orphans.get(&held).is_some_and(Vec::is_empty);
        let taken = free && self.orphans.remove(&held).is_some();
        self.orphans.shrink();
        taken
    }

    /// Removes all unreferenced orphans of a bucket from the table.
    fn take_all_free(&mut self, bucket: u64) -> Vec<u64> {
        let orphans = self.orphans.keys().filter(|(of, _)| *of == bucket).copied();
        let orphans: Vec<RefKey> = orphans.collect();
        orphans.into_iter().filter(|held| self.take_free(*held)).map(|(_, ino)| ino).collect()
    }
}

impl InodeRefs {
    /// Adds a reference.
    pub fn pin(&self, bucket: u64, ino: u64) {
        *self.table.lock().counts.entry((bucket, ino)).or_default() += 1;
    }

    /// Drops `count` references. Returns whether that was the last one of an orphan, which has to be collected now.
    pub fn unpin(&self, bucket: u64, ino: u64, count: u64) -> bool {
        let mut table = self.table.lock();
        table.uncount((bucket, ino), count);
        table.take_free((bucket, ino))
    }

    /// Drops `count` references of an inherited session that has none left in its count. `over`: its kernel returned
    /// more than were counted.
    pub fn unpin_inherited(&self, bucket: u64, ino: u64, count: u64, session: SessionId, over: bool) -> Left {
        let mut table = self.table.lock();
        let held = (bucket, ino);
        table.uncount(held, count);
        let may_suspect = over && table.suspects(held).contains(&session);
        if let Some(suspects) = table.orphans.get_mut(&held) {
            // The excess belongs to look-ups before the takeover: references counted since may still be held.
            if may_suspect && !suspects.contains(&session) {
                suspects.push(session);
            }
            if suspects.contains(&session) {
                return Left::Unsure;
            }
        }
        if table.take_free(held) { Left::Nobody } else { Left::Held }
    }

    /// Whether a kernel may hold an inode, as far as is known here.
    pub fn may_be_held(&self, bucket: u64, ino: u64) -> bool {
        self.table.lock().may_be_held((bucket, ino))
    }

    /// Whether an inode that loses its last name has to stay; if so, its last holder will collect it.
    pub fn keep_if_held(&self, bucket: u64, ino: u64) -> bool {
        let mut table = self.table.lock();
        let held = (bucket, ino);
        let kept = table.may_be_held(held);
        if kept {
            table.orphan(held);
        }
        kept
    }

    /// Decides, for a transaction that deletes the inode if it is unreferenced.
    pub fn keep_or_end(self: &Arc<Self>, bucket: u64, ino: u64) -> Option<Ending> {
        let mut table = self.table.lock();
        let held = (bucket, ino);
        if table.may_be_held(held) {
            table.orphan(held);
            return None;
        }
        Some(table.end(self, held))
    }

    /// Lets a transaction delete an unreferenced orphan. If it was referenced again meanwhile, its last holder will
    /// collect it.
    pub fn collect_or_keep(self: &Arc<Self>, bucket: u64, ino: u64) -> Option<Ending> {
        let mut table = self.table.lock();
        let held = (bucket, ino);
        if table.counts.contains_key(&held) {
            table.orphans.entry(held).or_default();
            return None;
        }
        Some(table.end(self, held))
    }

    /// Waits for transactions in progress that delete an inode on which the caller has just taken a reference. Not to
    /// be called within a transaction.
    pub fn await_end(&self, bucket: u64, ino: u64) {
        let mut table = self.table.lock();
        while table.ending.contains_key(&(bucket, ino)) {
            self.ended.wait(&mut table);
        }
    }

    /// Records an inode as an orphan from its creation; its creator takes a reference.
    pub fn orphan(&self, bucket: u64, ino: u64) {
        self.table.lock().orphan((bucket, ino));
    }

    /// Whether kernels of inherited sessions have to be asked for an orphan.
    pub fn is_suspected(&self, bucket: u64, ino: u64) -> bool {
        self.table.lock().orphans.get(&(bucket, ino)).is_some_and(|suspects| !suspects.is_empty())
    }

    /// Records that the kernel of an inherited session does not hold an inode. Returns whether it is unreferenced and
    /// has to be collected now.
    pub fn clear(&self, bucket: u64, ino: u64, session: SessionId) -> bool {
        let mut table = self.table.lock();
        let Some(suspects) = table.orphans.get_mut(&(bucket, ino)) else { return false };
        suspects.retain(|suspect| *suspect != session);
        table.take_free((bucket, ino))
    }

    /// Records that a session's kernel may hold any inode of a bucket below a number, which makes it a suspect for each
    /// such orphan.
    pub fn inherit(&self, bucket: u64, session: SessionId, below: u64) {
        let mut table = self.table.lock();
        let inherited = table.inherited.entry(bucket).or_default();
        inherited.retain(|inherited| inherited.session != session);
        inherited.push(InheritedSession { session, below });
    }

    /// Records that this process leaves a session: inodes counted here may still be held, and so may uncounted ones.
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

    /// Removes a session whose kernel mount is gone; returns the orphans that have to be collected now.
    pub fn end(&self, bucket: u64, session: SessionId) -> Vec<u64> {
        let mut table = self.table.lock();
        if let Some(inherited) = table.inherited.get_mut(&bucket) {
            inherited.retain(|inherited| inherited.session != session);
            if inherited.is_empty() {
                table.inherited.remove(&bucket);
            }
        }
        for (_, suspects) in table.orphans.iter_mut().filter(|((of, _), _)| *of == bucket) {
            suspects.retain(|suspect| *suspect != session);
        }
        table.take_all_free(bucket)
    }

    /// The orphans for which a session is a suspect.
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
        let inode_refs = InodeRefs::default();
        assert!(!inode_refs.keep_if_held(1, 2));
        inode_refs.pin(1, 2);
        inode_refs.pin(1, 2);
        assert!(inode_refs.keep_if_held(1, 2));
        assert!(!inode_refs.unpin(1, 2, 1));
        assert!(inode_refs.unpin(1, 2, 1));
        inode_refs.pin(1, 2);
        assert!(!inode_refs.unpin(1, 2, 1), "it is an orphan no more");
    }

    #[test]
    fn who_pins_what_a_transaction_ends_waits_for_its_commit() {
        let inode_refs = Arc::new(InodeRefs::default());
        let ending = inode_refs.keep_or_end(1, 2);
        assert!(ending.is_some());
        let looking = std::thread::spawn({
            let inode_refs = inode_refs.clone();
            move || {
                inode_refs.pin(1, 2);
                inode_refs.await_end(1, 2);
            }
        });
        while !inode_refs.may_be_held(1, 2) {
            std::thread::yield_now();
        }
        assert!(inode_refs.keep_or_end(1, 2).is_none() && !looking.is_finished());
        drop(ending);
        looking.join().unwrap();
        inode_refs.await_end(1, 3);
    }

    #[test]
    fn an_orphan_stays_until_every_inherited_session_was_asked() {
        let inode_refs = InodeRefs::default();
        let (first, second) = (session(1), session(2));
        inode_refs.inherit(7, first, 100);
        inode_refs.inherit(7, second, 50);
        assert!(!inode_refs.keep_if_held(7, 100), "made since: it would be counted");
        assert!(!inode_refs.keep_if_held(8, 20), "another bucket");
        assert!(inode_refs.keep_if_held(7, 20) && inode_refs.keep_if_held(7, 60));
        assert!(inode_refs.clear(7, 60, first), "the second took over when it was made");
        assert!(!inode_refs.clear(7, 20, first) && inode_refs.is_suspected(7, 20));
        assert_eq!((inode_refs.suspected(7, first), inode_refs.suspected(7, second)), (vec![], vec![20]));
        assert!(inode_refs.clear(7, 20, second) && !inode_refs.is_suspected(7, 20));
    }

    #[test]
    fn a_forget_of_an_inherited_session_is_certain_only_after_it_was_asked() {
        let inode_refs = Arc::new(InodeRefs::default());
        let inherited = session(1);
        inode_refs.inherit(7, inherited, 100);
        inode_refs.pin(7, 20);
        assert!(inode_refs.keep_if_held(7, 20));
        assert_eq!(inode_refs.unpin_inherited(7, 20, 1, inherited, false), Left::Unsure);
        inode_refs.pin(7, 20);
        assert!(!inode_refs.clear(7, 20, inherited), "looked up since");
        assert_eq!(
            inode_refs.unpin_inherited(7, 20, 1, inherited, true),
            Left::Unsure,
            "a late forget of lookups before"
        );
        assert!(inode_refs.clear(7, 20, inherited));
        inode_refs.pin(7, 20);
        assert!(
            inode_refs.collect_or_keep(7, 20).is_none() && inode_refs.unpin(7, 20, 1),
            "by number, as it was about to go"
        );
        inode_refs.pin(7, 30);
        assert!(inode_refs.keep_if_held(7, 30) && !inode_refs.clear(7, 30, inherited));
        assert_eq!(inode_refs.unpin_inherited(7, 30, 1, inherited, false), Left::Nobody);
    }

    #[test]
    fn a_session_that_is_left_may_hold_all_it_had_counted() {
        let inode_refs = InodeRefs::default();
        let left = session(1);
        inode_refs.pin(7, 20);
        assert!(inode_refs.keep_if_held(7, 20));
        inode_refs.leave(7, left, [(20, 1)]);
        assert!(inode_refs.is_suspected(7, 20) && inode_refs.keep_if_held(7, 21));
        let mut collected = inode_refs.end(7, left);
        collected.sort_unstable();
        assert_eq!(collected, [20, 21]);
        assert!(!inode_refs.keep_if_held(7, 22));
    }
}
