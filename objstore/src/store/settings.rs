//! Reading and changing a bucket's settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Message;

use super::Store;
use super::types::{Account, ObjectLock, Settings};
use crate::core::{Core, Named};
use crate::error::{Error, Result};
use crate::meta::{Read, Txn};
use crate::name::BucketName;
use crate::record::bucket::{Bucket, VersioningState};
use crate::record::key::{self, tag};
use crate::tree::Tx;

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
    let Some(name) = crate::buckets::name_of(read, id)? else { return Ok(None) };
    let Some(bucket) = core.bucket_record(read, &name)? else { return Ok(None) };
    Ok(Some(Box::new((name, of_bucket(core, read, &bucket)?))))
}

fn of_bucket(core: &Core, read: &dyn Read, bucket: &Bucket) -> Result<BucketSettings> {
    let settings = core.settings.of(read, bucket)?;
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
pub(super) fn change_in(tx: &mut Tx<'_>, change: impl FnOnce(&mut Settings) -> Result<()>) -> Result<bool> {
    let before = tx.core.settings.of(&*tx.txn, &tx.bucket)?;
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
