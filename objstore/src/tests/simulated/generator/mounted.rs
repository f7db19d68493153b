//! Generation of operations of mounts.

use super::{FOLDERS, Generator};
use crate::tests::simulated::operation::{At, Operation, bytes};
use crate::volume::Allocate;

/// Of writes by mounts.
const WRITES: [usize; 7] = [1, 100, 1000, 4000, 4096, 6000, 10_000];

impl Generator<'_> {
    pub(super) fn of_names(&mut self) -> Option<Operation> {
        let bucket = self.bucket()?;
        let versioned = self.state.buckets[&bucket].versioned();
        Some(match self.choices.below(13) {
            0 | 1 => Operation::Make { at: self.new_path(&bucket)? },
            2 => Operation::Create { at: self.new_path(&bucket)? },
            3 => {
                let folder = (*self.choices.of(&FOLDERS)).to_owned();
                (!self.state.buckets[&bucket].names.contains_key(&folder)).then_some(())?;
                Operation::MakeFolder { at: At { bucket, path: folder } }
            }
            4 => Operation::RemoveFolder { at: self.empty_folder(&bucket)? },
            5 => Operation::Symlink { at: self.new_path(&bucket)?, target: format!("to/{}", self.stamp) },
            6 | 12 if !versioned || self.choices.once_in(8) => {
                let at = self.file(&bucket)?;
                Operation::Link { at, to: self.new_path(&bucket)?.path }
            }
            7 | 8 => {
                let (at, to) = (self.file(&bucket)?, self.reachable(&bucket)?);
                self.is_writable(&to).then_some(Operation::Rename { at, to: to.path })?
            }
            9 => {
                let at = self.file(&bucket)?;
                Operation::Unlink { at, hold: self.choices.once_in(2) }
            }
            10 => Operation::SetMode { at: self.file(&bucket)?, mode: *self.choices.of(&[0o600, 0o640, 0o755]) },
            11 => {
                let value = bytes(self.stamp, 1 + self.choices.below(300)).to_vec();
                Operation::SetXattr { at: self.file(&bucket)?, value }
            }
            _ => return None,
        })
    }

    pub(super) fn of_files(&mut self) -> Option<Operation> {
        let bucket = self.bucket()?;
        match self.choices.below(16) {
            0 => return Some(Operation::SyncVolume { bucket }),
            1 => return Some(Operation::Close { bucket }),
            2 if self.choices.once_in(3) => return Some(Operation::Unmount { bucket }),
            _ => {}
        }
        let at = self.file(&bucket)?;
        if self.choices.once_in(5) {
            return Some(Operation::Fsync { at, data_only: self.choices.once_in(2) });
        }
        let held = &self.state.buckets[&bucket];
        // What a quota refuses of a new version may be the one that it begins.
        (!held.versioned() || held.quota.is_none()).then_some(())?;
        let locked = held.file_at(&at.path).is_some_and(|file| held.files[&file].refuses_writes(self.state.day));
        let (size, offset) = (*self.choices.of(&WRITES), self.choices.below(14_000));
        Some(match self.choices.below(12) {
            0..=3 => Operation::Write { at, offset, size, stamp: self.stamp },
            4..=6 => Operation::Append { at, size, stamp: self.stamp },
            7 | 8 => Operation::Truncate { at, size: self.choices.below(16_000) },
            // Where nobody has the file open one call may begin two versions.
            9 if !locked
                && (!held.versioned() || held.file_at(&at.path).is_some_and(|file| held.open.contains(&file))) =>
            {
                let how = *self.choices.of(&[
                    Allocate::Extend,
                    Allocate::KeepSize,
                    Allocate::PunchHole,
                    Allocate::ZeroRange,
                    Allocate::ZeroRangeKeepSize,
                ]);
                Operation::Allocate { at, how, offset, size }
            }
            10 => Operation::Open { at },
            11 => {
                let (to, held) = (self.file(&bucket)?.path, &self.state.buckets[&bucket]);
                let (from, target) = (held.file_at(&at.path)?, held.file_at(&to)?);
                let locked = held.files[&target].refuses_writes(self.state.day);
                let whole = !held.versioned() || held.open.contains(&target);
                (from != target && !locked && whole).then_some(Operation::CopyRange { at, to, size })?
            }
            _ => return None,
        })
    }
}
