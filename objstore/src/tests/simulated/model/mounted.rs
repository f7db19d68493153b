//! The effect of mounts on the model.

use std::sync::Arc;

use super::bucket::By;
use super::{File, Folder, Node, State};
use crate::tests::simulated::content::{Contents, FileId};
use crate::tests::simulated::operation::{At, Operation, bytes};
use crate::volume::Allocate;

impl State {
    /// The content of a file after a change of it.
    fn write(&mut self, contents: &mut Contents, at: &At, change: impl FnOnce(&mut Vec<u8>)) {
        let day = self.day;
        let bucket = self.bucket(&at.bucket);
        bucket.begin(contents, &at.path, day);
        let file = bucket.file_at(&at.path).unwrap();
        let mut bytes = contents.latest(file).to_vec();
        change(&mut bytes);
        let held = bucket.files.get_mut(&file).unwrap();
        held.image = contents.change(file, bytes);
        (held.etag, held.fresh, held.written) = (None, false, day);
    }

    fn make(&mut self, contents: &mut Contents, at: &At) -> FileId {
        let (file, day) = (contents.add(Arc::default()), self.day);
        let made = File { mode: Some(0o644), made: true, fresh: true, written: day, null: true, ..File::default() };
        let bucket = self.bucket(&at.bucket);
        bucket.files.insert(file, made);
        bucket.name(&at.path, Node::File(file));
        bucket.arrive(&at.path, file, day);
        bucket.sweep();
        file
    }

    pub(super) fn apply_mount(&mut self, contents: &mut Contents, operation: &Operation) {
        let day = self.day;
        match operation {
            Operation::Make { at } => {
                self.make(contents, at);
            }
            Operation::Create { at } => {
                let file = self.make(contents, at);
                let bucket = self.bucket(&at.bucket);
                bucket.open.push(file);
                if bucket.versioned() {
                    let held = bucket.files.get_mut(&file).unwrap();
                    held.begun = Some(held.lock.until);
                }
            }
            Operation::MakeFolder { at } => self.bucket(&at.bucket).name(&at.path, Node::Folder(Folder::Made)),
            Operation::RemoveFolder { at } => {
                self.bucket(&at.bucket).names.remove(&at.path);
            }
            Operation::Symlink { at, target } => self.bucket(&at.bucket).name(&at.path, Node::Link(target.clone())),
            Operation::Link { at, to } => {
                let file = self.file_of(at);
                self.bucket(&at.bucket).name(to, Node::File(file));
            }
            Operation::Rename { at, to } => self.rename(contents, at, to),
            Operation::Unlink { at, .. } => {
                let bucket = self.bucket(&at.bucket);
                if let Some(Node::File(file)) = bucket.unname(&at.path, By::Mount) {
                    bucket.leave(contents, &at.path, file, day);
                }
            }
            Operation::SetMode { at, mode } => self.held(at).mode = Some(*mode),
            Operation::SetXattr { at, value } => self.held(at).xattr = Some(value.clone()),
            Operation::Open { at } => {
                let file = self.file_of(at);
                self.bucket(&at.bucket).open.push(file);
            }
            _ => self.apply_writes(contents, operation),
        }
    }

    /// What an operation that ends early may make of this: a version is begun, and not written.
    pub(in super::super) fn begun_only(&self, contents: &mut Contents, operation: &Operation) -> Option<Self> {
        let at = operation.written().filter(|at| self.buckets[&at.bucket].versioned())?;
        let (mut begun, day) = (self.clone(), self.day);
        begun.bucket(&at.bucket).begin(contents, &at.path, day);
        Some(begun)
    }

    /// What an operation that also closes what it wrote leaves before that: what mounts had begun, retained as it was.
    pub(in super::super) fn unretained(&self, before: &Self, operation: &Operation) -> Option<Self> {
        let at = operation.written()?;
        let was = &before.buckets[&at.bucket];
        let file = was.file_at(&at.path)?;
        let held = was.files[&file].clone();
        let mut left = self.clone();
        let written = left.bucket(&at.bucket).files.get_mut(&file)?;
        let until = std::mem::replace(&mut written.lock.until, held.lock.until);
        (held.begun.is_some() && until != held.lock.until).then_some(left)
    }

    fn rename(&mut self, contents: &mut Contents, at: &At, to: &str) {
        let (day, file) = (self.day, self.file_of(at));
        let bucket = self.bucket(&at.bucket);
        let replaced = bucket.file_at(to);
        // Two names of one file stay as they are (rename(2)).
        if replaced == Some(file) {
            return;
        }
        bucket.name(to, Node::File(file));
        if let Some(replaced) = replaced {
            bucket.leave(contents, to, replaced, day);
        }
        bucket.arrive(to, file, day);
        bucket.unname(&at.path, By::Mount);
        if bucket.versioned() {
            bucket.hide(&at.path, day);
        }
        bucket.sweep();
    }

    fn apply_writes(&mut self, contents: &mut Contents, operation: &Operation) {
        match operation {
            Operation::Write { at, offset, size, stamp } => self.write(contents, at, |held| {
                held.resize(held.len().max(offset + size), 0);
                held[*offset..offset + size].copy_from_slice(&bytes(*stamp, *size));
            }),
            Operation::Append { at, size, stamp } => {
                self.write(contents, at, |held| held.extend_from_slice(&bytes(*stamp, *size)));
            }
            Operation::Truncate { at, size } => self.resize(contents, at, *size),
            Operation::Allocate { at, how, offset, size } => {
                self.allocate(contents, at, *how, (*offset, offset + size));
            }
            Operation::CopyRange { at, to, size } => {
                let source = contents.latest(self.file_of(at)).clone();
                let taken = (*size).min(source.len());
                let to = At { bucket: at.bucket.clone(), path: to.clone() };
                if taken > 0 {
                    self.write(contents, &to, |held| {
                        held.resize(held.len().max(taken), 0);
                        held[..taken].copy_from_slice(&source[..taken]);
                    });
                }
            }
            Operation::Fsync { at, .. } => contents.sync(self.file_of(at)),
            Operation::SyncVolume { bucket } => self.sync_bucket(contents, bucket),
            _ => {}
        }
    }

    fn resize(&mut self, contents: &mut Contents, at: &At, size: usize) {
        let (file, day) = (self.file_of(at), self.day);
        if size <= contents.latest(file).len() {
            self.held(at).reserved = 0;
        }
        self.write(contents, at, |held| held.resize(size, 0));
        self.bucket(&at.bucket).changed_unopened(file, day);
    }

    fn allocate(&mut self, contents: &mut Contents, at: &At, how: Allocate, (from, to): (usize, usize)) {
        let file = self.file_of(at);
        if matches!(how, Allocate::Extend | Allocate::ZeroRange) && to > contents.latest(file).len() {
            self.resize(contents, at, to);
        } else if how != Allocate::PunchHole {
            let day = self.day;
            self.bucket(&at.bucket).begin(contents, &at.path, day);
        }
        if matches!(how, Allocate::KeepSize | Allocate::ZeroRangeKeepSize) {
            let held = self.held(at);
            held.reserved = held.reserved.max(to);
        }
        if matches!(how, Allocate::Extend | Allocate::KeepSize) {
            return;
        }
        let (held, day) = (contents.latest(file).len(), self.day);
        if from < to.min(held) {
            self.write(contents, at, |bytes| bytes[from..to.min(held)].fill(0));
        } else {
            self.bucket(&at.bucket).begin(contents, &at.path, day);
        }
    }
}
