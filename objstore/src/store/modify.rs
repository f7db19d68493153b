//! Changing several attributes of a bucket at once (CSI v1.12, ControllerModifyVolume).
//!
//! - One transaction makes all changes, or none: a refused value and a crash leave the bucket as it was.
//! - What is not asked for stays. The same request again changes nothing.
//! - Mounts show the new owner and mode of the root when the call returns.

use std::sync::Arc;

use objstore_files::ROOT_INO;

use super::types::{LifecycleFilter, LifecycleRule, Modification, RootChange, Settings};
use super::{Store, bucket, settings};
use crate::core::Core;
use crate::error::{Error, Noun, Posix, Result};
use crate::feed::Change;
use crate::meta::{Durability, Txn};
use crate::name::BucketName;
use crate::record::Touching;
use crate::tree::Tx;

/// The id of the lifecycle rule that a modification keeps; other rules are not touched.
const RULE: &str = "volume-attributes";
/// The most lifecycle rules of a bucket (S3 API, PutBucketLifecycleConfiguration).
const RULES_MAX: usize = 1_000;

impl Store {
    /// Changes the bucket `name`, if its id is `id`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a versioning state that the bucket cannot have; [`Error::NotFound`] if another bucket has
    /// the name.
    pub async fn modify_bucket(&self, name: &BucketName, id: u64, modification: Modification) -> Result<()> {
        let _changing = self.begin_change(name).await?;
        let bucket = name.clone();
        self.blocking(move |store| {
            // Content that mounts wrote in place before becomes a version: see `Store::set_bucket`.
            let gate = modification.versioning.map(|_| store.settle_writes(&bucket)).transpose()?;
            let core = store.core.clone();
            let change = move |txn: &mut dyn Txn| modify(txn, &core, &bucket, id, &modification);
            let written = store.core.meta.write(Durability::Synced, change).wait();
            drop(gate);
            written
        })
        .await?;
        self.wait_for_mounts(id).await;
        Ok(())
    }
}

fn modify(txn: &mut dyn Txn, core: &Arc<Core>, name: &BucketName, id: u64, modification: &Modification) -> Result<()> {
    let mut tx = Tx::begin(txn, core, name, 0)?;
    if tx.bucket.id != id {
        return Err(Error::not_found(Noun::Bucket, name.as_str()));
    }
    if let Some(versioning) = modification.versioning {
        bucket::set_versioning(&mut tx, versioning)?;
    }
    change_root(&mut tx, &modification.root)?;
    if modification.noncurrent_days.or(modification.abort_upload_days).is_some() {
        settings::change_in(&mut tx, |settings| apply_lifecycle(settings, modification))?;
    }
    tx.finish()
}

/// Changes owner, group and mode of the root directory.
pub(super) fn change_root(tx: &mut Tx<'_>, change: &RootChange) -> Result<()> {
    let (_, root) = tx.tree().dirty_inode(ROOT_INO)?;
    let (uid, gid) = (change.uid.unwrap_or(root.uid), change.gid.unwrap_or(root.gid));
    let mode = change.mode.unwrap_or(root.mode & 0o7777);
    if (uid, gid, mode) == (root.uid, root.gid, root.mode & 0o7777) {
        return Ok(());
    }
    let mut root = tx.own(ROOT_INO)?;
    root.refuse_fixed(Touching::Changes).map_err(|error| match error {
        Error::Posix(Posix::NotPermitted) => {
            let why = "its root directory is immutable or append-only (lsattr); clear that first";
            Error::invalid("bucket", tx.name.as_str(), why)
        }
        error => error,
    })?;
    (root.uid, root.gid) = (uid, gid);
    root.set_mode(mode)?;
    root.ctime = tx.now.0;
    tx.save(ROOT_INO, &root);
    tx.tell(Change::Attributes { ino: ROOT_INO });
    Ok(())
}

/// Sets the days of one rule for the whole bucket; a rule without any is removed.
pub(super) fn apply_lifecycle(settings: &mut Settings, modification: &Modification) -> Result<()> {
    let at = settings.lifecycle.iter().position(|rule| rule.id == RULE);
    let mut rule = at.map_or_else(
        || LifecycleRule { id: RULE.into(), filter: Some(LifecycleFilter::default()), ..LifecycleRule::default() },
        |at| settings.lifecycle.remove(at),
    );
    rule.enabled = true;
    rule.noncurrent_days = modification.noncurrent_days.unwrap_or(rule.noncurrent_days);
    rule.abort_upload_days = modification.abort_upload_days.unwrap_or(rule.abort_upload_days);
    if rule.noncurrent_days.or(rule.abort_upload_days).is_none() {
        return Ok(());
    }
    if settings.lifecycle.len() >= RULES_MAX {
        return Err(Error::TooMany { what: "lifecycle rules on the bucket", limit: RULES_MAX as u64 });
    }
    settings.lifecycle.insert(at.unwrap_or(settings.lifecycle.len()), rule);
    Ok(())
}
