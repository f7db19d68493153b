//! The reference model: a store's content as plain maps, and the effect of each operation on it.
//!
//! - Days are counted from the beginning: a lock that ends with a day still protects on it, and a rule of some days is
//!   due after them.
//! - State of the process (open files, versions being written) is modelled too, and ends with it.

mod bucket;
mod mounted;
mod objects;
mod refusal;
mod rules;

use std::collections::BTreeMap;

use super::content::{Contents, FileId};
use super::operation::{At, Operation, Rule};
use crate::store::{Mode, Versioning};

/// All that is to be found in a store.
#[derive(Clone, Default)]
pub(super) struct State {
    /// Today.
    pub(super) day: u64,
    /// Buckets and snapshots.
    pub(super) buckets: BTreeMap<String, Bucket>,
    /// Accounts but root's, and how many keys they have.
    pub(super) accounts: BTreeMap<String, usize>,
    /// By bucket and account.
    pub(super) grants: BTreeMap<(String, String), Mode>,
    /// How often what the rules say was done, and what that came to, key by key, if it was done last.
    pub(super) expired: Option<rules::Expired>,
}

#[derive(Clone, Default)]
pub(super) struct Bucket {
    pub(super) snapshot: bool,
    pub(super) quota: Option<u64>,
    pub(super) versioning: Versioning,
    /// Whether it has object lock.
    pub(super) locking: bool,
    /// Whether what is new is retained for a day, and if so whether by compliance.
    pub(super) retention: Option<bool>,
    pub(super) rule: Option<Rule>,
    /// By path.
    pub(super) names: BTreeMap<String, Node>,
    pub(super) files: BTreeMap<FileId, File>,
    /// Versions below the current one, oldest first.
    pub(super) versions: BTreeMap<String, Vec<Version>>,
    /// By key: one at a time.
    pub(super) uploads: BTreeMap<String, Upload>,
    /// Files open for writing, oldest first.
    pub(super) open: Vec<FileId>,
}

/// A version that is not current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// Nothing of a delete marker.
    pub(super) file: Option<FileId>,
    /// The day it ceased to be current; of a marker, the day it was made.
    pub(super) since: u64,
    /// Of a marker: whether it is the version `null`.
    pub(super) null: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    File(FileId),
    Folder(Folder),
    Link(String),
}

/// What S3 makes of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Folder {
    /// It is there because of the keys in it.
    Implicit,
    /// A mount made it, or emptied it.
    Made,
    /// S3 put it.
    Put,
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
    /// Whether a mount made it.
    pub(super) made: bool,
    /// Whether nothing was ever written to it since.
    pub(super) fresh: bool,
    /// The day its content last changed, or the version that it is was begun.
    pub(super) written: u64,
    pub(super) lock: Lock,
    /// Up to where space is reserved for it, which counts against the quota.
    pub(super) reserved: usize,
    /// Whether it is the version `null`.
    pub(super) null: bool,
    /// The name under which it keeps versions, if that leads to it.
    pub(super) known: Option<String>,
    /// How the version was retained that mounts of this process began, if they are writing one.
    pub(super) begun: Option<Option<Until>>,
}

/// Half of a day, counted from the beginning, and whether by compliance. What is asked for ends with the first half of a
/// day, what is retained for a day with the second.
pub(super) type Until = (u64, bool);

impl File {
    /// Whether mounts may go on to write the version they began.
    pub(super) fn is_under_way(&self) -> bool {
        self.lock.held != Some(true) && self.begun == Some(self.lock.until)
    }

    /// Whether what protects it keeps mounts from writing it.
    pub(super) fn refuses_writes(&self, day: u64) -> bool {
        self.lock.protects(day) && !self.is_under_way()
    }
}

/// What protects a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lock {
    /// A legal hold: on, off again, or never on.
    pub(super) held: Option<bool>,
    pub(super) until: Option<Until>,
}

impl Lock {
    /// Whether it protects on a day, from those who may not bypass governance.
    pub(super) fn protects(self, day: u64) -> bool {
        self.held == Some(true) || self.until.is_some_and(|(until, _)| until > 2 * day)
    }
}

/// As a retention is asked for: to noon.
pub(super) fn to_noon(day: u64, compliance: bool) -> Until {
    (2 * day + 1, compliance)
}

#[derive(Clone, Default)]
pub(super) struct Upload {
    /// Unknown while its beginning is not answered.
    pub(super) id: Option<String>,
    /// The day it was begun.
    pub(super) begun: u64,
    pub(super) parts: BTreeMap<u32, Part>,
}

#[derive(Clone)]
pub(super) struct Part {
    pub(super) file: FileId,
    pub(super) etag: String,
}

/// The entity tag a stamp gives.
pub(super) fn etag(stamp: u64) -> String {
    format!("{stamp:032x}")
}

impl State {
    pub(super) fn bucket(&mut self, name: &str) -> &mut Bucket {
        self.buckets.get_mut(name).unwrap()
    }

    pub(super) fn file_of(&self, at: &At) -> FileId {
        self.buckets[&at.bucket].file_at(&at.path).unwrap()
    }

    fn held(&mut self, at: &At) -> &mut File {
        let file = self.file_of(at);
        self.bucket(&at.bucket).files.get_mut(&file).unwrap()
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

    /// The same where what is also in another state has one image, but for a file that was written since.
    pub(super) fn settled_like(mut self, other: &Self, written: Option<FileId>) -> Self {
        for (name, bucket) in &mut self.buckets {
            let known = other.buckets.get(name);
            for (file, held) in &mut bucket.files {
                if known.is_some_and(|known| known.files.contains_key(file)) && written != Some(*file) {
                    held.image = 0;
                }
            }
        }
        self.lose_process();
        self
    }

    /// Forgets what only the process knew.
    pub(super) fn lose_process(&mut self) {
        for bucket in self.buckets.values_mut() {
            bucket.open.clear();
            bucket.files.values_mut().for_each(|file| file.begun = None);
        }
    }

    /// What an operation makes of this.
    pub(super) fn apply(&mut self, contents: &mut Contents, operation: &Operation) {
        self.expired = None;
        match operation {
            Operation::CreateBucket { bucket, quota, versioning, locking } => {
                let (quota, versioning, locking) = (*quota, *versioning, *locking);
                self.buckets.insert(bucket.clone(), Bucket { quota, versioning, locking, ..Bucket::default() });
            }
            Operation::DeleteBucket { bucket } => {
                self.buckets.remove(bucket);
                self.grants.retain(|(of, _), _| of != bucket);
            }
            Operation::SetQuota { bucket, quota } => self.bucket(bucket).quota = *quota,
            Operation::SetVersioning { bucket, versioning } => self.bucket(bucket).versioning = *versioning,
            Operation::SetRetention { bucket, compliance } => self.bucket(bucket).retention = *compliance,
            Operation::SetRule { bucket, rule } => self.bucket(bucket).rule = *rule,
            Operation::Snapshot { bucket, name } => self.branch(contents, bucket, name, true),
            Operation::Clone { source, bucket } => self.branch(contents, source, bucket, false),
            Operation::DeleteSnapshot { name } => {
                self.buckets.remove(name);
            }
            Operation::CreateAccount { account } => {
                self.accounts.insert(account.clone(), 0);
            }
            Operation::DeleteAccount { account } => {
                self.accounts.remove(account);
                self.grants.retain(|(_, of), _| of != account);
            }
            Operation::RotateKey { account } => {
                let keys = self.accounts.get_mut(account).unwrap();
                *keys = 2.min(*keys + 1);
            }
            Operation::Grant { bucket, account, mode } => {
                self.grants.insert((bucket.clone(), account.clone()), *mode);
            }
            Operation::Revoke { bucket, account } => {
                self.grants.remove(&(bucket.clone(), account.clone()));
            }
            Operation::Expire => self.expire(contents),
            Operation::Close { bucket } => {
                let day = self.day;
                self.bucket(bucket).close_oldest(day);
            }
            Operation::Unmount { bucket } => self.bucket(bucket).close_all(),
            _ if operation.is_of_mount() => {
                operation.looked_up().iter().for_each(|at| self.bucket(&at.bucket).learn(&at.path));
                self.apply_mount(contents, operation);
            }
            _ => self.apply_objects(contents, operation),
        }
    }
}
