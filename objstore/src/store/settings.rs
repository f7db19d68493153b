//! What a bucket is told through S3, kept and cached.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prost::Message;

use super::Store;
use super::types::{ObjectLock, Settings};
use crate::core::{Core, Named};
use crate::error::{Error, Result};
use crate::meta::{Read, Txn};
use crate::name::BucketName;
use crate::record::bucket::{Bucket, VersioningState};
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::tree::Tx;

/// Bytes of settings kept decoded, at most, as they are written; decoded they take a few times that.
const CACHED_BYTES_MAX: usize = 16 << 20;
/// What keeping settings takes besides their bytes.
const CACHED_BYTES_EACH: usize = 512;

/// The settings of a bucket, as they were read.
#[derive(Clone, Debug)]
pub struct BucketSettings {
    /// The bucket's id.
    pub bucket: u64,
    /// Rises with each change: with the id it names these very settings.
    pub revision: u64,
    /// The owning account's id.
    pub owner: u64,
    /// The settings.
    pub settings: Arc<Settings>,
    /// Of a snapshot: the bucket it was taken of, with its settings as they are now; none once that is gone.
    pub taken_of: Option<Box<(BucketName, BucketSettings)>>,
}

/// Decoded settings by bucket id.
#[derive(Default)]
pub(crate) struct SettingsCache(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    by_bucket: HashMap<u64, Decoded>,
    bytes: usize,
}

struct Decoded {
    /// The revision they were decoded at.
    revision: u64,
    settings: Arc<Settings>,
    bytes: usize,
}

impl SettingsCache {
    fn get(&self, bucket: &Bucket) -> Option<Arc<Settings>> {
        let cached = self.0.lock();
        let found = cached.by_bucket.get(&bucket.id).filter(|found| found.revision == bucket.settings);
        found.map(|found| found.settings.clone())
    }

    /// Keeps settings that were decoded from so many bytes.
    fn put(&self, bucket: &Bucket, settings: Arc<Settings>, bytes: usize) {
        let bytes = bytes + CACHED_BYTES_EACH;
        let mut cached = self.0.lock();
        if cached.bytes + bytes > CACHED_BYTES_MAX {
            *cached = Cached::default();
        }
        let decoded = Decoded { revision: bucket.settings, settings, bytes };
        let before = cached.by_bucket.insert(bucket.id, decoded).map_or(0, |before| before.bytes);
        cached.bytes = cached.bytes + bytes - before;
    }
}

/// The settings of a bucket whose record was read from the same state.
pub(crate) fn of(read: &dyn Read, core: &Core, bucket: &Bucket) -> Result<Arc<Settings>> {
    if bucket.settings == 0 {
        return Ok(Arc::default());
    }
    if let Some(settings) = core.settings.get(bucket) {
        return Ok(settings);
    }
    let value = read.get(&key::by_id(tag::SETTINGS, bucket.id))?;
    // A policy may be in them: without it nobody knows what is forbidden.
    let value = value.ok_or_else(|| Error::corrupt(format!("settings of bucket {}", bucket.id), "a record", "none"))?;
    let settings: Arc<Settings> = Arc::new(decode("settings", &value)?);
    core.settings.put(bucket, settings.clone(), value.len());
    Ok(settings)
}

/// Writes the settings a bucket is made with, and counts them in its record, which the caller writes.
pub(super) fn put_first(txn: &mut dyn Txn, bucket: &mut Bucket, settings: &Settings) {
    if *settings != Settings::default() {
        bucket.settings = 1;
        txn.put(key::by_id(tag::SETTINGS, bucket.id), settings.encode_to_vec());
    }
}

/// Drops the settings of a bucket that is being deleted.
pub(super) fn delete_of_bucket(txn: &mut dyn Txn, bucket: u64) {
    txn.delete(key::by_id(tag::SETTINGS, bucket));
}

impl Store {
    /// The settings of a bucket; a snapshot has none but the object lock its bucket had.
    pub fn settings(&self, name: &BucketName) -> Result<BucketSettings> {
        let snapshot = self.core.meta.snapshot();
        match self.core.named(&*snapshot, name)? {
            Named::Bucket(bucket) => self.settings_of(&*snapshot, &bucket),
            Named::Snapshot(found) => {
                let settings = Arc::new(Settings { object_lock: found.object_lock, ..Settings::default() });
                let taken_of = self.named_settings(&*snapshot, found.bucket)?;
                Ok(BucketSettings { bucket: found.id, revision: 0, owner: found.owner, settings, taken_of })
            }
        }
    }

    /// The name and the settings of the bucket with an id, if it is there.
    fn named_settings(&self, read: &dyn Read, id: u64) -> Result<Option<Box<(BucketName, BucketSettings)>>> {
        let Some(name) = super::bucket::name_of(read, id)? else { return Ok(None) };
        let Some(bucket) = self.core.bucket_record(read, &name)? else { return Ok(None) };
        Ok(Some(Box::new((name, self.settings_of(read, &bucket)?))))
    }

    fn settings_of(&self, read: &dyn Read, bucket: &Bucket) -> Result<BucketSettings> {
        let settings = of(read, &self.core, bucket)?;
        let (revision, owner) = (bucket.settings, bucket.owner);
        Ok(BucketSettings { bucket: bucket.id, revision, owner, settings, taken_of: None })
    }

    /// Changes the settings of a bucket in one transaction. A change that leaves them as they are writes nothing.
    pub async fn change_settings(
        &self,
        name: &BucketName,
        change: impl FnOnce(&mut Settings) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.change_bucket(name, move |tx| change_in(tx, change)).await
    }

    /// Sets the object lock of a bucket, which it then has for good (S3 API, PutObjectLockConfiguration). The default
    /// retention holds for what is written from now on.
    ///
    /// # Errors
    /// [`Error::Invalid`] of the "bucket state" if versioning is not enabled.
    pub async fn set_object_lock(&self, name: &BucketName, lock: ObjectLock) -> Result<()> {
        self.change_bucket(name, move |tx| {
            if tx.bucket.versioning() != VersioningState::Enabled {
                let why = "object lock needs versioning: enable that first";
                return Err(Error::invalid("bucket state", tx.name.as_str(), why));
            }
            change_in(tx, |settings| {
                settings.object_lock = Some(lock);
                Ok(())
            })
        })
        .await
    }
}

/// Changes the settings of the bucket that is being changed.
fn change_in(tx: &mut Tx<'_>, change: impl FnOnce(&mut Settings) -> Result<()>) -> Result<()> {
    let before = of(&*tx.txn, tx.core, &tx.bucket)?;
    let mut after = (*before).clone();
    change(&mut after)?;
    if after == *before {
        return Ok(());
    }
    tx.bucket.settings += 1;
    tx.txn.put(key::by_id(tag::SETTINGS, tx.bucket.id), after.encode_to_vec());
    super::bucket::put(tx.txn, tx.core, tx.name, &tx.bucket);
    Ok(())
}
