//! Authorization of staging and publishing by the key in a secret.
//!
//! - A key opens a bucket no wider than its account's grant, as through S3, and no wider than the bucket's policy
//!   leaves to a mount.
//! - Without a secret, only volumes created by this driver are opened; Kubernetes decides by the claim who may use
//!   them. Any other bucket needs a key.
//! - A key with a write-only grant opens nothing, since a mount always reads.

use std::collections::HashMap;

use objstore::Store;
use objstore::store::{Account, Bucket};
use tonic::Status;

use crate::secret::{self, AccessKey};
use crate::{is_provisioned, status};

/// The access with which a volume is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// The account that owns the key.
    pub(crate) account: Option<Account>,
    /// Whether the access is read-only.
    pub(crate) read_only: bool,
}

/// Authorizes staging a volume.
pub(crate) fn for_stage(
    store: &Store,
    driver_name: &str,
    bucket: &Bucket,
    secrets: &HashMap<String, String>,
) -> Result<Opened, Status> {
    match for_publish(store, bucket, secrets)? {
        Some(opened) => Ok(opened),
        None if is_provisioned(bucket, driver_name) => Ok(Opened { account: None, read_only: false }),
        None => Err(Status::permission_denied(format!(
            "bucket \"{}\" was not made by this driver: give a nodeStageSecretRef with an S3 key of the bucket",
            bucket.name
        ))),
    }
}

/// Authorizes publishing a staged volume; `None` without secrets, which narrows nothing.
pub(crate) fn for_publish(
    store: &Store,
    bucket: &Bucket,
    secrets: &HashMap<String, String>,
) -> Result<Option<Opened>, Status> {
    let key = secret::parse(secrets).map_err(|error| Status::invalid_argument(error.to_string()))?;
    let Some(key) = key else { return Ok(None) };
    let account = authenticate(store, &key)?;
    let read_only = read_only(store, &account, bucket)?;
    Ok(Some(Opened { account: Some(account), read_only }))
}

/// Whether `account` may only read `bucket`; PERMISSION_DENIED if it may not read.
pub(crate) fn read_only(store: &Store, account: &Account, bucket: &Bucket) -> Result<bool, Status> {
    match store.mount_access(account, &bucket.name).map_err(status::of)? {
        Some(mode) if mode.reads() => Ok(!mode.writes()),
        Some(_) => Err(Status::permission_denied(format!(
            "account \"{}\" may only write bucket \"{}\"; a mount needs a grant that reads (ro or rw)",
            account.name, bucket.name
        ))),
        None => Err(Status::permission_denied(format!(
            "account \"{}\" has no grant of bucket \"{}\"",
            account.name, bucket.name
        ))),
    }
}

/// Finds the account of a key. An unknown key and a wrong secret get the same answer, so that neither can be guessed
/// from the other.
fn authenticate(store: &Store, key: &AccessKey) -> Result<Account, Status> {
    let identity = store.identify(&key.id).map_err(status::of)?;
    let identity = identity.filter(|identity| equal(identity.secret.reveal(), key.secret.reveal()));
    match identity {
        Some(identity) => Ok(identity.account),
        None => Err(Status::unauthenticated("the S3 key in the secret is unknown, revoked, or has another secret")),
    }
}

/// Compares all bytes, so that the time taken does not reveal how many match.
fn equal(one: &str, other: &str) -> bool {
    let differing = one.bytes().zip(other.bytes()).fold(0, |bits, (a, b)| bits | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use super::equal;

    #[test]
    fn secrets_are_equal_only_as_a_whole() {
        assert!(equal("", "") && equal("abc", "abc"));
        assert!(!equal("abc", "abd") && !equal("abc", "ab") && !equal("", "a"));
    }
}
