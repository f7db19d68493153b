//! Operations on access keys: at most two for an account, so that they can be rotated.

use prost::Message;

use super::types::{Identity, KeyInfo, NewKey, Secret};
use super::{Access, Store, account};
use crate::clock::{Random, Timestamp};
use crate::core::Core;
use crate::damaged::unless_damaged;
use crate::error::{Error, Noun, Result};
use crate::grant::Bound;
use crate::meta::{Pair, Read, Txn};
use crate::record::account::Key;
use crate::record::decode;
use crate::record::key::{self, tag};

/// The kinds of records that decide about access.
const ACCESS: [u8; 9] = [
    tag::BUCKET,
    tag::BUCKET_ID,
    tag::SNAPSHOT,
    tag::SETTINGS,
    tag::ACCOUNT,
    tag::ACCOUNT_ID,
    tag::KEY,
    tag::GRANT,
    tag::ROLE,
];

/// The most keys of an account.
const KEYS_MAX: usize = 2;
pub(super) const ID_LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
pub(super) const SECRET_LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";

/// A key's record with its id.
pub(super) struct StoredKey {
    pub(super) id: String,
    pub(super) record: Key,
}

/// Decodes the record of a key.
pub(super) fn held(pair: &Pair) -> Result<StoredKey> {
    let id = String::from_utf8_lossy(&pair.key[1..]).into_owned();
    Ok(StoredKey { id, record: decode("an access key", &pair.value)? })
}

/// Random letters of an alphabet whose size divides 256.
pub(super) fn letters<const N: usize>(random: &dyn Random, alphabet: &[u8; N], count: usize) -> String {
    let mut bytes = vec![0; count];
    random.fill(&mut bytes);
    bytes.iter().map(|byte| char::from(alphabet[usize::from(*byte) % N])).collect()
}

/// The keys of an account, oldest first.
pub(super) fn of_account(read: &dyn Read, id: u64) -> Result<Vec<StoredKey>> {
    let mut held: Vec<StoredKey> = all(read)?.into_iter().filter(|held| held.record.account == id).collect();
    held.sort_by_key(|held| held.record.created);
    Ok(held)
}

/// Whether an account has a key, readable or not.
pub(crate) fn has_any(read: &dyn Read, account: u64) -> Result<bool> {
    let pairs = super::all(read, &[tag::KEY])?;
    Ok(pairs.iter().any(|pair| held(pair).map_or(true, |held| held.record.account == account)))
}

fn all(read: &dyn Read) -> Result<Vec<StoredKey>> {
    let pairs = super::all(read, &[tag::KEY])?;
    pairs.iter().map(held).collect()
}

/// Adds a key to an account, with the given or a new id and secret.
pub(crate) fn add(
    txn: &mut dyn Txn,
    (core, access): (&Core, &Access),
    account: u64,
    given: Option<(String, Secret)>,
) -> Result<(String, Secret)> {
    let random = &*core.random;
    let (id, secret) = given.unwrap_or_else(|| {
        (format!("AMPH{}", letters(random, ID_LETTERS, 16)), Secret::new(letters(random, SECRET_LETTERS, 40)))
    });
    let key = key::by_name(tag::KEY, &id);
    if txn.get(&key)?.is_some() {
        return Err(Error::Exists { noun: Noun::AccessKey, name: id, why: "choose another id".into() });
    }
    let bound = Bound { account, key_id: &id, version: 1 };
    let sealed = access.master.sealer().seal(random, &secret, bound)?;
    let record = Key { account, sealed, version: 1, created: core.clock.now().0 };
    txn.put(key, record.encode_to_vec());
    Ok((id, secret))
}

/// Deletes the keys of an account.
pub(super) fn delete_all(txn: &mut dyn Txn, account: u64) -> Result<()> {
    for held in of_account(&*txn, account)? {
        txn.delete(key::by_name(tag::KEY, &held.id));
    }
    Ok(())
}

/// The decrypted secret of a key.
pub(super) fn reveal(access: &Access, held: &StoredKey) -> Result<Secret> {
    let bound = Bound { account: held.record.account, key_id: &held.id, version: held.record.version };
    access.master.sealer().open_secret(&held.record.sealed, bound)
}

impl Store {
    /// Creates a key; an account has at most two.
    pub async fn create_key(&self, account: &str) -> Result<NewKey> {
        self.with_keys(account, |txn, with, id, held| {
            if held.len() >= KEYS_MAX {
                return Err(Error::TooMany { what: "access keys of the account", limit: KEYS_MAX as u64 });
            }
            add(txn, with, id, None)
        })
        .await
    }

    /// The account's oldest key with its secret, created if it has none; a repeated call returns the same.
    pub async fn ensure_key(&self, account: &str) -> Result<NewKey> {
        self.with_keys(account, |txn, with, id, held| match held.first() {
            Some(held) => Ok((held.id.clone(), reveal(with.1, held)?)),
            None => add(txn, with, id, None),
        })
        .await
    }

    /// Creates a new key, and deletes the account's oldest if it had two.
    pub async fn rotate_key(&self, account: &str) -> Result<NewKey> {
        self.with_keys(account, |txn, with, id, held| {
            if let Some(oldest) = held.first().filter(|_| held.len() >= KEYS_MAX) {
                txn.delete(key::by_name(tag::KEY, &oldest.id));
            }
            add(txn, with, id, None)
        })
        .await
    }

    async fn with_keys(
        &self,
        account: &str,
        change: impl FnOnce(&mut dyn Txn, (&Core, &Access), u64, &[StoredKey]) -> Result<(String, Secret)> + Send + 'static,
    ) -> Result<NewKey> {
        let (name, access) = (account.to_owned(), self.access.clone());
        self.change(move |txn, core| {
            let record = account::by_name(&*txn, &name)?;
            let held = of_account(&*txn, record.id)?;
            let (id, secret) = change(txn, (core, &access), record.id, &held)?;
            Ok(NewKey { id, account: name, secret })
        })
        .await
    }

    /// All keys, or one account's.
    pub fn keys(&self, account: Option<&str>) -> Result<Vec<KeyInfo>> {
        let snapshot = self.core.meta.snapshot();
        let held = match account {
            Some(name) => of_account(&*snapshot, account::by_name(&*snapshot, name)?.id)?,
            None => all(&*snapshot)?,
        };
        let shown = held.into_iter().map(|held| {
            let account = account::name_of(&*snapshot, held.record.account)?;
            Ok(KeyInfo { id: held.id, account, created: Timestamp(held.record.created) })
        });
        shown.collect()
    }

    /// Deletes a key: the next request that uses it is refused.
    pub async fn delete_key(&self, id: &str) -> Result<()> {
        let id = id.to_owned();
        self.change(move |txn, _| {
            let key = key::by_name(tag::KEY, &id);
            if txn.get(&key)?.is_none() {
                return Err(Error::not_found(Noun::AccessKey, id));
            }
            txn.delete(key);
            Ok(())
        })
        .await
    }

    /// A number that is constant as long as keys, accounts, grants, roles, buckets and their settings are. What
    /// [`Store::identify`], [`Store::role_session`], [`Store::access`], [`Store::settings`] and [`Store::bucket`] (except its usage) return
    /// afterwards is valid while it does not change. It changes before a change is answered; `None` while one is in
    /// progress.
    pub fn access_epoch(&self) -> Option<u64> {
        self.core.meta.epoch(&ACCESS)
    }

    /// The owner of a key; `None` if the key is unknown or revoked.
    pub fn identify(&self, access_key_id: &str) -> Result<Option<Identity>> {
        let snapshot = self.core.meta.snapshot();
        let Some(value) = snapshot.get(&key::by_name(tag::KEY, access_key_id))? else { return Ok(None) };
        let held = StoredKey { id: access_key_id.to_owned(), record: decode("an access key", &value)? };
        let name = account::name_of(&*snapshot, held.record.account)?;
        let account = account::shown(&name, &account::by_name(&*snapshot, &name)?);
        Ok(Some(Identity { account, secret: reveal(&self.access, &held)? }))
    }

    /// The root account's oldest key.
    pub fn root_key(&self) -> Result<NewKey> {
        let snapshot = self.core.meta.snapshot();
        let root = account::by_name(&*snapshot, account::ROOT_ACCOUNT)?;
        let mut readable = Vec::new();
        for pair in super::all(&*snapshot, &[tag::KEY])? {
            // One of another account that is damaged keeps no server from starting.
            let what = format_args!("the access key {}", String::from_utf8_lossy(&pair.key[1..]));
            readable.extend(unless_damaged(what, held(&pair))?);
        }
        let of_root = readable.into_iter().filter(|held| held.record.account == root.id);
        let held = of_root.min_by_key(|held| held.record.created);
        let held = held.ok_or_else(|| Error::not_found(Noun::AccessKey, "of the root account"))?;
        let secret = reveal(&self.access, &held)?;
        Ok(NewKey { id: held.id, account: account::ROOT_ACCOUNT.into(), secret })
    }
}
