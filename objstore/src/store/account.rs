//! Operations on accounts.

use prost::Message;

use super::types::{Account, Outcome};
use super::{Store, header};
use crate::clock::Timestamp;
use crate::error::{Error, Noun, Result};
use crate::meta::{Read, Txn};
use crate::name;
use crate::record::creator::Creator;
use crate::record::key::{self, tag};
use crate::record::{account, decode};

/// The name of the account with all rights.
pub const ROOT_ACCOUNT: &str = "root";

/// An account by its id; `None` if it was deleted.
pub(super) fn by_id(read: &dyn Read, id: u64) -> Result<Option<Account>> {
    if read.get(&key::by_id(tag::ACCOUNT_ID, id))?.is_none() {
        return Ok(None);
    }
    let name = name_of(read, id)?;
    let record = find(read, &name)?.filter(|record| record.id == id);
    Ok(record.map(|record| shown(&name, &record)))
}

/// The record of an account.
pub(super) fn by_name(read: &dyn Read, name: &str) -> Result<account::Account> {
    find(read, name)?.ok_or_else(|| Error::not_found(Noun::Account, name))
}

/// The record of an account; `None` if it does not exist.
pub(crate) fn find(read: &dyn Read, name: &str) -> Result<Option<account::Account>> {
    read.get(&key::by_name(tag::ACCOUNT, name))?.map(|value| decode("an account", &value)).transpose()
}

/// The name of an account; for a deleted account, its id.
pub(super) fn name_of(read: &dyn Read, id: u64) -> Result<String> {
    match read.get(&key::by_id(tag::ACCOUNT_ID, id))? {
        Some(name) => {
            String::from_utf8(name.to_vec()).map_err(|_| Error::corrupt("an account's name", "UTF-8", "other bytes"))
        }
        None => Ok(format!("deleted-{id}")),
    }
}

pub(super) fn shown(name: &str, record: &account::Account) -> Account {
    Account {
        name: name.to_owned(),
        id: record.id,
        may_create_buckets: record.may_create_buckets,
        root: record.root,
        created: Timestamp(record.created),
        creator: record.creator(),
    }
}

/// Adds an account.
pub(crate) fn add(txn: &mut dyn Txn, name: &str, record: account::Account) -> Result<account::Account> {
    let record = account::Account { id: header::next_id(txn)?, ..record };
    txn.put(key::by_name(tag::ACCOUNT, name), record.encode_to_vec());
    txn.put(key::by_id(tag::ACCOUNT_ID, record.id), name.as_bytes().to_vec());
    Ok(record)
}

/// Whether an account of this name was ever deleted.
pub(crate) fn was_deleted(read: &dyn Read, name: &str) -> Result<bool> {
    Ok(read.get(&key::by_name(tag::FORMER, name))?.is_some())
}

/// The names of accounts that were ever deleted, whether other accounts have them now or not.
pub(crate) fn deleted_names(read: &dyn Read) -> Result<Vec<String>> {
    let former = super::all(read, &[tag::FORMER])?;
    Ok(former.iter().map(|pair| String::from_utf8_lossy(&pair.key[1..]).into_owned()).collect())
}

impl Store {
    /// Creates an account for the administrator; an identical one is found.
    pub async fn create_account(&self, name: &str, may_create_buckets: bool) -> Result<(Account, Outcome)> {
        self.create_account_as(name, may_create_buckets, Creator::Administrator).await
    }

    /// Creates an account that a backup names, if it does not exist. The backup's store may have allowed names that are
    /// no longer accepted.
    pub(crate) async fn restore_account(&self, name: &str) -> Result<()> {
        match self.account(name) {
            Err(Error::NotFound { .. }) => {
                let name = name::plain("account name", name)?;
                self.add_account(name, false, Creator::Administrator).await.map(drop)
            }
            found => found.map(drop),
        }
    }

    /// Creates an account and records its creator. An existing account is found regardless of its creator: see
    /// [`Account::creator`].
    pub async fn create_account_as(
        &self,
        name: &str,
        may_create_buckets: bool,
        creator: Creator,
    ) -> Result<(Account, Outcome)> {
        self.add_account(name::account(name)?, may_create_buckets, creator).await
    }

    async fn add_account(
        &self,
        name: String,
        may_create_buckets: bool,
        creator: Creator,
    ) -> Result<(Account, Outcome)> {
        self.change(move |txn, core| {
            if let Some(record) = find(&*txn, &name)? {
                if record.may_create_buckets != may_create_buckets {
                    let why = "it differs in whether it may create buckets".into();
                    return Err(Error::Exists { noun: Noun::Account, name, why });
                }
                return Ok((shown(&name, &record), Outcome::Found));
            }
            super::count::check_accounts(&*txn)?;
            let record = account::Account {
                may_create_buckets,
                created: core.clock.now().0,
                creator: creator as i32,
                ..account::Account::default()
            };
            Ok((shown(&name, &add(txn, &name, record)?), Outcome::Made))
        })
        .await
    }

    /// An account by name.
    pub fn account(&self, name: &str) -> Result<Account> {
        let record = by_name(&*self.core.meta.snapshot(), name)?;
        Ok(shown(name, &record))
    }

    /// The name of the account with an id; of one that was deleted, or is not known, its number.
    pub fn account_name(&self, id: u64) -> Result<String> {
        name_of(&*self.core.meta.snapshot(), id)
    }

    /// All accounts, by name.
    pub fn accounts(&self) -> Result<Vec<Account>> {
        let snapshot = self.core.meta.snapshot();
        super::all(&*snapshot, &[tag::ACCOUNT])?
            .iter()
            .map(|pair| {
                let name = String::from_utf8_lossy(&pair.key[1..]).into_owned();
                Ok(shown(&name, &decode("an account", &pair.value)?))
            })
            .collect()
    }

    /// Deletes an account with its keys, grants and roles. The root account, and one that owns buckets, cannot be deleted.
    pub async fn delete_account(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.change(move |txn, _| remove(txn, &name)).await?;
        self.grants_changed().await;
        Ok(())
    }
}

/// Removes an account with its keys, grants and roles.
pub(super) fn remove(txn: &mut dyn Txn, name: &str) -> Result<()> {
    let record = by_name(&*txn, name)?;
    if record.root {
        return Err(Error::invalid("account name", name, "the root account cannot be deleted"));
    }
    refuse_owner(&*txn, record.id, name)?;
    super::key::delete_all(txn, record.id)?;
    super::grant::delete_of_account(txn, record.id)?;
    super::role::delete_of_account(txn, record.id)?;
    txn.delete(key::by_name(tag::ACCOUNT, name));
    txn.delete(key::by_id(tag::ACCOUNT_ID, record.id));
    txn.put(key::by_name(tag::FORMER, name), record.id.to_be_bytes().to_vec());
    Ok(())
}

fn refuse_owner(read: &dyn Read, id: u64, name: &str) -> Result<()> {
    for pair in super::all(read, &[tag::BUCKET])? {
        let bucket: crate::record::bucket::Bucket = decode("a bucket", &pair.value)?;
        if bucket.owner == id {
            let owned = String::from_utf8_lossy(&pair.key[1..]).into_owned();
            return Err(Error::invalid("account name", name, format!("it owns bucket \"{owned}\": delete that first")));
        }
    }
    Ok(())
}
