//! What a store holds, as plain maps, and what each operation makes of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::act::{Act, At, bytes};
use super::content::{Contents, FileId};
use crate::store::Mode;
use crate::volume::Allocate;

/// All that is to be found in a store.
#[derive(Clone, Default)]
pub(super) struct State {
    /// Buckets and snapshots.
    pub(super) buckets: BTreeMap<String, Bucket>,
    /// Accounts but root's, and how many keys they have.
    pub(super) accounts: BTreeMap<String, usize>,
    /// By bucket and account.
    pub(super) grants: BTreeMap<(String, String), Mode>,
}

#[derive(Clone, Default)]
pub(super) struct Bucket {
    pub(super) snapshot: bool,
    pub(super) quota: Option<u64>,
    pub(super) versioned: bool,
    /// By path.
    pub(super) names: BTreeMap<String, Node>,
    pub(super) files: BTreeMap<FileId, File>,
    /// Versions below the current one, oldest first; `None` is a delete marker.
    pub(super) versions: BTreeMap<String, Vec<Option<FileId>>>,
    /// By key: one at a time.
    pub(super) uploads: BTreeMap<String, Upload>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    File(FileId),
    Folder,
    Link(String),
}

#[derive(Clone, Default)]
pub(super) struct File {
    /// Which of its images this state saw last.
    pub(super) image: usize,
    /// Permission bits, if they are known.
    pub(super) mode: Option<u32>,
    /// The entity tag, if S3 gave it.
    pub(super) etag: Option<String>,
    /// User metadata.
    pub(super) note: Option<String>,
    /// An extended attribute.
    pub(super) xattr: Option<Vec<u8>>,
}

#[derive(Clone, Default)]
pub(super) struct Upload {
    /// Unknown while its beginning is not answered.
    pub(super) id: Option<String>,
    pub(super) parts: BTreeMap<u32, FileId>,
}

/// The entity tag a stamp gives.
pub(super) fn etag(stamp: u64) -> String {
    format!("{stamp:032x}")
}

impl Bucket {
    /// The file at a path.
    pub(super) fn file_at(&self, path: &str) -> Option<FileId> {
        match self.names.get(path) {
            Some(Node::File(file)) => Some(*file),
            _ => None,
        }
    }

    /// A new object under a key, in place of what was there.
    fn replace(&mut self, key: &str, file: FileId, mut made: File) {
        let before = self.file_at(key);
        made.mode = before.and_then(|before| self.files.get(&before)?.mode);
        self.set_aside(key);
        self.names.insert(key.to_owned(), Node::File(file));
        self.files.insert(file, made);
        self.sweep();
    }

    /// The current version of a key becomes an old one, if the bucket keeps them.
    fn set_aside(&mut self, key: &str) {
        if let Some(file) = self.file_at(key).filter(|_| self.versioned) {
            self.versions.entry(key.to_owned()).or_default().push(Some(file));
        }
    }

    fn delete(&mut self, key: &str) {
        if self.versioned && self.file_at(key).is_some() {
            self.set_aside(key);
            self.versions.entry(key.to_owned()).or_default().push(None);
        }
        self.names.remove(key);
        self.sweep();
    }

    fn delete_version(&mut self, key: &str, index: usize) {
        let current = self.names.contains_key(key);
        let Some(versions) = self.versions.get_mut(key) else { return };
        versions.remove(index);
        // What hid a version is gone.
        if !current
            && index == versions.len()
            && let Some(Some(file)) = versions.last().copied()
        {
            versions.pop();
            self.names.insert(key.to_owned(), Node::File(file));
        }
        if self.versions.get(key).is_some_and(Vec::is_empty) {
            self.versions.remove(key);
        }
        self.sweep();
    }

    /// Forgets files that have no name any more.
    fn sweep(&mut self) {
        let (names, versions) = (&self.names, &self.versions);
        self.files.retain(|file, _| {
            names.values().any(|node| *node == Node::File(*file))
                || versions.values().flatten().any(|of| *of == Some(*file))
        });
    }

    /// The same content in files of its own.
    fn copied(&self, contents: &mut Contents) -> Self {
        let mut copy = Self { uploads: BTreeMap::new(), quota: None, files: BTreeMap::new(), ..self.clone() };
        let mut moved = BTreeMap::new();
        for (file, held) in &self.files {
            let own = contents.copy(*file);
            moved.insert(*file, own);
            copy.files.insert(own, File { image: 0, ..held.clone() });
        }
        for node in copy.names.values_mut() {
            if let Node::File(file) = node {
                *file = moved[file];
            }
        }
        for file in copy.versions.values_mut().flatten().flatten() {
            *file = moved[file];
        }
        copy
    }

    /// How many names a file has.
    pub(super) fn links(&self, file: FileId) -> usize {
        self.names.values().filter(|node| **node == Node::File(file)).count()
    }
}

impl State {
    fn bucket(&mut self, name: &str) -> &mut Bucket {
        self.buckets.get_mut(name).unwrap()
    }

    fn put(&mut self, contents: &mut Contents, at: &At, bytes: Arc<Vec<u8>>, made: File) {
        let file = contents.add(bytes);
        self.bucket(&at.bucket).replace(&at.path, file, made);
    }

    /// The content of a file after a change of it.
    fn write(&mut self, contents: &mut Contents, at: &At, change: impl FnOnce(&mut Vec<u8>)) {
        let bucket = self.bucket(&at.bucket);
        let file = bucket.file_at(&at.path).unwrap();
        let mut bytes = contents.latest(file).to_vec();
        change(&mut bytes);
        let held = bucket.files.get_mut(&file).unwrap();
        held.image = contents.change(file, bytes);
        held.etag = None;
    }

    fn held(&mut self, at: &At) -> &mut File {
        let bucket = self.bucket(&at.bucket);
        let file = bucket.file_at(&at.path).unwrap();
        bucket.files.get_mut(&file).unwrap()
    }

    fn file_of(&self, at: &At) -> FileId {
        self.buckets[&at.bucket].file_at(&at.path).unwrap()
    }

    /// All content of a bucket is on disk.
    fn sync_bucket(&self, contents: &mut Contents, bucket: &str) {
        self.buckets[bucket].files.keys().for_each(|file| contents.sync(*file));
    }

    fn branch(&mut self, contents: &mut Contents, from: &str, to: &str, snapshot: bool) {
        if !self.buckets[from].snapshot {
            self.sync_bucket(contents, from);
        }
        let copy = self.buckets[from].clone().copied(contents);
        self.buckets.insert(to.to_owned(), Bucket { snapshot, ..copy });
    }

    /// Of files that were there before, any image since then may be found.
    pub(super) fn see_images_of(&mut self, before: &Self) {
        for (name, bucket) in &mut self.buckets {
            for (file, held) in &mut bucket.files {
                let known = before.buckets.get(name).and_then(|bucket| bucket.files.get(file));
                held.image = known.map_or(held.image, |known| known.image);
            }
        }
    }

    /// What an operation makes of this.
    pub(super) fn apply(&mut self, contents: &mut Contents, act: &Act) {
        match act {
            Act::CreateBucket { bucket, quota, versioned } => {
                let made = Bucket { quota: *quota, versioned: *versioned, ..Bucket::default() };
                self.buckets.insert(bucket.clone(), made);
            }
            Act::DeleteBucket { bucket } => {
                self.buckets.remove(bucket);
                self.grants.retain(|(of, _), _| of != bucket);
            }
            Act::SetQuota { bucket, quota } => self.bucket(bucket).quota = *quota,
            Act::Snapshot { bucket, name } => self.branch(contents, bucket, name, true),
            Act::Clone { source, bucket } => self.branch(contents, source, bucket, false),
            Act::DeleteSnapshot { name } => {
                self.buckets.remove(name);
            }
            Act::CreateAccount { account } => {
                self.accounts.insert(account.clone(), 0);
            }
            Act::DeleteAccount { account } => {
                self.accounts.remove(account);
                self.grants.retain(|(_, of), _| of != account);
            }
            Act::RotateKey { account } => {
                let keys = self.accounts.get_mut(account).unwrap();
                *keys = 2.min(*keys + 1);
            }
            Act::Grant { bucket, account, mode } => {
                self.grants.insert((bucket.clone(), account.clone()), *mode);
            }
            Act::Revoke { bucket, account } => {
                self.grants.remove(&(bucket.clone(), account.clone()));
            }
            _ if act.is_of_mount() => self.apply_mount(contents, act),
            _ => self.apply_objects(contents, act),
        }
    }

    fn apply_objects(&mut self, contents: &mut Contents, act: &Act) {
        match act {
            Act::Put { at, size, stamp } => {
                let made = File { etag: Some(etag(*stamp)), note: Some(stamp.to_string()), ..File::default() };
                self.put(contents, at, bytes(*stamp, *size), made);
            }
            Act::Delete { at } => self.bucket(&at.bucket).delete(&at.path),
            Act::DeleteMany { bucket, keys } => keys.iter().for_each(|key| self.bucket(bucket).delete(key)),
            Act::DeleteVersion { at, index } => self.bucket(&at.bucket).delete_version(&at.path, *index),
            Act::Copy { from, to } => {
                let source = self.file_of(from);
                let File { etag, note, .. } = self.held(from).clone();
                let bytes = contents.latest(source).clone();
                self.put(contents, to, bytes, File { etag, note, ..File::default() });
            }
            Act::BeginUpload { at } => {
                self.bucket(&at.bucket).uploads.insert(at.path.clone(), Upload::default());
            }
            Act::PutPart { at, number, size, stamp } => {
                let file = contents.add(bytes(*stamp, *size));
                self.upload(at).parts.insert(*number, file);
            }
            Act::CopyPart { at, number, from } => {
                let file = contents.copy(self.file_of(from));
                self.upload(at).parts.insert(*number, file);
            }
            Act::Complete { at } => {
                let upload = self.bucket(&at.bucket).uploads.remove(&at.path).unwrap();
                let bytes = contents.latest(*upload.parts.last_key_value().unwrap().1).clone();
                self.put(contents, at, bytes, File::default());
            }
            Act::Abort { at } => {
                self.bucket(&at.bucket).uploads.remove(&at.path);
            }
            _ => {}
        }
    }

    /// The upload of a key.
    pub(super) fn upload(&mut self, at: &At) -> &mut Upload {
        self.bucket(&at.bucket).uploads.get_mut(&at.path).unwrap()
    }

    fn apply_mount(&mut self, contents: &mut Contents, act: &Act) {
        match act {
            Act::Make { at } => {
                let file = contents.add(Arc::default());
                let bucket = self.bucket(&at.bucket);
                bucket.names.insert(at.path.clone(), Node::File(file));
                bucket.files.insert(file, File { mode: Some(0o644), ..File::default() });
            }
            Act::MakeFolder { at } => {
                self.bucket(&at.bucket).names.insert(at.path.clone(), Node::Folder);
            }
            Act::RemoveFolder { at } => {
                self.bucket(&at.bucket).names.remove(&at.path);
            }
            Act::Symlink { at, target } => {
                self.bucket(&at.bucket).names.insert(at.path.clone(), Node::Link(target.clone()));
            }
            Act::Link { at, to } => {
                let file = self.file_of(at);
                self.bucket(&at.bucket).names.insert(to.clone(), Node::File(file));
            }
            Act::Rename { at, to } => {
                let bucket = self.bucket(&at.bucket);
                // Two names of one file stay as they are (rename(2)).
                if bucket.file_at(to).is_none() || bucket.file_at(to) != bucket.file_at(&at.path) {
                    let node = bucket.names.remove(&at.path).unwrap();
                    bucket.names.insert(to.clone(), node);
                    bucket.sweep();
                }
            }
            Act::Unlink { at, .. } => self.bucket(&at.bucket).delete(&at.path),
            Act::SetMode { at, mode } => self.held(at).mode = Some(*mode),
            Act::SetXattr { at, value } => self.held(at).xattr = Some(value.clone()),
            _ => self.apply_writes(contents, act),
        }
    }

    fn apply_writes(&mut self, contents: &mut Contents, act: &Act) {
        match act {
            Act::Write { at, offset, size, stamp } => self.write(contents, at, |held| {
                held.resize(held.len().max(offset + size), 0);
                held[*offset..offset + size].copy_from_slice(&bytes(*stamp, *size));
            }),
            Act::Append { at, size, stamp } => {
                self.write(contents, at, |held| held.extend_from_slice(&bytes(*stamp, *size)));
            }
            Act::Truncate { at, size } => self.write(contents, at, |held| held.resize(*size, 0)),
            Act::Allocate { at, how, offset, size } => self.write(contents, at, |held| {
                let end = offset + size;
                if matches!(how, Allocate::Extend | Allocate::ZeroRange) {
                    held.resize(held.len().max(end), 0);
                }
                let end = end.min(held.len());
                if !matches!(how, Allocate::Extend | Allocate::KeepSize) && *offset < end {
                    held[*offset..end].fill(0);
                }
            }),
            Act::CopyRange { at, to, size } => {
                let source = contents.latest(self.file_of(at)).clone();
                let taken = (*size).min(source.len());
                let to = At { bucket: at.bucket.clone(), path: to.clone() };
                self.write(contents, &to, |held| {
                    held.resize(held.len().max(taken), 0);
                    held[..taken].copy_from_slice(&source[..taken]);
                });
            }
            Act::Fsync { at, .. } => contents.sync(self.file_of(at)),
            Act::SyncVolume { bucket } => self.sync_bucket(contents, bucket),
            _ => {}
        }
    }
}
