//! The bucket engine: what operations on trees and content need besides the records, for all buckets of an open store.
//!
//! - It holds the storage below and the tables of [`crate::state`]; it names nothing above them. `tree` and `content`
//!   are given it with each operation.
//! - All tables are in memory: a crash loses them, and opening the store begins with empty ones.

use std::ops::Deref;
use std::sync::Arc;

use crate::branch::{Ancestries, Ancestry};
use crate::buckets::KnownBuckets;
use crate::error::{Error, Noun, Result};
use crate::feed::Feeds;
use crate::inode_refs::InodeRefs;
use crate::meta::{Read, Snapshot, Txn};
use crate::name::BucketName;
use crate::passthrough::Passthrough;
use crate::record::bucket::{Bucket, Snapshot as SnapshotRecord};
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::settings::SettingsCache;
use crate::state::{
    DirtyFiles, FileLocks, Gates, HiddenLog, Leases, Mounted, PersistentSessions, Places, Readers, RecentSyncs,
    UndeliveredLog, Writers,
};
use crate::storage::Storage;

/// The state of the buckets of an open store.
pub(crate) struct Core {
    /// The ancestors of each branch.
    pub lines: Ancestries,
    /// Records of buckets, decoded.
    pub buckets: Arc<KnownBuckets>,
    /// Settings of buckets, decoded.
    pub settings: SettingsCache,
    /// Inode references of mounts.
    pub inode_refs: Arc<InodeRefs>,
    /// Cache invalidations for mounts.
    pub feeds: Feeds,
    /// How many sessions each bucket has.
    pub mounted: Mounted,
    /// Which volumes are leased to a session exclusively.
    pub leases: Leases,
    /// Persistent sessions.
    pub persistent: PersistentSessions,
    /// Undelivered cache invalidations of persistent sessions.
    pub undelivered: UndeliveredLog,
    /// Readers that need content which may be in the trash.
    pub readers: Arc<Readers>,
    /// Dirty files, and how far they have grown.
    pub dirty: DirtyFiles,
    /// Files open for writing through mounts.
    pub writers: Writers,
    /// File locks of mounts.
    pub locks: FileLocks,
    /// Files synced lately.
    pub recent_syncs: RecentSyncs,
    /// Files that programs have open for passthrough.
    pub passthrough: Arc<Passthrough>,
    /// The locks of writes in place.
    pub gates: Gates,
    /// Where directories lie.
    pub places: Places,
    /// What the log said of keys that mounts cannot show.
    pub hidden_log: HiddenLog,
    /// The storage below.
    pub storage: Arc<Storage>,
}

impl Deref for Core {
    type Target = Storage;

    fn deref(&self) -> &Storage {
        &self.storage
    }
}

/// What a bucket name stands for.
pub(crate) enum Named {
    /// A bucket.
    Bucket(Bucket),
    /// A snapshot, read as a bucket under its own name.
    Snapshot(SnapshotRecord),
}

impl Named {
    /// The bucket, if it is one.
    pub fn bucket(&self) -> Option<&Bucket> {
        match self {
            Self::Bucket(bucket) => Some(bucket),
            Self::Snapshot(_) => None,
        }
    }
}

impl Core {
    /// The state of a store that was just opened: nothing is in use yet.
    pub fn new(storage: Storage) -> Self {
        let (storage, readers) = (Arc::new(storage), Arc::<Readers>::default());
        Self {
            lines: Ancestries::default(),
            buckets: Arc::default(),
            settings: SettingsCache::default(),
            inode_refs: Arc::default(),
            feeds: Feeds::default(),
            mounted: Mounted::default(),
            leases: Leases::new(storage.life),
            persistent: PersistentSessions::default(),
            undelivered: UndeliveredLog::default(),
            readers: readers.clone(),
            dirty: DirtyFiles::default(),
            writers: Writers::default(),
            locks: FileLocks::default(),
            recent_syncs: RecentSyncs::since(storage.clock.now()),
            passthrough: Arc::new(Passthrough::new(storage.clone(), readers)),
            gates: Gates::default(),
            places: Places::default(),
            hidden_log: HiddenLog::default(),
            storage,
        }
    }

    /// Waits for the writes in place that were under way when a file of the bucket was settled for good: see
    /// [`Writers::wait_for_writes`].
    pub fn wait_for_writes(&self, bucket: u64) {
        self.writers.wait_for_writes(&self.gates, bucket);
    }

    /// A snapshot of the store, and the record of the bucket `name` in it.
    pub fn bucket_now(&self, name: &BucketName) -> Result<(Box<dyn Snapshot>, Option<Bucket>)> {
        let before = self.buckets.moment();
        let snapshot = self.meta.snapshot();
        // Every change committed before the snapshot is counted in this number.
        let moment = before.filter(|_| self.buckets.moment() == before);
        if let Some(known) = moment.and_then(|moment| self.buckets.find(moment, name)) {
            return Ok((snapshot, Some(known)));
        }
        let record = self.bucket_record(&*snapshot, name)?;
        if let Some((moment, record)) = moment.zip(record.as_ref()) {
            self.buckets.keep(moment, name, record);
        }
        Ok((snapshot, record))
    }

    /// The current record of the bucket `name`, without a snapshot if it is cached.
    pub fn bucket_known(&self, name: &BucketName) -> Result<Option<Bucket>> {
        match self.buckets.moment().and_then(|moment| self.buckets.find(moment, name)) {
            Some(known) => Ok(Some(known)),
            None => self.bucket_now(name).map(|(_, record)| record),
        }
    }

    /// The record of the bucket `name` in a transaction, during which nothing else commits.
    pub fn bucket_in(&self, txn: &dyn Txn, name: &BucketName) -> Result<Option<Bucket>> {
        match self.buckets.moment().and_then(|moment| self.buckets.find(moment, name)) {
            Some(known) => Ok(Some(known)),
            None => self.bucket_record(txn, name),
        }
    }

    /// The bucket called `name`. Who asks for it at each call asks [`Core::bucket_now`] or [`Core::bucket_in`].
    #[expect(clippy::unused_self, reason = "beside those that answer from what is known")]
    pub fn bucket_record(&self, read: &dyn Read, name: &BucketName) -> Result<Option<Bucket>> {
        let value = read.get(&key::by_name(tag::BUCKET, name.as_str()))?;
        value.map(|value| decode("a bucket", &value)).transpose()
    }

    /// What can be read under `name`.
    pub fn named(&self, read: &dyn Read, name: &BucketName) -> Result<Named> {
        if let Some(bucket) = self.bucket_record(read, name)? {
            return Ok(Named::Bucket(bucket));
        }
        match read.get(&key::by_name(tag::SNAPSHOT, name.as_str()))? {
            Some(value) => Ok(Named::Snapshot(decode("a snapshot", &value)?)),
            None => Err(Error::not_found(Noun::Bucket, name.as_str())),
        }
    }

    /// The line to read under `name`.
    pub fn readable(&self, read: &dyn Read, name: &BucketName) -> Result<Ancestry> {
        self.ancestry_of(read, &self.named(read, name)?)
    }

    /// The line of what was found under a name.
    pub fn ancestry_of(&self, read: &dyn Read, named: &Named) -> Result<Ancestry> {
        match named {
            Named::Bucket(bucket) => self.lines.ancestry(read, bucket.clone_group, bucket.branch),
            Named::Snapshot(snapshot) => self.lines.ancestry(read, snapshot.clone_group, snapshot.branch),
        }
    }
}
