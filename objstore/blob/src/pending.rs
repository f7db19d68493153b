//! Tracking of files with unsynced writes.
//!
//! - A file is removed from the set only after the sync that covers it has ended, so no caller relies on a sync still
//!   in progress.
//! - A write during a sync marks its file again afterwards; therefore a mark is removed before its sync begins.

use std::collections::{HashMap, HashSet};

use super::id::BlobId;

/// The files that are not completely on disk.
#[derive(Default)]
pub(super) struct Pending {
    /// Files written and not synced since.
    written: HashMap<BlobId, Written>,
    /// Files that have one or more syncs of their own in progress.
    syncing: HashMap<BlobId, usize>,
    /// Files that a sync of everything in progress covers.
    flushing: HashSet<BlobId>,
    /// Files created, whose folder was not synced since.
    unnamed: HashSet<BlobId>,
    /// Files created, whose names a sync of everything in progress covers.
    naming: HashSet<BlobId>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Content,
    /// Only the modification time.
    Time,
}

/// Which part of a file is to be synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Its content.
    Content,
    /// Its content and its modification time.
    ContentAndTime,
}

/// What remains for a sync to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// Sync the file, then call [`Pending::end`].
    Sync {
        /// Whether to sync the name as well.
        name: bool,
    },
}

impl Pending {
    /// Records that a file was created under a name that is not on disk.
    pub fn created(&mut self, id: BlobId) {
        self.mark(id);
        self.unnamed.insert(id);
    }

    /// Records that a file was written.
    pub fn mark(&mut self, id: BlobId) {
        self.written.insert(id, Written::Content);
    }

    /// Begins the sync of a file, if there is anything to sync.
    pub fn begin(&mut self, id: BlobId, extent: Extent) -> Due {
        let due = match self.written.get(&id) {
            None => false,
            Some(Written::Content) => true,
            Some(Written::Time) => extent == Extent::ContentAndTime,
        };
        let under_way = self.syncing.contains_key(&id) || self.flushing.contains(&id);
        let name = self.unnamed.contains(&id) || self.naming.contains(&id);
        if !due && !under_way && !name {
            return Due::Nothing;
        }
        match extent {
            Extent::Content if due => drop(self.written.insert(id, Written::Time)),
            Extent::Content => {}
            Extent::ContentAndTime => drop(self.written.remove(&id)),
        }
        *self.syncing.entry(id).or_default() += 1;
        Due::Sync { name }
    }

    /// Ends the sync of a file. If the sync failed, the store is poisoned and this state is not used again.
    pub fn end(&mut self, id: BlobId, named: bool) {
        if let Some(count) = self.syncing.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                self.syncing.remove(&id);
            }
        }
        if named {
            self.unnamed.remove(&id);
        }
    }

    /// Begins a sync of everything, including files whose own sync is in progress; returns whether there is anything to
    /// sync. There is one at a time.
    pub fn begin_all(&mut self) -> bool {
        if self.unnamed.is_empty() && self.written.is_empty() && self.syncing.is_empty() {
            return false;
        }
        self.flushing = self.written.drain().map(|(id, _)| id).collect();
        self.naming = std::mem::take(&mut self.unnamed);
        true
    }

    /// Records that the sync of everything failed: what it would have covered is not durable.
    pub fn fail_all(&mut self) {
        for id in &self.flushing {
            self.written.insert(*id, Written::Content);
        }
        self.unnamed.extend(&self.naming);
    }

    /// Ends the sync of everything.
    pub fn end_all(&mut self) {
        self.flushing.clear();
        self.naming.clear();
    }

    /// Removes a file that was deleted.
    pub fn forget(&mut self, id: BlobId) {
        self.written.remove(&id);
        self.unnamed.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: BlobId = BlobId(7);

    #[test]
    fn what_is_on_disk_is_not_synced_again() {
        let mut pending = Pending::default();
        assert_eq!(pending.begin(ID, Extent::ContentAndTime), Due::Nothing);
        pending.created(ID);
        assert_eq!(pending.begin(ID, Extent::Content), Due::Sync { name: true });
        pending.end(ID, true);
        assert_eq!(pending.begin(ID, Extent::Content), Due::Nothing);
        assert_eq!(pending.begin(ID, Extent::ContentAndTime), Due::Sync { name: false }, "its time is not");
        pending.end(ID, false);
        assert_eq!(pending.begin(ID, Extent::ContentAndTime), Due::Nothing);
    }

    #[test]
    fn nobody_relies_on_a_sync_that_is_under_way() {
        let mut pending = Pending::default();
        pending.mark(ID);
        assert_eq!(pending.begin(ID, Extent::ContentAndTime), Due::Sync { name: false });
        assert_eq!(pending.begin(ID, Extent::Content), Due::Sync { name: false });
        pending.end(ID, false);
        assert_eq!(pending.begin(ID, Extent::Content), Due::Sync { name: false });
        assert!(pending.begin_all(), "a sync of everything neither");
        pending.end_all();
        pending.end(ID, false);
        pending.end(ID, false);
        assert_eq!(pending.begin(ID, Extent::Content), Due::Nothing);
        assert!(!pending.begin_all());
        pending.mark(ID);
        assert!(pending.begin_all());
        assert_eq!(pending.begin(ID, Extent::Content), Due::Sync { name: false });
        pending.end_all();
        pending.end(ID, false);
        assert!(!pending.begin_all());
    }

    #[test]
    fn a_write_during_a_sync_is_synced_by_the_next() {
        let mut pending = Pending::default();
        pending.mark(ID);
        assert_eq!(pending.begin(ID, Extent::Content), Due::Sync { name: false });
        pending.mark(ID);
        pending.end(ID, false);
        assert_eq!(pending.begin(ID, Extent::Content), Due::Sync { name: false });
    }
}
