//! Deletion for Kubernetes drivers: only resources that the caller created, and only while they are unused.
//!
//! - The caller also gives the bucket's id, so that a later bucket of the same name is never deleted instead.
//! - All snapshots of a group snapshot are deleted in one transaction, or none.
//! - A bucket and the accounts created for it are deleted in one transaction: a refused deletion removes no access.

use super::types::Deletion;
use super::{Store, account, bucket, group_snapshot, publication, snapshot};
use crate::core::Core;
use crate::error::{Error, Noun, Result};
use crate::meta::{Read, Txn};
use crate::name::BucketName;
use crate::record::bucket::Snapshot;

impl Store {
    /// Deletes the bucket `name` with its content and with `accounts`, if its id is `id`; accounts that do not exist
    /// any more are ignored. Snapshots of the bucket stay.
    ///
    /// # Errors
    /// [`Error::NotFound`] if another bucket has the name, [`Error::InUse`] while it is mounted or published to a node.
    pub async fn delete_unused_bucket(&self, name: &BucketName, id: u64, accounts: Vec<String>) -> Result<()> {
        let name = name.clone();
        self.change(move |txn, core| {
            refuse_used_bucket(&*txn, core, &name, id)?;
            bucket::delete(txn, core, &name, Deletion::Force)?;
            accounts.iter().try_for_each(|account| remove_account(txn, account))
        })
        .await?;
        self.forget_bucket(id);
        self.grants_changed().await;
        Ok(())
    }

    /// Deletes a snapshot that is not mounted and was taken alone.
    ///
    /// # Errors
    /// [`Error::InUse`] while it is mounted, or if it belongs to a group snapshot.
    pub async fn delete_unused_snapshot(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.change(move |txn, core| {
            let Snapshot { id, group, .. } = snapshot::record(&*txn, &name)?;
            if !group.is_empty() {
                let user = format!("it belongs to the group snapshot \"{group}\"; delete that as a whole");
                return Err(Error::InUse { noun: Noun::Snapshot, name, user });
            }
            refuse_mounted(core, Noun::Snapshot, &name, id)?;
            snapshot::delete(txn, &name)
        })
        .await?;
        self.background.wake();
        Ok(())
    }

    /// Deletes a group snapshot with all its snapshots, in one transaction. `listed`: its snapshots as the caller knows
    /// them; see [`Store::group_snapshot_of`].
    ///
    /// # Errors
    /// [`Error::InUse`] while one of them is mounted, [`Error::Invalid`] if `listed` does not match.
    pub async fn delete_unused_group_snapshot(&self, name: &str, listed: Vec<String>) -> Result<()> {
        let name = name.to_owned();
        self.change(move |txn, core| {
            let members = group_snapshot::matching(&*txn, &name, &listed)?;
            for (member, record) in &members {
                refuse_mounted(core, Noun::Snapshot, member, record.id)?;
            }
            group_snapshot::forget(txn, &name);
            members.iter().try_for_each(|(member, _)| snapshot::delete(txn, member))
        })
        .await?;
        self.background.wake();
        Ok(())
    }
}

fn remove_account(txn: &mut dyn Txn, name: &str) -> Result<()> {
    match account::remove(txn, name) {
        Err(Error::NotFound { .. }) => Ok(()),
        removed => removed,
    }
}

fn refuse_used_bucket(read: &dyn Read, core: &Core, name: &BucketName, id: u64) -> Result<()> {
    let record = core.bucket_record(read, name)?.filter(|record| record.id == id);
    if record.is_none() {
        return Err(Error::not_found(Noun::Bucket, name.as_str()));
    }
    if let Some(node) = publication::nodes(read, id)?.first() {
        let user =
            format!("it is published as a volume to node \"{node}\"; unpublish it first: delete the pods that use it");
        return Err(Error::InUse { noun: Noun::Bucket, name: name.to_string(), user });
    }
    refuse_mounted(core, Noun::Bucket, name.as_str(), id)
}

fn refuse_mounted(core: &Core, noun: Noun, name: &str, id: u64) -> Result<()> {
    if !core.mounted.contains(id) && core.persistent.of_bucket(id).is_empty() {
        return Ok(());
    }
    let user = "it is mounted on this machine; unmount it first (`amphora status` says where)".to_owned();
    Err(Error::InUse { noun, name: name.to_owned(), user })
}
