//! Generation of operations of S3.

use super::{FOLDERS, Generator};
use crate::tests::simulated::model::{Folder, Node};
use crate::tests::simulated::operation::{At, Operation};

/// In the record, in segments, in a file.
const SIZES: [usize; 8] = [0, 10, 700, 4096, 4097, 5000, 9000, 20_000];
/// Of which there are fewer, since they take longer.
const LARGE: [usize; 2] = [60_000, 140_000];

impl Generator<'_> {
    pub(super) fn of_objects(&mut self) -> Option<Operation> {
        let bucket = self.bucket()?;
        let size = self.size();
        let locks = self.state.buckets[&bucket].locking;
        Some(match self.choices.below(12) {
            0..=4 => {
                let until = Some(self.day()).filter(|_| locks && self.choices.once_in(4));
                Operation::Put { at: self.key(&bucket)?, size, stamp: self.stamp, until }
            }
            5 | 6 => Operation::Delete { at: self.file(&bucket)? },
            7 => {
                let mut keys = vec![self.file(&bucket)?.path, self.file(&bucket)?.path];
                keys.dedup();
                Operation::DeleteMany { bucket, keys }
            }
            8 => {
                let (from, to) = (self.source()?, self.key(&bucket)?);
                ((&from.bucket, &from.path) != (&to.bucket, &to.path)).then_some(Operation::Copy { from, to })?
            }
            9 => self.of_folders(bucket)?,
            10 if locks => self.of_locks(bucket)?,
            _ => {
                let (at, index) = self.version(bucket)?;
                Operation::DeleteVersion { at, index, bypass: self.choices.once_in(2) }
            }
        })
    }

    /// The last day of a lock.
    fn day(&mut self) -> u64 {
        self.state.day + self.choices.below_u64(2)
    }

    fn of_locks(&mut self, bucket: String) -> Option<Operation> {
        let (at, index) = self.version(bucket)?;
        // A delete marker has no lock.
        self.state.buckets[&at.bucket].version_at(&at.path, index)?;
        Some(match self.choices.below(3) {
            0 => Operation::Hold { at, index, on: self.choices.once_in(2) },
            _ => {
                let (until, compliance) = (self.day(), self.choices.once_in(2));
                Operation::Retain { at, index, until, compliance, bypass: self.choices.once_in(2) }
            }
        })
    }

    fn of_folders(&mut self, bucket: String) -> Option<Operation> {
        let held = &self.state.buckets[&bucket];
        let at = At { path: (*self.choices.of(&FOLDERS)).to_owned(), bucket };
        match held.names.get(&at.path) {
            Some(Node::Folder(folder)) if self.choices.once_in(2) => {
                (*folder != Folder::Implicit).then_some(Operation::DeleteFolder { at })
            }
            _ => held.rule.is_none().then_some(Operation::PutFolder { at }),
        }
    }

    /// A version of a key: the index after those below the current one is that.
    fn version(&mut self, bucket: String) -> Option<(At, usize)> {
        let held = &self.state.buckets[&bucket];
        if !held.versioned() {
            return None;
        }
        let keys = held.versions.keys().chain(held.names.keys().filter(|key| held.file_at(key).is_some()));
        let keys: Vec<&String> = keys.collect();
        let path = self.one(&keys)?.clone();
        let count = held.versions.get(&path).map_or(0, Vec::len) + usize::from(held.file_at(&path).is_some());
        Some((At { bucket, path }, self.choices.below(count)))
    }

    pub(super) fn of_uploads(&mut self) -> Option<Operation> {
        let bucket = self.bucket()?;
        let size = self.size().max(1);
        let begun: Vec<String> = self.state.buckets[&bucket].uploads.keys().cloned().collect();
        let number = 1 + self.choices.below(3) as u32;
        let at = self.one(&begun).map(|path| At { bucket: bucket.clone(), path });
        Some(match self.choices.below(8) {
            0 | 1 => {
                let at = self.key(&bucket)?;
                (!begun.contains(&at.path)).then_some(())?;
                Operation::BeginUpload { at }
            }
            2..=4 => Operation::PutPart { at: at?, number, size, stamp: self.stamp },
            5 => {
                let from = self.source()?;
                Operation::CopyPart { at: at?, number, from, stamp: self.stamp }
            }
            6 => {
                let at = at?;
                // Only if nothing that S3 cannot replace is in the way.
                let upload = &self.state.buckets[&bucket].uploads[&at.path];
                (!upload.parts.is_empty() && self.is_writable(&at)).then_some(Operation::Complete { at })?
            }
            _ => Operation::Abort { at: at? },
        })
    }

    fn size(&mut self) -> usize {
        if self.choices.once_in(10) { *self.choices.of(&LARGE) } else { *self.choices.of(&SIZES) }
    }
}
