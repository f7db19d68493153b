//! Operations that a store must refuse in any state.

use super::{Bucket, State, to_noon};
use crate::store::Versioning;
use crate::tests::simulated::operation::{At, Operation};

impl State {
    /// Whether an operation is to be refused, with nothing changed.
    pub(in super::super) fn refuses(&self, operation: &Operation) -> bool {
        let current = |at: &At| self.protection(at, usize::MAX).is_some_and(|lock| lock.protects(self.day));
        let unwritable = |at: &At| {
            let bucket = &self.buckets[&at.bucket];
            bucket.file_at(&at.path).is_some_and(|file| bucket.files[&file].refuses_writes(self.day))
        };
        match operation {
            Operation::DeleteVersion { at, index, bypass } => self.keeps(at, *index, *bypass),
            Operation::Retain { at, index, until, compliance, bypass } => {
                let before = self.protection(at, *index).and_then(|lock| lock.until);
                before.is_some_and(|(end, by_all)| {
                    let weaker = to_noon(*until, *compliance).0 < end || *compliance != by_all;
                    end > 2 * self.day && weaker && (by_all || !*bypass)
                })
            }
            Operation::SetVersioning { bucket, versioning } => {
                self.buckets[bucket].locking && *versioning != Versioning::Enabled
            }
            Operation::Link { at, .. } => self.buckets[&at.bucket].versioned(),
            Operation::DeleteBucket { bucket } => self.buckets[bucket].is_protected(self.day),
            Operation::Write { at, .. }
            | Operation::Append { at, .. }
            | Operation::Truncate { at, .. }
            | Operation::Open { at } => unwritable(at),
            Operation::Unlink { at, .. } => current(at),
            Operation::Rename { at, to } => {
                let to = At { bucket: at.bucket.clone(), path: to.clone() };
                current(at) || current(&to) || self.buckets[&at.bucket].is_one_of_several(&at.path, &to.path)
            }
            _ => false,
        }
    }

    /// Whether an operation writes to a version that mounts are writing already.
    pub(in super::super) fn goes_on_with_a_version(&self, operation: &Operation) -> bool {
        let begun = |at: At| {
            let bucket = &self.buckets[&at.bucket];
            bucket.versioned() && bucket.file_at(&at.path).is_some_and(|file| bucket.files[&file].begun.is_some())
        };
        operation.written().is_some_and(begun)
    }

    fn protection(&self, at: &At, index: usize) -> Option<super::Lock> {
        let bucket = &self.buckets[&at.bucket];
        bucket.version_at(&at.path, index).map(|file| bucket.files[&file].lock)
    }

    /// Whether object lock keeps a version from being deleted.
    fn keeps(&self, at: &At, index: usize, bypass: bool) -> bool {
        let Some(lock) = self.protection(at, index) else { return false };
        let governed = lock.until.is_some_and(|(_, by_all)| !by_all) && lock.held != Some(true);
        lock.protects(self.day) && !(governed && bypass)
    }
}

impl Bucket {
    /// Whether a name is one of several that a file has from before there were versions; another of them is no new name.
    fn is_one_of_several(&self, path: &str, to: &str) -> bool {
        let file = self.file_at(path);
        self.versioned() && file != self.file_at(to) && file.is_some_and(|file| self.links(file) > 1)
    }

    fn is_protected(&self, day: u64) -> bool {
        self.files.values().any(|file| file.lock.protects(day))
    }
}
