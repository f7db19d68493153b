//! Drawing operations: such as the model says must succeed.

use super::act::{Act, At, bytes};
use super::model::{Bucket, Node, State};
use crate::store::Mode;
use crate::tests::random::Choices;
use crate::volume::Allocate;

const BUCKETS: [&str; 3] = ["alpha", "beta", "gamma"];
const CLONES: [&str; 2] = ["clone-one", "clone-two"];
const SNAPSHOTS: [&str; 2] = ["snap-one", "snap-two"];
const ACCOUNTS: [&str; 2] = ["ann", "bob"];
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const FOLDERS: [&str; 2] = ["x", "y"];
/// In the record, in segments, in a file.
const SIZES: [usize; 8] = [0, 10, 700, 4096, 4097, 5000, 9000, 20_000];
/// Of which there are fewer, since they take longer.
const LARGE: [usize; 2] = [60_000, 140_000];
/// Of writes by mounts.
const WRITES: [usize; 7] = [1, 100, 1000, 4000, 4096, 6000, 10_000];

/// Draws operations.
pub(super) struct Draw<'a> {
    pub(super) state: &'a State,
    pub(super) choices: &'a mut Choices,
    /// Of the content it writes.
    pub(super) stamp: u64,
}

impl Draw<'_> {
    /// The next operation: whatever is drawn first that can be.
    pub(super) fn act(&mut self) -> Act {
        loop {
            let drawn = match self.choices.below(40) {
                _ if self.buckets(false).is_empty() => self.of_store(),
                0 | 1 => self.of_store(),
                2 | 3 => self.of_branches(),
                4..=13 => self.of_objects(),
                14..=16 => self.of_uploads(),
                17..=24 => self.of_names(),
                25..=35 => self.of_files(),
                36 => self.bucket().map(|bucket| Act::Look { bucket }),
                37 => Some(Act::Collect),
                _ => Some(match self.choices.below(6) {
                    0 => Act::Reopen,
                    1 => Act::Pass,
                    _ => Act::Collect,
                })
                .filter(|_| self.choices.once_in(2)),
            };
            if let Some(act) = drawn {
                return act;
            }
        }
    }

    fn of_store(&mut self) -> Option<Act> {
        let quota = Some(200_000).filter(|_| self.choices.once_in(3));
        let account = (*self.choices.of(&ACCOUNTS)).to_owned();
        let known = self.state.accounts.contains_key(&account);
        Some(match self.choices.below(8) {
            0 | 1 => Act::CreateBucket { bucket: self.free(&BUCKETS)?, quota, versioned: self.choices.once_in(3) },
            2 if self.choices.once_in(3) => Act::DeleteBucket { bucket: self.bucket()? },
            3 => Act::SetQuota { bucket: self.bucket()?, quota },
            4 if !known => Act::CreateAccount { account },
            4 if self.choices.once_in(4) => Act::DeleteAccount { account },
            5 if known && self.choices.once_in(4) => Act::RotateMaster,
            5 if known => Act::RotateKey { account },
            6 if known => {
                let mode = *self.choices.of(&[Mode::Read, Mode::Write, Mode::ReadWrite, Mode::Owner]);
                let bucket = self.bucket()?;
                (!self.state.grants.contains_key(&(bucket.clone(), account.clone()))).then_some(())?;
                Act::Grant { bucket, account, mode }
            }
            7 => {
                let granted: Vec<_> = self.state.grants.keys().cloned().collect();
                let (bucket, account) = self.one(&granted)?;
                Act::Revoke { bucket, account }
            }
            _ => return None,
        })
    }

    fn of_branches(&mut self) -> Option<Act> {
        let snapshots: Vec<String> = self.buckets(true);
        Some(match self.choices.below(5) {
            0 | 1 => Act::Snapshot { bucket: self.bucket()?, name: self.free(&SNAPSHOTS)? },
            2 => Act::DeleteSnapshot { name: self.one(&snapshots)? },
            3 => Act::Clone { source: self.one(&snapshots)?, bucket: self.free(&CLONES)? },
            _ => Act::Clone { source: self.bucket()?, bucket: self.free(&CLONES)? },
        })
    }

    fn of_objects(&mut self) -> Option<Act> {
        let bucket = self.bucket()?;
        let size = self.size();
        Some(match self.choices.below(10) {
            0..=4 => Act::Put { at: self.key(&bucket)?, size, stamp: self.stamp },
            5 | 6 => Act::Delete { at: self.file(&bucket)? },
            7 => {
                let mut keys = vec![self.file(&bucket)?.path, self.file(&bucket)?.path];
                keys.dedup();
                Act::DeleteMany { bucket, keys }
            }
            8 => {
                let (from, to) = (self.source()?, self.key(&bucket)?);
                ((&from.bucket, &from.path) != (&to.bucket, &to.path)).then_some(Act::Copy { from, to })?
            }
            _ => {
                let held: Vec<(String, usize)> =
                    self.state.buckets[&bucket].versions.iter().map(|(key, held)| (key.clone(), held.len())).collect();
                let (path, count) = self.one(&held)?;
                Act::DeleteVersion { at: At { bucket, path }, index: self.choices.below(count) }
            }
        })
    }

    fn of_uploads(&mut self) -> Option<Act> {
        let bucket = self.bucket()?;
        let size = self.size().max(1);
        let begun: Vec<String> = self.state.buckets[&bucket].uploads.keys().cloned().collect();
        let number = 1 + self.choices.below(3) as u32;
        let at = self.one(&begun).map(|path| At { bucket: bucket.clone(), path });
        Some(match self.choices.below(8) {
            0 | 1 => {
                let at = self.key(&bucket)?;
                (!begun.contains(&at.path)).then_some(())?;
                Act::BeginUpload { at }
            }
            2..=4 => Act::PutPart { at: at?, number, size, stamp: self.stamp },
            5 => {
                let from = self.source()?;
                Act::CopyPart { at: at?, number, from }
            }
            6 => {
                let at = at?;
                // Only if nothing that S3 cannot replace is in the way.
                let upload = &self.state.buckets[&bucket].uploads[&at.path];
                (!upload.parts.is_empty() && self.is_writable(&at)).then_some(Act::Complete { at })?
            }
            _ => Act::Abort { at: at? },
        })
    }

    fn of_names(&mut self) -> Option<Act> {
        let bucket = self.bucket()?;
        let versioned = self.state.buckets[&bucket].versioned;
        Some(match self.choices.below(12) {
            // A file nothing was written to makes no version: those are tested apart.
            0..=2 if !versioned => Act::Make { at: self.new_path(&bucket)? },
            3 => {
                let folder = (*self.choices.of(&FOLDERS)).to_owned();
                (!self.state.buckets[&bucket].names.contains_key(&folder)).then_some(())?;
                Act::MakeFolder { at: At { bucket, path: folder } }
            }
            4 => Act::RemoveFolder { at: self.empty_folder(&bucket)? },
            5 => Act::Symlink { at: self.new_path(&bucket)?, target: format!("to/{}", self.stamp) },
            6 if !versioned => {
                let at = self.file(&bucket)?;
                Act::Link { at, to: self.new_path(&bucket)?.path }
            }
            7 | 8 if !versioned => {
                let at = self.file(&bucket)?;
                Act::Rename { at, to: self.key(&bucket)?.path }
            }
            9 => {
                let at = self.file(&bucket)?;
                Act::Unlink { at, hold: self.choices.once_in(2) }
            }
            10 => Act::SetMode { at: self.file(&bucket)?, mode: *self.choices.of(&[0o600, 0o640, 0o755]) },
            11 => {
                let value = bytes(self.stamp, 1 + self.choices.below(300)).to_vec();
                Act::SetXattr { at: self.file(&bucket)?, value }
            }
            _ => return None,
        })
    }

    fn of_files(&mut self) -> Option<Act> {
        let bucket = self.bucket()?;
        match self.choices.below(16) {
            0 => return Some(Act::SyncVolume { bucket }),
            1 => return Some(Act::Close { bucket }),
            2 if self.choices.once_in(3) => return Some(Act::Unmount { bucket }),
            _ => {}
        }
        let at = self.file(&bucket)?;
        if self.choices.once_in(5) {
            return Some(Act::Fsync { at, data_only: self.choices.once_in(2) });
        }
        // What a mount changes becomes versions in its own way: that is tested apart.
        (!self.state.buckets[&bucket].versioned).then_some(())?;
        let (size, offset) = (*self.choices.of(&WRITES), self.choices.below(14_000));
        Some(match self.choices.below(12) {
            0..=3 => Act::Write { at, offset, size, stamp: self.stamp },
            4..=6 => Act::Append { at, size, stamp: self.stamp },
            7 | 8 => Act::Truncate { at, size: self.choices.below(16_000) },
            9 => {
                let how = *self.choices.of(&[
                    Allocate::Extend,
                    Allocate::KeepSize,
                    Allocate::PunchHole,
                    Allocate::ZeroRange,
                    Allocate::ZeroRangeKeepSize,
                ]);
                Act::Allocate { at, how, offset, size }
            }
            10 => Act::Open { at },
            _ => {
                let to = self.file(&bucket)?.path;
                let same = self.state.buckets[&bucket].file_at(&to) == self.state.buckets[&bucket].file_at(&at.path);
                (!same).then_some(Act::CopyRange { at, to, size })?
            }
        })
    }

    fn size(&mut self) -> usize {
        if self.choices.once_in(10) { *self.choices.of(&LARGE) } else { *self.choices.of(&SIZES) }
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| self.choices.of(of).clone())
    }

    fn buckets(&self, snapshots: bool) -> Vec<String> {
        let held = self.state.buckets.iter().filter(|(_, held)| held.snapshot == snapshots);
        held.map(|(name, _)| name.clone()).collect()
    }

    fn bucket(&mut self) -> Option<String> {
        let buckets = self.buckets(false);
        self.one(&buckets)
    }

    fn free(&mut self, of: &[&str]) -> Option<String> {
        let free: Vec<&&str> = of.iter().filter(|name| !self.state.buckets.contains_key(**name)).collect();
        self.one(&free).map(|name| (*name).to_owned())
    }

    /// A path whose folder is there.
    fn path(&mut self, bucket: &str) -> At {
        let held = &self.state.buckets[bucket];
        let folders: Vec<&&str> = FOLDERS.iter().filter(|folder| held.names.contains_key(**folder)).collect();
        let name = *self.choices.of(&NAMES);
        let folder = if self.choices.once_in(2) { self.one(&folders) } else { None };
        let path = folder.map_or_else(|| name.to_owned(), |folder| format!("{folder}/{name}"));
        At { bucket: bucket.to_owned(), path }
    }

    fn is_writable(&self, at: &At) -> bool {
        let held: &Bucket = &self.state.buckets[&at.bucket];
        let folder = at.path.split_once('/').is_none_or(|(folder, _)| held.names.contains_key(folder));
        folder && matches!(held.names.get(&at.path), None | Some(Node::File(_)))
    }

    /// A path where a file is, or nothing.
    fn key(&mut self, bucket: &str) -> Option<At> {
        let at = self.path(bucket);
        self.is_writable(&at).then_some(at)
    }

    /// A path where nothing is.
    fn new_path(&mut self, bucket: &str) -> Option<At> {
        let at = self.path(bucket);
        (!self.state.buckets[bucket].names.contains_key(&at.path)).then_some(at)
    }

    /// A file there is.
    fn file(&mut self, bucket: &str) -> Option<At> {
        let names = self.state.buckets[bucket].names.iter();
        let files: Vec<&String> =
            names.filter(|(_, node)| matches!(node, Node::File(_))).map(|(path, _)| path).collect();
        self.one(&files).map(|path| At { bucket: bucket.to_owned(), path: path.clone() })
    }

    /// A file there is, in any bucket or snapshot.
    fn source(&mut self) -> Option<At> {
        let all: Vec<String> = self.state.buckets.keys().cloned().collect();
        let bucket = self.one(&all)?;
        self.file(&bucket)
    }

    fn empty_folder(&mut self, bucket: &str) -> Option<At> {
        let held = &self.state.buckets[bucket];
        let inside = |folder: &str| {
            let below = |path: &String| path.split_once('/').is_some_and(|(above, _)| above == folder);
            held.names.keys().any(below) || held.versions.keys().any(below)
        };
        let empty: Vec<&&str> =
            FOLDERS.iter().filter(|folder| held.names.contains_key(**folder) && !inside(folder)).collect();
        self.one(&empty).map(|folder| At { bucket: bucket.to_owned(), path: (*folder).to_owned() })
    }
}
