//! What a bucket is told through S3, kept and cached.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prost::Message;

use super::Store;
use super::types::Settings;
use crate::core::{Core, Named};
use crate::error::Result;
use crate::meta::{Read, Txn};
use crate::name::BucketName;
use crate::record::bucket::Bucket;
use crate::record::decode;
use crate::record::key::{self, tag};

/// Settings of buckets kept decoded, at most.
const CACHED_MAX: usize = 1024;

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
}

/// Decoded settings by bucket id, each with the revision it was decoded at.
#[derive(Default)]
pub(crate) struct SettingsCache(Mutex<HashMap<u64, (u64, Arc<Settings>)>>);

impl SettingsCache {
    fn get(&self, bucket: &Bucket) -> Option<Arc<Settings>> {
        let cached = self.0.lock();
        cached
            .get(&bucket.id)
            .filter(|(revision, _)| *revision == bucket.settings)
            .map(|(_, settings)| settings.clone())
    }

    fn put(&self, bucket: &Bucket, settings: Arc<Settings>) {
        let mut cached = self.0.lock();
        if cached.len() >= CACHED_MAX {
            cached.clear();
        }
        cached.insert(bucket.id, (bucket.settings, settings));
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
    let settings = Arc::new(value.map_or(Ok(Settings::default()), |value| decode("settings", &value))?);
    core.settings.put(bucket, settings.clone());
    Ok(settings)
}

/// Drops the settings of a bucket that is being deleted.
pub(super) fn delete_of_bucket(txn: &mut dyn Txn, bucket: u64) {
    txn.delete(key::by_id(tag::SETTINGS, bucket));
}

impl Store {
    /// The settings of a bucket; a snapshot has none.
    pub fn settings(&self, name: &BucketName) -> Result<BucketSettings> {
        let snapshot = self.core.meta.snapshot();
        let bucket = match self.core.named(&*snapshot, name)? {
            Named::Bucket(bucket) => bucket,
            Named::Snapshot(found) => Bucket { id: found.id, owner: found.owner, ..Bucket::default() },
        };
        let settings = of(&*snapshot, &self.core, &bucket)?;
        Ok(BucketSettings { bucket: bucket.id, revision: bucket.settings, owner: bucket.owner, settings })
    }

    /// Changes the settings of a bucket in one transaction. A change that leaves them as they are writes nothing.
    pub async fn change_settings(
        &self,
        name: &BucketName,
        change: impl FnOnce(&mut Settings) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.change_bucket(name, move |tx| {
            let before = of(&*tx.txn, tx.core, &tx.bucket)?;
            let mut after = (*before).clone();
            change(&mut after)?;
            if after == *before {
                return Ok(());
            }
            tx.bucket.settings += 1;
            tx.txn.put(key::by_id(tag::SETTINGS, tx.bucket.id), after.encode_to_vec());
            super::bucket::put(tx.txn, tx.name, &tx.bucket);
            Ok(())
        })
        .await
    }
}
