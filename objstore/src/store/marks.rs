//! Changes to an existing version: tags, retention, legal hold, access control list.
//!
//! - None of them changes the version's content, entity tag or Last-Modified, and each is one transaction.
//! - A lock only gets stronger, with two exceptions: callers who may bypass governance, and a legal hold, which anyone
//!   who may set it may remove (S3 User Guide, "Object Lock considerations").
//! - Keys that end in `/` are directories, which have no versions: they accept tags but no lock, and the bucket's
//!   default retention does not apply to them.

use std::collections::BTreeMap;

use super::Store;
use super::object::{keeps_versions, lock_of, version_of};
use super::types::{Lock, ObjectAccess, Retention, RetentionMode};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::feed::Change;
use crate::name::{BucketName, Key};
use crate::record::inode::{self, Object};
use crate::tree::{Touching, Tx, version_id};

impl Store {
    /// Replaces the tags of an object, or of one of its versions (S3 API, PutObjectTagging, DeleteObjectTagging);
    /// returns the version's id in a bucket with versioning.
    pub async fn set_tags(
        &self,
        bucket: &BucketName,
        key: &Key,
        version: Option<&str>,
        tags: BTreeMap<String, String>,
    ) -> Result<Option<String>> {
        self.mark(bucket, key, version, move |_, object| {
            object.tags = tags;
            Ok(())
        })
        .await
    }

    /// Sets or removes the retention of a version (S3 API, PutObjectRetention); returns its id. `bypass_governance`
    /// says that the caller may, and wants to, weaken one in governance mode.
    ///
    /// # Errors
    /// [`Error::Denied`] if the current retention may not be changed in this way; [`Error::Invalid`] if the bucket has
    /// no object lock, or the date is in the past.
    pub async fn set_retention(
        &self,
        bucket: &BucketName,
        key: &Key,
        version: Option<&str>,
        retention: Option<Retention>,
        bypass_governance: bool,
    ) -> Result<Option<String>> {
        let at = key.clone();
        self.mark(bucket, key, version, move |tx, object| {
            check_lock(tx, &at, &Lock { retention, legal_hold: Some(false) })?;
            check_change(lock_of(object).retention, retention, tx.now, bypass_governance)?;
            object.retention = retention.map(recorded);
            Ok(())
        })
        .await
    }

    /// Sets or removes a legal hold on a version (S3 API, PutObjectLegalHold); returns its id.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the bucket has no object lock.
    pub async fn set_legal_hold(
        &self,
        bucket: &BucketName,
        key: &Key,
        version: Option<&str>,
        on: bool,
    ) -> Result<Option<String>> {
        let at = key.clone();
        self.mark(bucket, key, version, move |tx, object| {
            check_lock(tx, &at, &Lock { retention: None, legal_hold: Some(on) })?;
            (object.legal_hold, object.hold_off) = (on, !on);
            Ok(())
        })
        .await
    }

    /// Changes the access control list of an object, or of one of its versions (S3 API, PutObjectAcl); gives the
    /// version's id. `change` runs in the transaction, and may refuse because of the object's owner and list then.
    pub async fn change_acl(
        &self,
        bucket: &BucketName,
        key: &Key,
        version: Option<&str>,
        change: impl FnOnce(&mut ObjectAccess) -> Result<()> + Send + 'static,
    ) -> Result<Option<String>> {
        self.mark(bucket, key, version, move |_, object| {
            let mut access = ObjectAccess { owner: object.owner, acl: object.acl.take() };
            change(&mut access)?;
            object.acl = access.acl;
            Ok(())
        })
        .await
    }

    /// Changes attributes of a version.
    async fn mark(
        &self,
        bucket: &BucketName,
        key: &Key,
        version: Option<&str>,
        change: impl FnOnce(&Tx<'_>, &mut Object) -> Result<()> + Send + 'static,
    ) -> Result<Option<String>> {
        let (key, version) = (key.clone(), version.map(str::to_owned));
        self.change_bucket(bucket, move |tx| {
            let (ino, mut inode) = version_of(tx.tree(), &key, version.as_deref())?;
            let before = inode.object.take().unwrap_or_default();
            let mut after = before.clone();
            change(tx, &mut after)?;
            let id = keeps_versions(&tx.bucket).then(|| version_id(after.version));
            let locked = lock_of(&after) != lock_of(&before);
            if after != before {
                inode.refuse_fixed(Touching::Changes)?;
                // A lock also restricts current writers of the version: each write is decided again from here on.
                let written = locked && tx.flush_final(ino)?;
                let mut inode = tx.own(ino)?;
                (inode.object, inode.ctime) = (Some(after), tx.now.0);
                tx.save(ino, &inode);
                tx.tell(Change::Attributes { ino });
                let (core, id) = (tx.core.clone(), tx.bucket.id);
                tx.txn.after_commit(Box::new(move || {
                    if written {
                        core.writers.note_ending(id, ino);
                    }
                    if locked {
                        core.writers.end(id, ino);
                    }
                }));
            }
            Ok(id)
        })
        .await
    }
}

/// Refuses an impossible lock: the bucket has no object lock, the key cannot be locked, the date is in the past. Called
/// in the transactions of PutObject, CopyObject and CreateMultipartUpload with the requested lock.
pub(super) fn check_lock(tx: &Tx<'_>, key: &Key, asked: &Lock) -> Result<()> {
    if *asked == Lock::default() {
        return Ok(());
    }
    if tx.object_lock()?.is_none() {
        let why = "it was neither made with object lock nor set for it (PutObjectLockConfiguration)";
        return Err(Error::invalid("bucket for object lock", tx.name.as_str(), why));
    }
    if key.as_str().ends_with('/') {
        return Err(Error::invalid(
            "key for object lock",
            key.as_str(),
            "a key that ends in / has no versions to lock",
        ));
    }
    match asked.retention {
        Some(retention) if retention.until <= tx.now => {
            Err(Error::invalid("retain until date", retention.until.0.to_string(), "it has to lie in the future"))
        }
        _ => Ok(()),
    }
}

/// Applies the bucket's default retention to an object about to be put under `key`, unless a retention was requested.
/// Called in the transactions of PutObject, CopyObject and CompleteMultipartUpload; for an upload, `object` contains
/// the lock requested at its creation.
pub(super) fn retain_by_default(tx: &Tx<'_>, key: &Key, object: &mut Object) -> Result<()> {
    if object.retention.is_some() || key.as_str().ends_with('/') {
        return Ok(());
    }
    object.retention = tx.default_retention()?;
    Ok(())
}

/// A retention in the form of its record.
fn recorded(retention: Retention) -> inode::Retention {
    inode::Retention { mode: retention.mode as i32, until: retention.until.0 }
}

/// Refuses to weaken a retention in force: compliance always, governance without a bypass.
fn check_change(
    before: Option<Retention>,
    after: Option<Retention>,
    now: Timestamp,
    bypass_governance: bool,
) -> Result<()> {
    let Some(before) = before.filter(|before| before.until > now) else { return Ok(()) };
    if after.is_some_and(|after| after.mode == before.mode && after.until >= before.until) {
        return Ok(());
    }
    match before.mode {
        RetentionMode::Governance if bypass_governance => Ok(()),
        RetentionMode::Governance => Err(Error::Denied {
            why: "a retention in governance mode can only be lengthened, unless governance is bypassed".into(),
        }),
        RetentionMode::Compliance | RetentionMode::None => {
            Err(Error::Denied { why: "no account may shorten or remove a retention in compliance mode".into() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retention_in_force_only_gets_stronger() {
        let (governance, compliance) = (RetentionMode::Governance, RetentionMode::Compliance);
        let at = |mode, until| Some(Retention { mode, until: Timestamp(until) });
        let allowed = |before, after, bypass| check_change(before, after, Timestamp(10), bypass).is_ok();
        let table = [
            (None, at(governance, 20), true, true),
            (at(governance, 20), at(governance, 20), true, true),
            (at(governance, 20), at(governance, 30), true, true),
            (at(governance, 20), at(governance, 15), false, true),
            (at(governance, 20), at(compliance, 30), false, true),
            (at(governance, 20), None, false, true),
            (at(compliance, 20), at(compliance, 30), true, true),
            (at(compliance, 20), at(compliance, 15), false, false),
            (at(compliance, 20), at(governance, 30), false, false),
            (at(compliance, 20), None, false, false),
            // A retention that has ended restricts no one.
            (at(compliance, 10), None, true, true),
        ];
        for (before, after, without, with) in table {
            let found = (allowed(before, after, false), allowed(before, after, true));
            assert_eq!(found, (without, with), "{before:?} to {after:?}");
        }
    }
}
