//! Dirty files: files that mounts write in place, so that a write needs no transaction.
//!
//! - A dirty file has a record that says so ([`crate::record::dirty`]), committed before its bytes first
//!   change. From then on writes go to its in-place blob alone. Attributes that the inode's record does not have yet
//!   (size, times, the fact of a change) are kept here; after a crash they are derived from the blob
//!   (`content/flush.rs`).
//! - *Flushing* a file writes these attributes to its record (`tree/in_place.rs`). A flush that also
//!   ends the dirty state *retires* the entry inside its transaction: a write in progress is not answered through its
//!   entry any more, and is repeated as a write to a clean file. So nothing answered is missing in the record, and a
//!   flush waits for no write.
//! - The generation rises before a client sees content that changed since it was last shown: S3 flushes what it shows.
//!   A change is announced before its first byte and recorded after its last, so readers before and after it see
//!   different entity tags.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};

use super::growth::GrowthLedgers;
use crate::blob::BlobId;
use crate::clock::Timestamp;
use crate::disk::File;
use crate::meta::Txn;
use crate::record::inode::Inode;
use crate::shrink::Shrink;

/// Growth after which a file's writeback is started.
const WRITE_BACK_BYTES: u64 = 8 << 20;
/// The most closed files that are kept open here until they are flushed.
const CLOSED_MAX: usize = 128;

/// The dirty files of all buckets, by bucket and inode, and their growth.
#[derive(Default)]
pub(crate) struct DirtyFiles {
    files: RwLock<HashMap<(u64, u64), Arc<DirtyFile>>>,
    /// Files whose last writer closed them, to be flushed together.
    closed: Mutex<Vec<(u64, u64)>>,
    pub ledgers: GrowthLedgers,
}

/// A dirty file.
pub(crate) struct DirtyFile {
    /// Its in-place blob.
    pub blob: BlobId,
    /// The blob's open file.
    pub file: Arc<dyn File>,
    /// Whether all bytes lie in the in-place blob at their own offsets, and the blob has exactly the file's length.
    /// Otherwise extents say what lies there.
    pub whole: bool,
    /// The end of its reserved space, which is counted already.
    reserved: u64,
    /// Whether it is append-only (chattr(1), `a`).
    pub append_only: bool,
    /// What a write clears from the inode.
    privileges: Privileges,
    state: Mutex<State>,
}

#[derive(Default)]
struct Privileges {
    setuid: AtomicBool,
    capabilities: AtomicBool,
}

struct State {
    size: u64,
    /// The time of the last write, if the record does not have it.
    written: Option<Timestamp>,
    /// The time of the last write through a mapping, which may be earlier.
    written_past: Option<Timestamp>,
    /// The number of changes; those up to `settled` are in the record.
    changes: u64,
    settled: u64,
    /// The offset up to which writeback was started.
    begun: u64,
    /// Whether no client can have seen the record's generation.
    unseen: bool,
    /// Whether the record that marks it dirty is not committed yet, so that its content is visible to its writer only.
    hidden: bool,
    noncurrent: bool,
}

/// The attributes that a record lacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// The size.
    pub size: u64,
    /// The time of the last write, if the record does not have it.
    pub written: Option<Timestamp>,
    /// The time of the last write through a mapping, which may be earlier.
    pub written_past: Option<Timestamp>,
    /// Whether the content changed since a client may have seen the record's generation.
    pub seen_before: bool,
    changes: u64,
}

impl DirtyFile {
    /// A file whose generation rises with the announced change; it has `inode`'s privileges.
    pub fn new(blob: BlobId, file: Arc<dyn File>, whole: bool, size: u64, inode: &Inode) -> Arc<Self> {
        let state = State {
            size,
            written: None,
            written_past: None,
            changes: 1,
            settled: 0,
            begun: size,
            unseen: true,
            hidden: false,
            noncurrent: false,
        };
        let dirty = Self {
            blob,
            file,
            whole,
            reserved: inode.reserved,
            append_only: inode.is_append_only(),
            privileges: Privileges::default(),
            state: Mutex::new(state),
        };
        dirty.keep_privileges(inode.may_lose_setuid(), inode.has_capabilities());
        Arc::new(dirty)
    }

    /// A file that gets its in-place blob, size and record in the change that marks it dirty. Until that is committed
    /// only transactions find it.
    pub fn new_hidden(blob: BlobId, file: Arc<dyn File>, size: u64, inode: &Inode) -> Arc<Self> {
        let dirty = Self::new(blob, file, true, size, inode);
        dirty.recorded(size);
        dirty.state.lock().hidden = true;
        dirty
    }

    /// Called when that change is committed.
    pub fn reveal(&self) {
        self.state.lock().hidden = false;
    }

    fn is_hidden(&self) -> bool {
        self.state.lock().hidden
    }

    /// The file's size.
    pub fn size(&self) -> u64 {
        self.state.lock().size
    }

    /// How many more bytes count against the quota once it has grown to `end`.
    pub fn growth(&self, end: u64) -> u64 {
        end.saturating_sub(self.size().max(self.reserved))
    }

    /// Announces a change. Returns `false` if the entry is retired: the change must not be made through it then.
    #[must_use]
    pub fn begin(&self) -> bool {
        let mut state = self.state.lock();
        state.changes += 1;
        !state.noncurrent
    }

    /// Records an announced change up to `end`. Returns `false` if the entry was retired meanwhile: the change has to
    /// be repeated then.
    #[must_use]
    pub fn wrote(&self, end: u64, now: Timestamp) -> bool {
        let mut state = self.state.lock();
        if state.noncurrent {
            return false;
        }
        state.changes += 1;
        state.size = state.size.max(end);
        state.written = Some(now);
        true
    }

    /// Counts writes through a mapping. Returns `false` if the entry was retired.
    #[must_use]
    pub fn wrote_past(&self, at: Timestamp) -> bool {
        let mut state = self.state.lock();
        if state.noncurrent {
            return false;
        }
        state.changes += 1;
        state.written_past = state.written_past.max(Some(at));
        true
    }

    /// The range by which a file has grown since the last call, once it is large: writeback is started for it, so that
    /// a sync has less to do.
    pub fn grown(&self) -> Option<(u64, u64)> {
        let mut state = self.state.lock();
        let grown = state.size.saturating_sub(state.begun);
        if grown < WRITE_BACK_BYTES {
            return None;
        }
        let size = state.size;
        Some((std::mem::replace(&mut state.begun, size), grown))
    }

    /// Retires the entry: no change is made through it any more.
    pub fn retire(&self) {
        self.state.lock().noncurrent = true;
    }

    /// Whether the entry is retired.
    pub fn is_noncurrent(&self) -> bool {
        self.state.lock().noncurrent
    }

    /// The attributes that the record lacks.
    pub fn pending(&self) -> Pending {
        self.state.lock().pending()
    }

    /// Retires the entry, and returns the attributes that the record lacks.
    pub fn end(&self) -> Pending {
        let mut state = self.state.lock();
        state.noncurrent = true;
        state.pending()
    }

    /// Called before a client sees the content. Returns whether the record has to be flushed first.
    pub fn seen(&self) -> bool {
        let mut state = self.state.lock();
        let pending = state.changes != state.settled;
        if !pending {
            state.unseen = false;
        }
        pending
    }

    /// Called when the record was flushed, before a client sees it.
    pub fn settled(&self, pending: &Pending) {
        let mut state = self.state.lock();
        state.settled = state.settled.max(pending.changes);
        state.unseen = false;
        if state.changes == pending.changes {
            (state.written, state.written_past) = (None, None);
        }
    }

    /// Called with the inode's lock held exclusively: the record has all of the content, this size and a new
    /// generation.
    pub fn recorded(&self, size: u64) {
        let mut state = self.state.lock();
        // The record may be seen before this is recorded.
        (state.size, state.unseen) = (size, false);
        (state.written, state.written_past) = (None, None);
        state.settled = state.changes;
    }

    /// Completes an inode read from its record.
    pub fn show(&self, inode: &mut Inode) {
        self.state.lock().pending().show(inode);
        self.measure(inode);
    }

    /// Sets the allocated space of an inode of this size, if all of its content lies in the in-place blob.
    pub fn measure(&self, inode: &mut Inode) {
        if let Some(taken) = self.file.blocks().ok().filter(|_| self.whole) {
            inode.take(taken);
        }
    }

    /// Completes an inode, with the generation that the content would have if it was looked at now.
    pub fn show_changed(&self, inode: &mut Inode) {
        let state = self.state.lock();
        let pending = state.pending();
        pending.show(inode);
        if pending.seen_before {
            inode.generation += 1;
        }
    }

    /// Takes over the privileges of an inode that is being saved: added ones at once, removed ones once that is
    /// committed.
    pub fn follow_privileges(self: Arc<Self>, txn: &mut dyn Txn, inode: &Inode) {
        let (setuid, capabilities) = (inode.may_lose_setuid(), inode.has_capabilities());
        let Privileges { setuid: had_setuid, capabilities: had_capabilities } = &self.privileges;
        let lost = had_setuid.fetch_or(setuid, Ordering::Relaxed) && !setuid;
        if (had_capabilities.fetch_or(capabilities, Ordering::Relaxed) && !capabilities) || lost {
            txn.after_commit(Box::new(move || self.keep_privileges(setuid, capabilities)));
        }
    }

    fn keep_privileges(&self, setuid: bool, capabilities: bool) {
        self.privileges.setuid.store(setuid, Ordering::Relaxed);
        self.privileges.capabilities.store(capabilities, Ordering::Relaxed);
    }

    /// Whether a write clears privileges of the inode; `kill` says that the writer may not keep setuid.
    pub fn takes_privileges(&self, kill: bool) -> bool {
        self.privileges.capabilities.load(Ordering::Relaxed) || (kill && self.privileges.setuid.load(Ordering::Relaxed))
    }
}

impl State {
    fn pending(&self) -> Pending {
        let changed = self.changes != self.settled;
        let Self { size, written, written_past, changes, .. } = *self;
        Pending { size, written, written_past, seen_before: changed && !self.unseen, changes }
    }
}

impl Pending {
    /// Completes an inode read from its record.
    pub fn show(&self, inode: &mut Inode) {
        inode.size = self.size;
        if let Some(written) = self.written {
            inode.mtime = written.0;
        }
        if let Some(past) = self.written_past {
            inode.mtime = inode.mtime.max(past.0);
        }
        if let Some(last) = self.written.max(self.written_past) {
            inode.ctime = inode.ctime.max(last.0);
            inode.changed = inode.changed.max(last.0);
        }
    }
}

impl DirtyFiles {
    /// The file, if it is dirty.
    pub fn get(&self, bucket: u64, ino: u64) -> Option<Arc<DirtyFile>> {
        self.entry(bucket, ino).filter(|dirty| !dirty.is_hidden())
    }

    /// The entry for transactions, including one that only earlier, possibly uncommitted changes made dirty.
    pub fn entry(&self, bucket: u64, ino: u64) -> Option<Arc<DirtyFile>> {
        self.files.read().get(&(bucket, ino)).cloned()
    }

    /// Adds a file.
    pub fn insert(&self, bucket: u64, ino: u64, dirty: Arc<DirtyFile>) {
        self.files.write().insert((bucket, ino), dirty);
    }

    /// Records that the last writer of a file closed it. Once there are many such files, returns them to be flushed,
    /// because they are kept open.
    pub fn closed(&self, bucket: u64, ino: u64) -> Vec<(u64, u64)> {
        if self.get(bucket, ino).is_none() {
            return Vec::new();
        }
        let mut closed = self.closed.lock();
        closed.push((bucket, ino));
        if closed.len() < CLOSED_MAX { Vec::new() } else { std::mem::take(&mut *closed) }
    }

    /// Removes this entry, but not a later one of the same file.
    pub fn remove(&self, bucket: u64, ino: u64, dirty: &Arc<DirtyFile>) {
        dirty.retire();
        let mut files = self.files.write();
        if files.get(&(bucket, ino)).is_some_and(|found| Arc::ptr_eq(found, dirty)) {
            files.remove(&(bucket, ino));
            files.shrink();
        }
    }

    /// Removes all files of a deleted bucket.
    pub fn forget(&self, bucket: u64) {
        self.files.write().retain(|(of, _), dirty| {
            if *of == bucket {
                dirty.retire();
            }
            *of != bucket
        });
        self.ledgers.forget(bucket);
    }

    /// The dirty inodes of a bucket.
    pub fn of_bucket(&self, bucket: u64) -> Vec<u64> {
        self.files.read().keys().filter(|(of, _)| *of == bucket).map(|(_, ino)| *ino).collect()
    }

    /// All dirty files, by bucket and inode.
    pub fn all(&self) -> Vec<(u64, u64)> {
        self.closed.lock().clear();
        self.files.read().keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, RealDisk};
    use crate::record::inode::InodeKind;

    fn dirty(size: u64) -> (tempfile::TempDir, Arc<DirtyFile>) {
        let dir = tempfile::tempdir().unwrap();
        let file = RealDisk::new().create(&dir.path().join("home")).unwrap();
        let inode = Inode::new(InodeKind::File, Timestamp(5));
        (dir, DirtyFile::new(BlobId(1), file, true, size, &inode))
    }

    #[test]
    fn a_change_is_seen_under_another_generation_than_what_was_there_before() {
        let (_dir, dirty) = dirty(10);
        assert!(dirty.wrote(12, Timestamp(7)));
        let first = dirty.pending();
        assert!(!first.seen_before, "its generation has just risen");
        dirty.settled(&first);
        assert!(!dirty.seen() && !dirty.pending().seen_before);
        assert!(dirty.begin());
        let under_way = dirty.pending();
        assert!(under_way.seen_before && dirty.seen());
        dirty.settled(&under_way);
        assert!(dirty.wrote(12, Timestamp(8)) && dirty.pending().seen_before, "who looked amid the change saw another");
    }

    #[test]
    fn what_was_written_during_a_settlement_stays_pending() {
        let (_dir, dirty) = dirty(0);
        assert!(dirty.wrote(5, Timestamp(7)));
        let pending = dirty.pending();
        assert!(dirty.begin() && dirty.wrote(9, Timestamp(8)));
        dirty.settled(&pending);
        let mut inode = Inode::new(InodeKind::File, Timestamp(5));
        dirty.show(&mut inode);
        assert_eq!((inode.size, inode.mtime), (9, 8));
        assert!(dirty.seen());
    }

    #[test]
    fn a_write_that_a_settlement_overtook_is_not_answered() {
        let (_dir, dirty) = dirty(4);
        assert!(dirty.begin());
        assert_eq!(dirty.end().size, 4);
        assert!(!dirty.wrote(8, Timestamp(7)) && !dirty.begin());
        assert_eq!(dirty.size(), 4);
    }

    #[test]
    fn an_entry_is_removed_and_not_the_one_that_followed_it() {
        let files = DirtyFiles::default();
        let ((_one, first), (_two, second)) = (dirty(1), dirty(2));
        files.insert(7, 9, first.clone());
        files.insert(7, 9, second);
        files.remove(7, 9, &first);
        assert_eq!(files.get(7, 9).map(|dirty| dirty.size()), Some(2));
        files.forget(7);
        assert!(files.all().is_empty());
    }
}
