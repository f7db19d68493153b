//! Reading, changing and caching a bucket's settings.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use prost::Message;

use super::Store;
use super::types::{Account, ObjectLock, Settings};
use crate::core::{Core, Named};
use crate::error::{Error, Result};
use crate::meta::{Read, Txn};
use crate::name::BucketName;
use crate::record::bucket::{Bucket, VersioningState};
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::tree::Tx;

/// The most bytes of cached settings, measured as stored; decoded they take a few times that.
const CACHED_BYTES_MAX: usize = 16 << 20;
/// Bytes counted for each entry besides its size.
const CACHED_BYTES_EACH: usize = 512;

/// The settings of a bucket with their identity.
#[derive(Clone, Debug)]
pub struct BucketSettings {
    /// The bucket's id.
    pub bucket: u64,
    /// Rises with each change: together with the id it identifies these settings.
    pub revision: u64,
    /// The owning account's id.
    pub owner: u64,
    /// The settings.
    pub settings: Arc<Settings>,
    /// For a snapshot: the bucket it was taken from, with its current settings; `None` once that is deleted.
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
    /// The revision at which they were decoded.
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

    /// Caches settings decoded from this many bytes.
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
    // The settings may contain a policy: without it, what it forbids is unknown.
    let value = value.ok_or_else(|| Error::corrupt(format!("settings of bucket {}", bucket.id), "a record", "none"))?;
    let settings: Arc<Settings> = Arc::new(decode("settings", &value)?);
    core.settings.put(bucket, settings.clone(), value.len());
    Ok(settings)
}

/// Writes the initial settings of a bucket, and counts them in its record, which the caller writes.
pub(super) fn put_first(txn: &mut dyn Txn, bucket: &mut Bucket, settings: &Settings) {
    if *settings != Settings::default() {
        bucket.settings = 1;
        txn.put(key::by_id(tag::SETTINGS, bucket.id), settings.encode_to_vec());
    }
}

/// Removes the settings of a bucket that is being deleted.
pub(super) fn delete_of_bucket(txn: &mut dyn Txn, bucket: u64) {
    txn.delete(key::by_id(tag::SETTINGS, bucket));
}

/// The settings of a bucket or snapshot: see [`Store::settings`].
pub(super) fn named(core: &Core, read: &dyn Read, name: &BucketName) -> Result<BucketSettings> {
    match core.named(read, name)? {
        Named::Bucket(bucket) => of_bucket(core, read, &bucket),
        Named::Snapshot(found) => {
            let settings = Arc::new(Settings { object_lock: found.object_lock, ..Settings::default() });
            let taken_of = of_id(core, read, found.bucket)?;
            Ok(BucketSettings { bucket: found.id, revision: 0, owner: found.owner, settings, taken_of })
        }
    }
}

/// The name and the settings of the bucket with an id, if it exists.
fn of_id(core: &Core, read: &dyn Read, id: u64) -> Result<Option<Box<(BucketName, BucketSettings)>>> {
    let Some(name) = super::bucket::name_of(read, id)? else { return Ok(None) };
    let Some(bucket) = core.bucket_record(read, &name)? else { return Ok(None) };
    Ok(Some(Box::new((name, of_bucket(core, read, &bucket)?))))
}

fn of_bucket(core: &Core, read: &dyn Read, bucket: &Bucket) -> Result<BucketSettings> {
    let settings = of(read, core, bucket)?;
    Ok(BucketSettings { bucket: bucket.id, revision: bucket.settings, owner: bucket.owner, settings, taken_of: None })
}

/// Whether a policy knows the account's name as another account's: the one that had the name when the policy was set,
/// and was deleted.
pub(super) fn is_namesake(read: &dyn Read, settings: &Settings, name: &str, id: u64) -> Result<bool> {
    if settings.policy.is_none() {
        return Ok(false);
    }
    match settings.policy_accounts.get(name) {
        Some(meant) if *meant != id => Ok(true),
        _ => Ok(id >= settings.policy_since && super::account::was_deleted(read, name)?),
    }
}

impl Store {
    /// The settings of a bucket; a snapshot has only the object lock of its bucket.
    pub fn settings(&self, name: &BucketName) -> Result<BucketSettings> {
        named(&self.core, &*self.core.meta.snapshot(), name)
    }

    /// Whether the policy in `settings` knows the name of `account` as another account's: a deleted account had it when
    /// the policy was set.
    pub fn is_namesake(&self, settings: &Settings, account: &Account) -> Result<bool> {
        is_namesake(&*self.core.meta.snapshot(), settings, &account.name, account.id)
    }

    /// Changes the settings of a bucket in one transaction. An unchanged result writes nothing.
    ///
    /// [`Store::put_policy`] sets policies.
    pub async fn change_settings(
        &self,
        name: &BucketName,
        change: impl FnOnce(&mut Settings) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let is_other = self.change_bucket(name, move |tx| change_in(tx, change)).await?;
        self.policy_changed(is_other).await;
        Ok(())
    }

    /// Sets a bucket's policy that names `accounts`, with their ids by name (S3 API, PutBucketPolicy). `check` may
    /// refuse it based on the other settings. Mounts that it restricts are restricted when this returns.
    pub async fn put_policy(
        &self,
        name: &BucketName,
        text: String,
        accounts: BTreeMap<String, u64>,
        check: impl FnOnce(&Settings) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let put = self.change_bucket(name, move |tx| {
            let since = super::header::next_id(tx.txn)?;
            change_in(tx, |settings| {
                check(settings)?;
                (settings.policy, settings.policy_accounts, settings.policy_since) = (Some(text), accounts, since);
                Ok(())
            })
        });
        put.await?;
        self.policy_changed(true).await;
        Ok(())
    }

    /// Makes mounts check their access again, if the policy changed.
    async fn policy_changed(&self, is_other: bool) {
        if is_other {
            self.grants_changed().await;
        }
    }

    /// Sets the object lock of a bucket, permanently (S3 API, PutObjectLockConfiguration). The default retention
    /// applies to new versions.
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
            .map(drop)
        })
        .await
    }
}

/// Changes the settings of the bucket in this change. Returns whether its policy changed.
fn change_in(tx: &mut Tx<'_>, change: impl FnOnce(&mut Settings) -> Result<()>) -> Result<bool> {
    let before = of(&*tx.txn, tx.core, &tx.bucket)?;
    let mut after = (*before).clone();
    change(&mut after)?;
    if after == *before {
        return Ok(false);
    }
    tx.bucket.settings += 1;
    tx.txn.put(key::by_id(tag::SETTINGS, tx.bucket.id), after.encode_to_vec());
    super::bucket::put(tx.txn, tx.core, tx.name, &tx.bucket);
    Ok(after.policy != before.policy || after.policy_accounts != before.policy_accounts)
}
