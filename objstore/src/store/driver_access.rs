//! Access that a Kubernetes driver hands out: an account with grants for several buckets, and one key or one role.
//!
//! - Everything is made in one transaction: after a crash the access is complete or absent.
//! - The key of a complete access is in a Secret already. A repeated request never changes what that key opens; a
//!   request for something else is refused. The same holds for a role, and for who may take it.

use std::collections::BTreeMap;

use prost::Message;

use super::types::{Creator, Mode, NewKey, NewRole, TrustedIdentity};
use super::{Store, account, count, grant, key, role};
use crate::core::Core;
use crate::error::{Error, Noun, Result};
use crate::meta::{Read, Txn};
use crate::name::{self, BucketName};
use crate::record::account::{Account, Grant};

/// An access that a driver asks for.
#[derive(Clone, Debug)]
pub struct DriverAccess {
    /// The account's name.
    pub account: String,
    /// The driver. An account of any other creator is not used.
    pub creator: Creator,
    /// The buckets that the access opens, and how.
    pub grants: BTreeMap<BucketName, Mode>,
}

impl Store {
    /// Creates the account with these grants and a key; if it exists with exactly them, returns its oldest key.
    ///
    /// An account of the same creator that has no key yet was left by an earlier version that made an access in steps:
    /// it gets these grants, in place of those it has, and a key.
    ///
    /// # Errors
    /// [`Error::NotFound`] if a bucket does not exist. [`Error::Exists`] if the account has another creator, or has a key
    /// and other grants.
    pub async fn make_driver_access(&self, asked: DriverAccess) -> Result<NewKey> {
        let name = name::account(&asked.account)?;
        let access = self.access.clone();
        let made = self
            .change(move |txn, core| {
                let grants = by_bucket_id(&*txn, core, &asked.grants)?;
                let record = ensure_account(txn, core, &name, asked.creator)?;
                if !role::all(&*txn, Some(record.id))?.is_empty() {
                    return Err(differs(&name));
                }
                if let Some(held) = key::of_account(&*txn, record.id)?.first() {
                    if grant::of_account(&*txn, record.id)? != grants {
                        return Err(differs(&name));
                    }
                    return Ok(NewKey { id: held.id.clone(), secret: key::reveal(&access, held)?, account: name });
                }
                set_grants(txn, record.id, grants)?;
                let (id, secret) = key::add(txn, (core, &access), record.id, None)?;
                Ok(NewKey { id, secret, account: name })
            })
            .await?;
        self.grants_changed().await;
        Ok(made)
    }

    /// Creates the account with these grants and a role that these identities may take; if it exists with exactly them,
    /// finds it. No key is made.
    ///
    /// # Errors
    /// [`Error::NotFound`] if a bucket does not exist. [`Error::Exists`] if the account has another creator, or has a key,
    /// other grants or a role that trusts others.
    pub async fn make_driver_role(&self, asked: DriverAccess, role: &str, trusted: TrustedIdentity) -> Result<String> {
        let name = name::account(&asked.account)?;
        let identities = vec![trusted];
        let wanted = NewRole {
            account: name.clone(),
            name: role.to_owned(),
            creator: asked.creator,
            identities,
            accounts: Vec::new(),
        };
        role::check(&wanted)?;
        let made = self
            .change(move |txn, core| {
                let grants = by_bucket_id(&*txn, core, &asked.grants)?;
                let record = ensure_account(txn, core, &name, asked.creator)?;
                let roles = role::all(&*txn, Some(record.id))?;
                let others = !roles.is_empty() && grant::of_account(&*txn, record.id)? != grants
                    || roles.iter().any(|role| role.name != wanted.name);
                if others || key::has_any(&*txn, record.id)? {
                    return Err(differs(&name));
                }
                set_grants(txn, record.id, grants)?;
                role::ensure(txn, core, record.id, &wanted).map(|_| name)
            })
            .await?;
        self.grants_changed().await;
        Ok(made)
    }

    /// Removes the account's grants for these buckets, and the account with its keys and roles if it has no other grant. An account
    /// or bucket that does not exist is no error.
    pub async fn revoke_driver_access(&self, account: &str, buckets: Vec<BucketName>) -> Result<()> {
        let name = account.to_owned();
        self.change(move |txn, core| {
            let Some(record) = account::find(&*txn, &name)? else { return Ok(()) };
            for bucket in &buckets {
                if let Some(bucket) = core.bucket_record(&*txn, bucket)? {
                    txn.delete(crate::record::key::grant(bucket.id, record.id));
                }
            }
            match grant::of_account(&*txn, record.id)?.is_empty() {
                true => account::remove(txn, &name),
                false => Ok(()),
            }
        })
        .await?;
        self.grants_changed().await;
        Ok(())
    }
}

/// Gives the account exactly these grants.
fn set_grants(txn: &mut dyn Txn, account: u64, grants: BTreeMap<u64, Mode>) -> Result<()> {
    grant::delete_of_account(txn, account)?;
    for (bucket, mode) in grants {
        count::check_grants(&*txn, bucket)?;
        let grant = Grant { mode: crate::record::account::GrantMode::from(mode) as i32 };
        txn.put(crate::record::key::grant(bucket, account), grant.encode_to_vec());
    }
    Ok(())
}

/// The modes by the buckets' ids.
fn by_bucket_id(read: &dyn Read, core: &Core, grants: &BTreeMap<BucketName, Mode>) -> Result<BTreeMap<u64, Mode>> {
    let ids = grants.iter().map(|(bucket, mode)| match core.bucket_record(read, bucket)? {
        Some(record) => Ok((record.id, *mode)),
        None => Err(Error::not_found(Noun::Bucket, bucket.as_str())),
    });
    ids.collect()
}

fn ensure_account(txn: &mut dyn Txn, core: &Core, name: &str, creator: Creator) -> Result<Account> {
    match account::find(&*txn, name)? {
        Some(found) if found.creator() == creator => Ok(found),
        Some(_) => {
            let why =
                "this driver did not make it; if it is not needed, delete it with `amphora account delete`".into();
            Err(Error::Exists { noun: Noun::Account, name: name.to_owned(), why })
        }
        None => {
            count::check_accounts(&*txn)?;
            let record = Account { created: core.clock.now().0, creator: creator as i32, ..Account::default() };
            account::add(txn, name, record)
        }
    }
}

fn differs(account: &str) -> Error {
    let why =
        "it was handed out for other buckets, modes or identities, or in another way; use another name for this access"
            .to_owned();
    Error::Exists { noun: Noun::Account, name: account.to_owned(), why }
}
