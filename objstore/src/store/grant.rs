//! Operations on grants: what an account may do with a bucket. Without a grant, nothing.

use std::collections::BTreeMap;

use prost::Message;

use super::types::{Account, Grant, Mode};
use super::{Store, account};
use crate::core::{Core, Named};
use crate::error::{Error, Noun, Result};
use crate::meta::{Read, Txn};
use crate::name::BucketName;
use crate::record::account::{Grant as Record, GrantMode};
use crate::record::decode;
use crate::record::key::{self, tag};

impl From<Mode> for GrantMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Read => Self::Read,
            Mode::Write => Self::Write,
            Mode::ReadWrite => Self::ReadWrite,
            Mode::Owner => Self::Owner,
        }
    }
}

fn mode_of(record: Record) -> Option<Mode> {
    match record.mode() {
        GrantMode::None => None,
        GrantMode::Read => Some(Mode::Read),
        GrantMode::Write => Some(Mode::Write),
        GrantMode::ReadWrite => Some(Mode::ReadWrite),
        GrantMode::Owner => Some(Mode::Owner),
    }
}

fn granted(read: &dyn Read, bucket: u64, account: u64) -> Result<Option<Mode>> {
    match read.get(&key::grant(bucket, account))? {
        Some(value) => Ok(mode_of(decode("a grant", &value)?)),
        None => Ok(None),
    }
}

/// Deletes the grants on a bucket.
pub(super) fn delete_of_bucket(txn: &mut dyn Txn, bucket: u64) -> Result<()> {
    for pair in super::all(&*txn, &key::by_id(tag::GRANT, bucket))? {
        txn.delete(pair.key.to_vec());
    }
    Ok(())
}

/// Deletes the grants of an account.
pub(super) fn delete_of_account(txn: &mut dyn Txn, account: u64) -> Result<()> {
    for pair in super::all(&*txn, &[tag::GRANT])? {
        if key::u64_at(&pair.key, 9) == Some(account) {
            txn.delete(pair.key.to_vec());
        }
    }
    Ok(())
}

/// The grants of an account, by the buckets' ids.
pub(super) fn of_account(read: &dyn Read, account: u64) -> Result<BTreeMap<u64, Mode>> {
    let mut grants = BTreeMap::new();
    for pair in super::all(read, &[tag::GRANT])? {
        if let (Some(bucket), Some(holder)) = (key::u64_at(&pair.key, 1), key::u64_at(&pair.key, 9))
            && holder == account
            && let Some(mode) = mode_of(decode("a grant", &pair.value)?)
        {
            grants.insert(bucket, mode);
        }
    }
    Ok(grants)
}

impl Store {
    /// Adds a grant, or changes its mode.
    pub async fn add_grant(&self, bucket: &BucketName, account: &str, mode: Mode) -> Result<Grant> {
        let (bucket, account) = (bucket.clone(), account.to_owned());
        let granted = self
            .change(move |txn, core| {
                let record = core.bucket_record(&*txn, &bucket)?;
                let record = record.ok_or_else(|| Error::not_found(Noun::Bucket, bucket.as_str()))?;
                let holder = account::by_name(&*txn, &account)?;
                let key = key::grant(record.id, holder.id);
                if txn.get(&key)?.is_none() {
                    super::count::check_grants(&*txn, record.id)?;
                }
                let grant = Record { mode: GrantMode::from(mode) as i32 };
                txn.put(key, grant.encode_to_vec());
                Ok(Grant { bucket, account, mode })
            })
            .await?;
        self.grants_changed().await;
        Ok(granted)
    }

    /// Revokes a grant: the next request is refused.
    pub async fn remove_grant(&self, bucket: &BucketName, account: &str) -> Result<()> {
        let (bucket, account) = (bucket.clone(), account.to_owned());
        self.change(move |txn, core| {
            let record = core.bucket_record(&*txn, &bucket)?;
            let record = record.ok_or_else(|| Error::not_found(Noun::Bucket, bucket.as_str()))?;
            let holder = account::by_name(&*txn, &account)?;
            let grant = key::grant(record.id, holder.id);
            if txn.get(&grant)?.is_none() {
                return Err(Error::not_found(Noun::Grant, format!("{account} on {bucket}")));
            }
            txn.delete(grant);
            Ok(())
        })
        .await?;
        self.grants_changed().await;
        Ok(())
    }

    /// The grants on a bucket, of an account, or all.
    pub fn grants(&self, bucket: Option<&BucketName>, account: Option<&str>) -> Result<Vec<Grant>> {
        let snapshot = self.core.meta.snapshot();
        let prefix = match bucket {
            Some(name) => match self.core.bucket_record(&*snapshot, name)? {
                Some(record) => key::by_id(tag::GRANT, record.id),
                None => return Err(Error::not_found(Noun::Bucket, name.as_str())),
            },
            None => vec![tag::GRANT],
        };
        let mut grants = Vec::new();
        for pair in super::all(&*snapshot, &prefix)? {
            let (Some(bucket), Some(holder)) = (key::u64_at(&pair.key, 1), key::u64_at(&pair.key, 9)) else { continue };
            let (Some(bucket), Some(mode)) =
                (crate::buckets::name_of(&*snapshot, bucket)?, mode_of(decode("a grant", &pair.value)?))
            else {
                continue;
            };
            let holder = account::name_of(&*snapshot, holder)?;
            if account.is_none_or(|account| account == holder) {
                grants.push(Grant { bucket, account: holder, mode });
            }
        }
        Ok(grants)
    }

    /// The access of an account to a bucket: root and the owner have all rights, others what their grant says. A
    /// snapshot under its own name can be read by everyone who may read its bucket, and by those two.
    pub fn access(&self, account: &Account, bucket: &BucketName) -> Result<Option<Mode>> {
        access(&self.core, account.id, account.root, bucket)
    }
}

/// The access of an account to a bucket by its grant.
pub(super) fn access(core: &Core, account: u64, root: bool, bucket: &BucketName) -> Result<Option<Mode>> {
    let snapshot = core.meta.snapshot();
    let (id, owner, frozen) = match core.named(&*snapshot, bucket)? {
        Named::Bucket(record) => (record.id, record.owner, false),
        Named::Snapshot(record) => (record.bucket, record.owner, true),
    };
    let mode = match root || account == owner {
        true => Some(Mode::Owner),
        false => granted(&*snapshot, id, account)?,
    };
    Ok(match mode {
        Some(mode) if frozen => mode.reads().then_some(Mode::Read),
        mode => mode,
    })
}
