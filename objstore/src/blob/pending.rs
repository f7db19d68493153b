//! Tracking of files with unsynced writes.
//!
//! - A file is removed from the set only after the sync that covers it has ended, so no caller relies on a sync still
//!   in progress.
//! - A write during a sync marks its file again afterwards; therefore a mark is removed before its sync begins.

use std::collections::{HashMap, HashSet};

use super::id::BlobId;

/// What is not on disk yet.
#[derive(Default)]
pub(super) struct Pending {
    /// Written and not synced since.
    written: HashMap<BlobId, Written>,
    /// With a sync of its own under way, or several.
    syncing: HashMap<BlobId, usize>,
    /// With a sync of everything under way.
    flushing: HashSet<BlobId>,
    /// Created, and the folder not synced since.
    unnamed: HashSet<BlobId>,
    /// The same, with a sync of everything under way.
    naming: HashSet<BlobId>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Content,
    /// Only the time of the last change.
    Time,
}

/// How much of a file is to be synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Its content.
    Content,
    /// That, and when it was changed last.
    ContentAndTime,
}

/// What a sync has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// Sync the file, then call [`Pending::end`].
    Sync {
        /// The name as well.
        name: bool,
    },
}

impl Pending {
    /// A file was created under a name that is not on disk.
    pub fn created(&mut self, id: BlobId) {
        self.mark(id);
        self.unnamed.insert(id);
    }

    /// A file was written.
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

    /// The sync of a file has ended; of one that failed nothing is relied on any more.
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

    /// Begins a sync of everything, if there is anything to sync: also what others are syncing now. One at a time.
    pub fn begin_all(&mut self) -> bool {
        if self.unnamed.is_empty() && self.written.is_empty() && self.syncing.is_empty() {
            return false;
        }
        self.flushing = self.written.drain().map(|(id, _)| id).collect();
        self.naming = std::mem::take(&mut self.unnamed);
        true
    }

    /// It has ended.
    pub fn end_all(&mut self) {
        self.flushing.clear();
        self.naming.clear();
    }

    /// A file was removed.
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
