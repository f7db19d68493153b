//! Registered readers, so that the trash keeps the blobs they may need.
//!
//! - If a blob stays with a file that changes it, and other views get a copy, a reader that began before reads the
//!   copy: it sees what it opened.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::blob::BlobId;

/// All active readers, by their time of start.
#[derive(Default)]
pub(crate) struct Readers {
    table: Mutex<Table>,
    moved: RwLock<Vec<Moved>>,
}

/// Content that earlier readers find elsewhere.
struct Moved {
    from: BlobId,
    to: BlobId,
    before: u64,
}

/// Where a reader finds the content of a blob, as long as this is held.
pub(crate) struct Found<'a> {
    /// The blob to read.
    pub blob: BlobId,
    _stays: RwLockReadGuard<'a, Vec<Moved>>,
}

#[derive(Default)]
struct Table {
    clock: u64,
    active: BTreeMap<u64, u64>,
}

/// An active reader.
pub(crate) struct ReadGuard {
    readers: Arc<Readers>,
    began: u64,
}

impl Readers {
    /// Registers a reader. Its snapshot has to be taken afterwards.
    pub fn begin(self: &Arc<Self>) -> ReadGuard {
        let mut table = self.table.lock();
        let began = table.clock;
        *table.active.entry(began).or_default() += 1;
        ReadGuard { readers: self.clone(), began }
    }

    /// The current moment, which separates earlier from later readers.
    pub fn moment(&self) -> u64 {
        let mut table = self.table.lock();
        table.clock += 1;
        table.clock
    }

    /// Whether all readers that began before `moment` have ended.
    pub fn ended_before(&self, moment: u64) -> bool {
        self.table.lock().active.first_key_value().is_none_or(|(oldest, _)| *oldest >= moment)
    }

    /// Makes earlier readers find the content of `from` in its copy `to`. When it returns, none of them is reading
    /// `from`.
    pub fn redirect(&self, from: BlobId, to: BlobId) {
        let before = self.moment();
        let mut moved = self.moved.write();
        moved.retain(|moved| !self.ended_before(moved.before));
        moved.push(Moved { from, to, before });
    }
}

impl ReadGuard {
    /// Where this reader finds the content of a blob.
    pub fn find(&self, blob: BlobId) -> Found<'_> {
        let stays = self.readers.moved.read();
        let moved = stays.iter().find(|moved| moved.from == blob && self.began < moved.before);
        Found { blob: moved.map_or(blob, |moved| moved.to), _stays: stays }
    }
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        let mut table = self.readers.table.lock();
        if let Some(count) = table.active.get_mut(&self.began) {
            *count -= 1;
            if *count == 0 {
                table.active.remove(&self.began);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_passes_when_the_readers_before_it_end() {
        let readers = Arc::new(Readers::default());
        let before = readers.begin();
        let moment = readers.moment();
        let after = readers.begin();
        assert!(!readers.ended_before(moment));
        drop(before);
        assert!(readers.ended_before(moment));
        drop(after);
    }

    #[test]
    fn a_reader_from_before_finds_the_copy() {
        let readers = Arc::new(Readers::default());
        let (one, two, three) = (BlobId(1), BlobId(2), BlobId(3));
        let before = readers.begin();
        readers.redirect(one, two);
        let after = readers.begin();
        assert_eq!((before.find(one).blob, before.find(three).blob), (two, three));
        assert_eq!(after.find(one).blob, one);
        drop(before);
        readers.redirect(three, two);
        assert_eq!(after.find(three).blob, two);
        assert_eq!(readers.moved.read().len(), 1, "the first served nobody any more");
    }
}
