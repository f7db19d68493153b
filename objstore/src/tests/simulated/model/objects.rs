//! The effect of S3 on the model.

use std::sync::Arc;

use super::{File, Folder, Lock, Node, Part, State, Upload, etag, to_noon};
use crate::tests::simulated::content::Contents;
use crate::tests::simulated::operation::{At, Operation, bytes};

impl State {
    fn put(&mut self, contents: &mut Contents, at: &At, bytes: Arc<Vec<u8>>, made: File) {
        let (file, day) = (contents.add(bytes), self.day);
        self.bucket(&at.bucket).replace(contents, &at.path, (file, made), day);
    }

    pub(super) fn apply_objects(&mut self, contents: &mut Contents, operation: &Operation) {
        let day = self.day;
        match operation {
            Operation::Put { at, size, stamp, until } => {
                let lock = Lock { held: None, until: until.map(|until| to_noon(until, true)) };
                let (etag, note) = (Some(etag(*stamp)), Some(stamp.to_string()));
                self.put(contents, at, bytes(*stamp, *size), File { etag, note, lock, ..File::default() });
            }
            Operation::PutFolder { at } => self.bucket(&at.bucket).name(&at.path, Node::Folder(Folder::Put)),
            Operation::DeleteFolder { at } => {
                let bucket = self.bucket(&at.bucket);
                if bucket.below(&at.path).next().is_some() {
                    bucket.names.insert(at.path.clone(), Node::Folder(Folder::Implicit));
                } else {
                    bucket.names.remove(&at.path);
                }
            }
            Operation::Delete { at } => self.bucket(&at.bucket).delete(contents, &at.path, day),
            Operation::DeleteMany { bucket, keys } => {
                keys.iter().for_each(|key| self.bucket(bucket).delete(contents, key, day));
            }
            Operation::DeleteVersion { at, index, .. } => self.bucket(&at.bucket).delete_version(&at.path, *index),
            Operation::Retain { at, index, until, compliance, .. } => {
                self.lock(at, *index, |lock| lock.until = Some(to_noon(*until, *compliance)));
            }
            Operation::Hold { at, index, on } => self.lock(at, *index, |lock| lock.held = Some(*on)),
            Operation::Copy { from, to } => {
                let source = self.file_of(from);
                let File { etag, note, .. } = self.held(from).clone();
                let bytes = contents.latest(source).clone();
                self.put(contents, to, bytes, File { etag, note, ..File::default() });
            }
            _ => self.apply_uploads(contents, operation),
        }
    }

    /// A lock that changes ends the version that mounts are writing.
    fn lock(&mut self, at: &At, index: usize, change: impl FnOnce(&mut Lock)) {
        let bucket = self.bucket(&at.bucket);
        let file = bucket.version_at(&at.path, index).unwrap();
        let held = bucket.files.get_mut(&file).unwrap();
        let before = held.lock;
        change(&mut held.lock);
        held.begun = held.begun.filter(|_| held.lock == before);
    }

    fn apply_uploads(&mut self, contents: &mut Contents, operation: &Operation) {
        match operation {
            Operation::BeginUpload { at } => {
                let begun = self.day;
                self.bucket(&at.bucket).uploads.insert(at.path.clone(), Upload { begun, ..Upload::default() });
            }
            Operation::PutPart { at, number, size, stamp } => {
                let file = contents.add(bytes(*stamp, *size));
                self.upload(at).parts.insert(*number, Part { file, etag: etag(*stamp) });
            }
            Operation::CopyPart { at, number, from, stamp } => {
                let file = contents.copy(self.file_of(from));
                self.upload(at).parts.insert(*number, Part { file, etag: etag(*stamp) });
            }
            Operation::Complete { at } => {
                let upload = self.bucket(&at.bucket).uploads.remove(&at.path).unwrap();
                let last = upload.parts.last_key_value().unwrap().1.file;
                let bytes = contents.latest(last).clone();
                self.put(contents, at, bytes, File::default());
            }
            Operation::Abort { at } => {
                self.bucket(&at.bucket).uploads.remove(&at.path);
            }
            _ => {}
        }
    }

    /// The upload of a key.
    pub(in super::super) fn upload(&mut self, at: &At) -> &mut Upload {
        self.bucket(&at.bucket).uploads.get_mut(&at.path).unwrap()
    }
}
