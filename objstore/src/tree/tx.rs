//! A change of one bucket: the transaction in which every operation on a tree runs.
//!
//! - Usage and quota are checked in [`Tx::finish`], inside the transaction. Cache invalidations are sent in commit
//!   order, before the operation is answered.

use std::sync::Arc;

use prost::Message;

use crate::branch::Ancestry;
use crate::clock::Timestamp;
use crate::core::{Core, Named};
use crate::disk::Need;
use crate::error::{Error, Noun, Posix, Result};
use crate::feed::Change;
use crate::meta::{Read, Txn};
use crate::name::BucketName;
use crate::record::bucket::{Bucket, CloneGroup, Snapshot, Usage};
use crate::record::decode;
use crate::record::inode::Inode;
use crate::record::key::{self, Branch, tag};
use crate::state::Place;
use crate::undelivered;

use super::read::{Tree, counts_bytes};

/// A change of one bucket in progress.
pub(crate) struct Tx<'a> {
    /// The transaction.
    pub txn: &'a mut dyn Txn,
    /// The shared state of the store.
    pub core: &'a Arc<Core>,
    /// The bucket's name.
    pub name: &'a BucketName,
    /// The bucket.
    pub bucket: Bucket,
    /// Its live branch.
    pub ancestry: Ancestry,
    /// The time of the change.
    pub now: Timestamp,
    /// The mount that makes the change, zero for S3: it needs no invalidation of its own changes.
    pub origin: u64,
    pub(super) delta: Delta,
    changes: Vec<Change>,
    /// Whether the origin gets invalidations too.
    origin_hears: bool,
    /// An error that forbids the commit, from a step that could not return it.
    pub(super) broken: Option<Error>,
    /// Positions of directories that this change looked up.
    pub(super) places: Vec<(u64, Place)>,
    /// The number of the inode that this change makes, if it is given.
    given_ino: Option<u64>,
    /// The first key that this change hides from mounts, by its directory and name.
    pub(super) first_hidden: Option<(u64, String)>,
    /// Whether this change moved a directory.
    pub(super) moved_directory: bool,
}

/// What a mount has answered for a change before the store makes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    /// The number of the inode that it makes, if it makes one.
    pub ino: Option<u64>,
    /// The time of the change.
    pub at: Timestamp,
}

/// The differences that a change makes to the usage.
#[derive(Clone, Copy, Default)]
pub(crate) struct Delta {
    /// Bytes of content.
    pub bytes: i64,
    /// Inodes.
    pub inodes: i64,
    /// Bytes of parts of uploads.
    pub upload_bytes: i64,
    /// Bytes of inodes that this change deletes and that are still referenced: counted until they are collected, but
    /// not held against the change.
    pub ending_bytes: i64,
    /// Growth of dirty files that is moved into the records: it was granted before.
    pub settled_bytes: i64,
    /// Growth of dirty files that is dropped without being recorded.
    pub released_bytes: i64,
    /// Growth of dirty files that this change deletes, in addition to `ending_bytes`.
    pub ending_growth: i64,
    /// Current objects.
    pub objects: i64,
    /// The hidden keys among the current objects.
    pub hidden: i64,
}

impl<'a> Tx<'a> {
    /// Begins a change of the bucket `name`.
    pub fn begin(txn: &'a mut dyn Txn, core: &'a Arc<Core>, name: &'a BucketName, origin: u64) -> Result<Self> {
        let bucket = core.bucket_in(&*txn, name)?.ok_or_else(|| missing(&*txn, name))?;
        Self::begin_in(txn, core, name, bucket, origin)
    }

    /// Begins a change of a bucket whose record was read, on its live branch.
    fn begin_in(
        txn: &'a mut dyn Txn,
        core: &'a Arc<Core>,
        name: &'a BucketName,
        bucket: Bucket,
        origin: u64,
    ) -> Result<Self> {
        let ancestry = core.lines.ancestry(&*txn, bucket.clone_group, bucket.branch)?;
        Ok(Self { origin, ..Self::begin_on(txn, core, name, bucket, ancestry) })
    }

    /// Begins a change of a bucket on a given branch.
    pub fn begin_on(
        txn: &'a mut dyn Txn,
        core: &'a Arc<Core>,
        name: &'a BucketName,
        bucket: Bucket,
        ancestry: Ancestry,
    ) -> Self {
        let now = core.clock.now();
        Self {
            txn,
            core,
            name,
            bucket,
            ancestry,
            now,
            origin: 0,
            delta: Delta::default(),
            changes: Vec::new(),
            origin_hears: false,
            broken: None,
            places: Vec::new(),
            given_ino: None,
            first_hidden: None,
            moved_directory: false,
        }
    }

    /// Begins with the source of a copy: a bucket, or a snapshot, which is not written, since it owns nothing that
    /// could be given up.
    pub fn begin_source(txn: &'a mut dyn Txn, core: &'a Arc<Core>, name: &'a BucketName) -> Result<Self> {
        let bucket = match core.named(&*txn, name)? {
            Named::Bucket(bucket) => bucket,
            Named::Snapshot(snapshot) => {
                let Snapshot { clone_group, branch, versioning, .. } = snapshot;
                Bucket { clone_group, branch, versioning, ..Bucket::default() }
            }
        };
        Self::begin_in(txn, core, name, bucket, 0)
    }

    /// Begins a change for a mount, which holds a bucket by id: if another bucket has its name, it fails with ESTALE.
    pub fn begin_mounted(
        txn: &'a mut dyn Txn,
        core: &'a Arc<Core>,
        name: &'a BucketName,
        id: u64,
        origin: u64,
    ) -> Result<Self> {
        match core.bucket_in(&*txn, name)? {
            Some(bucket) if bucket.id == id => Self::begin_in(txn, core, name, bucket, origin),
            _ => Err(Posix::Stale.into()),
        }
    }

    /// The tree as seen by this change.
    pub fn tree(&self) -> Tree<'_> {
        Tree { read: &*self.txn, ancestry: &self.ancestry }
    }

    /// The branch that writes.
    pub fn branch(&self) -> Branch {
        self.ancestry.branch()
    }

    /// Makes the change with what a mount has answered already: the time, which is never later than now, and the number of
    /// the inode that it makes.
    pub fn give(&mut self, given: Given) {
        self.now = self.now.min(given.at);
        self.given_ino = given.ino;
    }

    /// Sets inode numbers aside; the first of them.
    pub fn set_inos_aside(&mut self, count: u64) -> Result<u64> {
        self.with_clone_group(|clone_group| {
            clone_group.next_ino += count;
            clone_group.next_ino - count
        })
    }

    /// A number for a new inode.
    pub fn new_ino(&mut self) -> Result<u64> {
        if let Some(ino) = self.given_ino.take() {
            return match self.tree().inode(ino)? {
                None => Ok(ino),
                Some(_) => Err(Error::invalid("inode", ino.to_string(), "another inode has this number")),
            };
        }
        self.with_clone_group(|clone_group| {
            clone_group.next_ino += 1;
            clone_group.next_ino - 1
        })
    }

    /// The order number of a new version: lower than all before it.
    pub fn new_version(&mut self) -> Result<u64> {
        self.with_clone_group(|clone_group| {
            clone_group.next_version -= 1;
            clone_group.next_version
        })
    }

    fn with_clone_group(&mut self, change: impl FnOnce(&mut CloneGroup) -> u64) -> Result<u64> {
        let clone_group_key = key::by_id(tag::CLONE_GROUP, self.ancestry.clone_group);
        let value = self.txn.get(&clone_group_key)?;
        let value = value
            .ok_or_else(|| Error::corrupt(format!("clone group {}", self.ancestry.clone_group), "a record", "none"))?;
        let mut clone_group: CloneGroup = decode("a clone group", &value)?;
        let number = change(&mut clone_group);
        self.txn.put(clone_group_key, clone_group.encode_to_vec());
        Ok(number)
    }

    /// The inode as this branch's own version, to be changed and then saved with [`Tx::save`]. A version inherited from
    /// an ancestor refers to the same content, without an in-place blob.
    pub fn own(&mut self, ino: u64) -> Result<Inode> {
        let (branch, mut inode) = self.tree().dirty_inode(ino)?;
        if branch != self.branch() {
            self.txn.put(key::overridden(&key::inode(self.ancestry.clone_group, ino)), vec![1]);
            self.adopt_content(&mut inode)?;
        }
        Ok(inode)
    }

    /// Writes this branch's version of an inode.
    pub fn save(&mut self, ino: u64, inode: &Inode) {
        if inode.shown && !self.keeps_shown(ino, inode) {
            return self.write_inode(ino, &Inode { shown: false, ..inode.clone() });
        }
        self.write_inode(ino, inode);
    }

    fn write_inode(&mut self, ino: u64, inode: &Inode) {
        if let Some(dirty) = self.core.dirty.entry(self.bucket.id, ino) {
            dirty.follow_privileges(self.txn, inode);
        }
        let base = key::inode(self.ancestry.clone_group, ino);
        self.ancestry.put(self.txn, &base, inode.encode_to_vec());
    }

    /// Adds a new inode.
    pub fn add_inode(&mut self, ino: u64, inode: &Inode) {
        self.delta.inodes += 1;
        self.count_bytes(inode, inode.charged());
        // No name with a copy of attributes leads to it yet.
        self.write_inode(ino, inode);
    }

    /// Changes the size of an inode, and counts the difference.
    pub fn resize(&mut self, inode: &mut Inode, size: u64) {
        self.uncount_bytes(inode, inode.charged());
        inode.size = size;
        self.count_bytes(inode, inode.charged());
    }

    /// Changes the size of an inode by the growth of a dirty file, which was granted when it happened.
    pub fn resize_settled(&mut self, inode: &mut Inode, size: u64) {
        self.delta.settled_bytes += signed(size.max(inode.reserved)) - signed(inode.charged());
        self.resize(inode, size);
    }

    /// Records that space is reserved for a file up to `end`, and counts the bytes past its end. The growth was granted
    /// before, as for a dirty file.
    pub fn reserve_settled(&mut self, inode: &mut Inode, end: u64) {
        let before = inode.charged();
        self.uncount_bytes(inode, before);
        inode.reserved = inode.reserved.max(end);
        self.count_bytes(inode, inode.charged());
        self.delta.settled_bytes += signed(inode.charged()) - signed(before);
    }

    /// Releases the space reserved past the end of a file.
    pub fn unreserve(&mut self, inode: &mut Inode) {
        self.uncount_bytes(inode, inode.charged());
        inode.reserved = 0;
        self.count_bytes(inode, inode.charged());
    }

    /// Drops growth of a dirty file that no record will count.
    pub(super) fn release_growth(&mut self, bytes: u64) {
        self.delta.released_bytes += signed(bytes);
    }

    /// Deletes an inode without names and references.
    pub fn destroy(&mut self, ino: u64) -> Result<()> {
        let Some((branch, inode)) = self.tree().inode(ino)? else { return Ok(()) };
        self.drop_dirty(ino, &inode)?;
        self.drop_content(ino, &inode, branch == self.branch())?;
        self.drop_parts(ino, &inode)?;
        self.delta.inodes -= 1;
        self.uncount_bytes(&inode, inode.charged());
        let base = key::inode(self.ancestry.clone_group, ino);
        self.ancestry.remove(self.txn, &base)
    }

    /// Counts writes through a mapping as a change of content.
    pub fn wrote_past(&mut self, ino: u64, written: Timestamp) -> Result<()> {
        let mut inode = self.own(ino)?;
        inode.changed_by_mount(Timestamp(written.0.max(inode.mtime)));
        self.save(ino, &inode);
        self.tell(Change::Content { ino });
        Ok(())
    }

    fn count_bytes(&mut self, inode: &Inode, size: u64) {
        if counts_bytes(inode.kind()) {
            self.delta.bytes += signed(size);
        }
    }

    fn uncount_bytes(&mut self, inode: &Inode, size: u64) {
        if counts_bytes(inode.kind()) {
            self.delta.bytes -= signed(size);
        }
    }

    /// Counts an inode that this change deletes but that stays while it is referenced. Its replacement may use its
    /// share of the quota at once: whether a mount holds the old inode must not decide about a PUT.
    pub fn count_ending(&mut self, ino: u64, inode: &Inode) {
        if counts_bytes(inode.kind()) {
            self.delta.ending_bytes += signed(inode.charged());
            self.delta.ending_growth += signed(self.dirty_growth(ino, inode));
        }
    }

    /// Counts bytes of parts of uploads.
    pub fn count_upload(&mut self, bytes: i64) {
        self.delta.upload_bytes += bytes;
    }

    /// Adds a cache invalidation for the mounts.
    pub fn tell(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Makes the origin receive invalidations too: for a change that its kernel does not know of although it asked for
    /// it.
    pub fn tell_origin(&mut self) {
        self.origin_hears = true;
    }

    /// Makes a part of this change that may be refused separately: then it has no effect, and the rest continues.
    pub fn attempt<T>(&mut self, part: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let (mark, delta, changes) = (self.txn.mark(), self.delta, self.changes.len());
        let (places, first_hidden) = (self.places.len(), self.first_hidden.clone());
        part(self).inspect_err(|_| {
            self.txn.roll_back(mark);
            self.delta = delta;
            self.changes.truncate(changes);
            self.places.truncate(places);
            self.first_hidden = first_hidden;
        })
    }

    /// Checks usage against the quota, and passes on the cache invalidations.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`] if the change adds bytes and there is no room for them.
    pub fn finish(mut self) -> Result<()> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        self.core.disk.room(&self.core.dir, self.delta.need())?;
        self.keep_places();
        if !self.delta.is_none() {
            let used = self.settle_usage()?;
            self.txn.put(
                key::of_branch(tag::USAGE, self.ancestry.clone_group, self.ancestry.branch()),
                used.encode_to_vec(),
            );
            let (core, bucket, leaving) = (self.core.clone(), self.bucket.id, self.leaving());
            if leaving > 0 {
                self.txn.after_commit(Box::new(move || core.dirty.ledgers.appear(bucket, leaving)));
            }
        }
        if !self.changes.is_empty() && self.core.feeds.wanted(self.bucket.id) {
            let origin = if self.origin_hears { 0 } else { self.origin };
            let (core, bucket, changes) = (self.core.clone(), self.bucket.id, self.changes);
            let recorded = undelivered::record(self.txn, &core, bucket, origin, &changes);
            self.txn.after_commit(Box::new(move || undelivered::publish(&core, bucket, origin, &changes, recorded)));
        }
        Ok(())
    }

    fn settle_usage(&mut self) -> Result<Usage> {
        let usage_key = key::of_branch(tag::USAGE, self.ancestry.clone_group, self.branch());
        let used = Usage::recorded(self.txn.get(&usage_key)?)?;
        let next = self.delta.applied_to(used);
        let growth = self.delta.growth();
        // Flushed growth was granted before; from here on the records count it.
        self.count_out();
        if !self.fits(&next, self.bucket.limit_bytes()) && growth > 0 {
            self.count_in();
            return Err(exceeded(self.name, &self.bucket, &used, growth));
        }
        if used.hidden == 0 && next.hidden > 0 {
            self.announce_hidden();
        }
        Ok(next)
    }

    /// Whether the new usage fits into the quota, together with granted growth.
    fn fits(&self, next: &Usage, limit: u64) -> bool {
        let held = next.bytes.saturating_add(next.upload_bytes).saturating_add_signed(-self.delta.ending_bytes);
        let growth = self.delta.ending_growth.max(0).unsigned_abs();
        self.core.dirty.ledgers.fits(self.bucket.id, limit, held, growth)
    }

    /// Growth that this change removes from the ledger.
    fn leaving(&self) -> u64 {
        (self.delta.settled_bytes + self.delta.released_bytes).max(0).unsigned_abs()
    }

    fn count_out(&self) {
        self.core.dirty.ledgers.leave(self.bucket.id, self.leaving());
    }

    fn count_in(&self) {
        self.core.dirty.ledgers.enter(self.bucket.id, self.leaving());
    }
}

impl Delta {
    fn is_none(self) -> bool {
        let Self { bytes, inodes, upload_bytes, released_bytes, objects, hidden, .. } = self;
        [bytes, inodes, upload_bytes, released_bytes, objects, hidden] == [0; 6]
    }

    /// The increase over before, in records and in unflushed growth. Zero if what the change deletes was as large.
    fn growth(self) -> u64 {
        let Self { bytes, upload_bytes, ending_bytes, settled_bytes, released_bytes, ending_growth, .. } = self;
        let ended = ending_bytes + ending_growth + released_bytes;
        (bytes + upload_bytes - settled_bytes - ended).max(0).unsigned_abs()
    }

    /// The change's demand for disk space. Flushed growth is on the disk already.
    fn need(self) -> Need {
        let growth = self.bytes + self.upload_bytes - self.settled_bytes;
        if growth > 0 || self.inodes > 0 {
            Need::Adding
        } else if growth < 0 || self.inodes < 0 || self.settled_bytes > 0 {
            Need::Freeing
        } else {
            Need::Changing
        }
    }

    fn applied_to(self, used: Usage) -> Usage {
        Usage {
            bytes: used.bytes.saturating_add_signed(self.bytes),
            inodes: used.inodes.saturating_add_signed(self.inodes),
            upload_bytes: used.upload_bytes.saturating_add_signed(self.upload_bytes),
            objects: used.objects.saturating_add(self.objects),
            hidden: used.hidden.saturating_add(self.hidden),
            counted: used.counted,
        }
    }
}

/// The error for a bucket whose usage is at its quota.
pub(crate) fn exceeded(name: &BucketName, bucket: &Bucket, used: &Usage, asked_bytes: u64) -> Error {
    match bucket.quota_bytes {
        Some(limit_bytes) => {
            let used_bytes = used.bytes + used.upload_bytes;
            Error::QuotaExceeded { bucket: name.to_string(), limit_bytes, used_bytes, asked_bytes }
        }
        None => Posix::TooLarge.into(),
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The error for a missing bucket `name`.
fn missing(read: &dyn Read, name: &BucketName) -> Error {
    match read.get(&key::by_name(tag::SNAPSHOT, name.as_str())) {
        Ok(Some(_)) => Error::Denied { why: format!("\"{name}\" is a snapshot: it can be read, not changed") },
        Ok(None) => Error::not_found(Noun::Bucket, name.as_str()),
        Err(error) => error,
    }
}
