//! Access of a mount made with a key: the account's grant, less what the policy of the bucket may deny the account.

use objstore::name::BucketName;
use objstore::store::{Account, Mode};
use objstore::{Error, Result, Store};

use crate::credentials::Credentials;

/// The access of a mount, and the account whose grant gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether it is read-only.
    pub read_only: bool,
    /// The account that holds the grant; `None`: the administrator, who needs none.
    pub account: Option<String>,
}

impl Access {
    /// The access that `key` has to `bucket` through a mount. Blocking.
    ///
    /// # Errors
    /// [`Error::Denied`] if the key is unknown or revoked, its secret is wrong, it has no grant to read, or the policy
    /// of the bucket may deny its account reading.
    pub fn of(store: &Store, key: &Credentials, bucket: &BucketName) -> Result<Self> {
        let identity = store.identify(&key.access_key_id)?;
        let identity = identity.filter(|identity| same(identity.secret.reveal(), key.secret.reveal()));
        // One answer for all three cases, so that it does not reveal which keys exist.
        let identity = identity.ok_or_else(|| Error::Denied {
            why: format!("the key {key} is unknown or revoked, or its secret is wrong: check the credentials"),
        })?;
        Self::of_account(store, &identity.account, key, bucket)
    }

    /// The access of a mount that was made with a key before, whose secret is no longer known: the key still has to
    /// exist and belong to the same account. Blocking.
    ///
    /// # Errors
    /// As [`Access::of`].
    pub fn again(store: &Store, key_id: &str, account: &str, bucket: &BucketName) -> Result<Self> {
        let identity = store.identify(key_id)?.filter(|identity| identity.account.name == account);
        let identity = identity.ok_or_else(|| Error::Denied {
            why: format!("the key {key_id} of account \"{account}\", which it was mounted with, was deleted"),
        })?;
        Self::of_account(store, &identity.account, &key_id, bucket)
    }

    /// The access of a key whose secret the other side has proved to know. Blocking.
    ///
    /// # Errors
    /// As [`Access::of`].
    pub fn proven(store: &Store, key_id: &str, bucket: &BucketName) -> Result<Self> {
        let identity = store.identify(key_id)?;
        let identity = identity.ok_or_else(|| Error::Denied {
            why: format!("the key {key_id} is unknown or revoked: check the credentials"),
        })?;
        Self::of_account(store, &identity.account, &key_id, bucket)
    }

    fn of_account(store: &Store, account: &Account, key: &impl std::fmt::Display, bucket: &BucketName) -> Result<Self> {
        let denied = |why: String| Error::Denied { why };
        match store.mount_access(account, bucket)? {
            Some(mode @ (Mode::Read | Mode::ReadWrite | Mode::Owner)) => {
                Ok(Self { read_only: !mode.writes(), account: Some(account.name.clone()) })
            }
            Some(Mode::Write) => Err(denied(format!(
                "the key {key} may only write to bucket \"{bucket}\", and a mount reads: grant ro, rw or owner"
            ))),
            None => Err(denied(format!("the key {key} has no grant for bucket \"{bucket}\""))),
        }
    }
}

/// Compares two texts; the time taken reveals only their length.
fn same(a: &str, b: &str) -> bool {
    let differing = a.bytes().zip(b.bytes()).fold(0, |differing, (a, b)| differing | (a ^ b));
    a.len() == b.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_compared_whole() {
        assert!(same("", "") && same("secret", "secret"));
        assert!(!same("secret", "secres") && !same("secret", "secre") && !same("", "s"));
    }
}
