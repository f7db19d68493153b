//! Operations on roles: who may act as an account for a while, without a key of it (IAM User Guide, IAM roles).
//!
//! - A role belongs to one account and gives its rights: its grants, and what bucket policies say of it. It never
//!   belongs to root, as on AWS.
//! - It trusts identities of OpenID Connect, keys of accounts, or both; without either nobody could take it.
//! - Its number is never used again, so a session of a deleted role does not continue under a new role of its name.

use prost::Message;

use super::types::{NewRole, Outcome, Role, TrustedIdentity};
use super::{Store, account, header};
use crate::clock::Timestamp;
use crate::core::Core;
use crate::error::{Error, Noun, Result};
use crate::meta::{Read, Txn};
use crate::record::account as record;
use crate::record::decode;
use crate::record::key::{self, tag};

/// The most roles of an account.
pub(crate) const ROLES_MAX: usize = 100;
/// The most trusted identities, and the most trusted accounts, of a role.
const TRUSTED_MAX: usize = 100;
/// The most bytes of an issuer, a subject or an audience.
const TEXT_BYTES_MAX: usize = 1024;

/// The roles of an account, or of all, by account and name.
pub(super) fn all(read: &dyn Read, of: Option<u64>) -> Result<Vec<Role>> {
    let prefix = of.map_or_else(|| vec![tag::ROLE], |account| key::by_id(tag::ROLE, account));
    let mut roles = Vec::new();
    for pair in super::all(read, &prefix)? {
        let Some(account) = key::u64_at(&pair.key, 1) else { continue };
        let name = String::from_utf8_lossy(pair.key.get(key::ROLE_NAME_AT..).unwrap_or_default()).into_owned();
        roles.push(shown(read, account, name, decode("a role", &pair.value)?)?);
    }
    Ok(roles)
}

/// The record of a role.
pub(super) fn find(read: &dyn Read, account: u64, name: &str) -> Result<Option<record::Role>> {
    read.get(&key::role(account, name))?.map(|value| decode("a role", &value)).transpose()
}

/// Deletes the roles of an account.
pub(super) fn delete_of_account(txn: &mut dyn Txn, account: u64) -> Result<()> {
    for pair in super::all(&*txn, &key::by_id(tag::ROLE, account))? {
        txn.delete(pair.key.to_vec());
    }
    Ok(())
}

/// Adds a role with these identities and accounts to an account, or finds it.
pub(super) fn ensure(txn: &mut dyn Txn, core: &Core, owner: u64, asked: &NewRole) -> Result<(record::Role, Outcome)> {
    let accounts = asked.accounts.iter().map(|name| Ok(account::by_name(&*txn, name)?.id));
    let mut accounts = accounts.collect::<Result<Vec<_>>>()?;
    accounts.sort_unstable();
    accounts.dedup();
    let mut identities = asked.identities.clone();
    identities.sort();
    identities.dedup();
    let identities: Vec<_> = identities.into_iter().map(kept).collect();
    if let Some(found) = find(&*txn, owner, &asked.name)? {
        if found.identities != identities || found.accounts != accounts {
            let why = "it trusts others; delete it first, which ends its sessions".into();
            return Err(Error::Exists { noun: Noun::Role, name: asked.name.clone(), why });
        }
        return Ok((found, Outcome::Found));
    }
    if super::all(&*txn, &key::by_id(tag::ROLE, owner))?.len() >= ROLES_MAX {
        return Err(Error::TooMany { what: "roles of the account", limit: ROLES_MAX as u64 });
    }
    let (id, created) = (header::next_id(txn)?, core.clock.now().0);
    let role = record::Role { id, created, creator: asked.creator as i32, identities, accounts };
    txn.put(key::role(owner, &asked.name), role.encode_to_vec());
    Ok((role, Outcome::Made))
}

/// Refuses a role that could not be stored or taken.
pub(super) fn check(asked: &NewRole) -> Result<()> {
    let good = (1..=64).contains(&asked.name.len())
        && asked.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+=,.@-".contains(&byte));
    if !good {
        let why = "use 1 to 64 letters, digits and characters of \"_+=,.@-\"";
        return Err(Error::invalid("role name", &asked.name, why));
    }
    if asked.identities.is_empty() && asked.accounts.is_empty() {
        let why = "it trusts nobody: name an issuer and a subject, or an account";
        return Err(Error::invalid("role", &asked.name, why));
    }
    if asked.identities.len().max(asked.accounts.len()) > TRUSTED_MAX {
        return Err(Error::TooMany { what: "identities or accounts that a role trusts", limit: TRUSTED_MAX as u64 });
    }
    asked.identities.iter().try_for_each(|TrustedIdentity { issuer, subject, audience }| {
        check_text("issuer", issuer)?;
        check_text("subject", subject)?;
        audience.iter().try_for_each(|audience| check_text("audience", audience))
    })
}

fn check_text(what: &'static str, text: &str) -> Result<()> {
    if (1..=TEXT_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control) {
        return Ok(());
    }
    let shown: String = text.chars().take(64).filter(|one| !one.is_control()).collect();
    Err(Error::invalid(what, shown, "use 1 to 1024 bytes without control characters"))
}

fn kept(trusted: TrustedIdentity) -> record::TrustedIdentity {
    let TrustedIdentity { issuer, subject, audience } = trusted;
    record::TrustedIdentity { issuer, subject, audience: audience.unwrap_or_default() }
}

fn shown(read: &dyn Read, owner: u64, name: String, role: record::Role) -> Result<Role> {
    let accounts = role.accounts.iter().map(|id| account::name_of(read, *id)).collect::<Result<_>>()?;
    let creator = role.creator();
    let identities = role.identities.into_iter().map(|record::TrustedIdentity { issuer, subject, audience }| {
        TrustedIdentity { issuer, subject, audience: Some(audience).filter(|audience| !audience.is_empty()) }
    });
    Ok(Role {
        account: account::name_of(read, owner)?,
        account_id: owner,
        name,
        id: role.id,
        created: Timestamp(role.created),
        creator,
        identities: identities.collect(),
        accounts,
    })
}

impl Store {
    /// Creates a role; an identical one is found.
    ///
    /// # Errors
    /// [`Error::NotFound`] if its account, or one that it trusts, does not exist. [`Error::Exists`] if a role of this
    /// name trusts others.
    pub async fn create_role(&self, asked: NewRole) -> Result<(Role, Outcome)> {
        check(&asked)?;
        self.change(move |txn, core| {
            let owner = account::by_name(&*txn, &asked.account)?;
            if owner.root {
                return Err(Error::invalid("account name", &asked.account, "the root account has no roles"));
            }
            let (role, outcome) = ensure(txn, core, owner.id, &asked)?;
            Ok((shown(&*txn, owner.id, asked.name, role)?, outcome))
        })
        .await
    }

    /// A role by account and name; `None` if either does not exist.
    pub fn role(&self, account: &str, name: &str) -> Result<Option<Role>> {
        let snapshot = self.core.meta.snapshot();
        let Some(owner) = account::find(&*snapshot, account)? else { return Ok(None) };
        match find(&*snapshot, owner.id, name)? {
            Some(role) => shown(&*snapshot, owner.id, name.to_owned(), role).map(Some),
            None => Ok(None),
        }
    }

    /// All roles, or one account's.
    pub fn roles(&self, account: Option<&str>) -> Result<Vec<Role>> {
        let snapshot = self.core.meta.snapshot();
        let owner = account.map(|name| Ok::<_, Error>(account::by_name(&*snapshot, name)?.id)).transpose()?;
        all(&*snapshot, owner)
    }

    /// Deletes a role: the next request of each of its sessions is refused.
    pub async fn delete_role(&self, account: &str, name: &str) -> Result<()> {
        let (account, name) = (account.to_owned(), name.to_owned());
        self.change(move |txn, _| {
            let owner = account::by_name(&*txn, &account)?;
            if find(&*txn, owner.id, &name)?.is_none() {
                return Err(Error::not_found(Noun::Role, format!("{name} of account {account}")));
            }
            txn.delete(key::role(owner.id, &name));
            Ok(())
        })
        .await
    }
}
