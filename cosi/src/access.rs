//! Granting and revoking access by key: one account and one key for each access.
//!
//! - The account is named after the access, so a repeated grant finds it and returns the same key: the sidecar never
//!   overwrites the Secret it wrote first.
//! - An account that this driver did not create is neither used for an access nor deleted, even if its name matches.
//! - The mode of the last grant counts: a repeated grant with another mode changes it.
//! - An account has a grant for one bucket only. A second bucket under the same access name is refused; otherwise the
//!   key handed out for the first would open the second.

use objstore::name::BucketName;
use objstore::store::{Account, Creator, Mode, NewKey, Outcome};
use objstore::{Error, Noun};
use tonic::Status;

use crate::rpc::read;
use crate::{ACCESS_PREFIX, Driver, made, status};

/// Why an existing account is not used.
const NOT_OURS: &str = "this driver did not make it; if it is not needed, delete it with `amphora account delete`";

impl Driver {
    /// Creates the access `name` to a bucket, or finds it, and returns its account's key.
    pub(crate) async fn grant(&self, bucket_id: &str, name: &str, mode: Mode) -> Result<NewKey, Status> {
        let bucket: BucketName = bucket_id.parse().map_err(|_| no_such_bucket(bucket_id))?;
        let account = account_name(name)?;
        if self.find_bucket(&bucket).await?.is_none_or(|found| found.snapshot) {
            return Err(no_such_bucket(bucket_id));
        }
        let other = self.granted_buckets(&account).await?.into_iter().find(|granted| *granted != bucket);
        if let Some(other) = other {
            return Err(Status::failed_precondition(format!(
                "the access \"{name}\" was granted for bucket \"{other}\"; use another name for bucket \"{bucket}\""
            )));
        }
        if self.has_role(&account).await? {
            return Err(Status::failed_precondition(format!(
                "the access \"{name}\" was granted to a ServiceAccount; use another name for an access with a key"
            )));
        }
        self.make_access(&bucket, &account, mode).await.map_err(|error| grant_status(&error))
    }

    async fn make_access(&self, bucket: &BucketName, account: &str, mode: Mode) -> objstore::Result<NewKey> {
        let (found, outcome) = self.store.create_account_as(account, false, Creator::Cosi).await?;
        if !made::is_access(&found) {
            return Err(taken(account));
        }
        let granted = self.store.add_grant(bucket, account, mode).await;
        let made = match granted {
            Ok(_) => self.store.ensure_key(account).await,
            Err(error) => Err(error),
        };
        if let (Err(_), Outcome::Made) = (&made, outcome) {
            // The failure above is reported; a leftover account without a grant has no access.
            let _ = self.store.delete_account(account).await;
        }
        made
    }

    /// Revokes the access of `account` to a bucket, and deletes the account with its key. An unknown account counts as
    /// revoked.
    pub(crate) async fn revoke(&self, bucket_id: &str, account: &str) -> Result<(), Status> {
        if !self.is_own_account(account).await? {
            return Ok(());
        }
        let granted = self.granted_buckets(account).await?;
        // Deleting a bucket may leave the account without a grant. If it has grants for other buckets only, the caller
        // means another account.
        if !granted.is_empty() && !granted.iter().any(|bucket| bucket.as_str() == bucket_id) {
            return Ok(());
        }
        match self.store.delete_account(account).await {
            Err(Error::NotFound { .. }) => Ok(()),
            deleted => deleted.map_err(|error| status::of(&error)),
        }
    }

    /// Whether the account exists; an account that this driver did not create is refused.
    pub(crate) async fn is_own_account(&self, account: &str) -> Result<bool, Status> {
        if !account.starts_with(ACCESS_PREFIX) {
            return Err(Status::invalid_argument(format!(
                "account \"{account}\" was not made by this driver; give the account id that the grant answered"
            )));
        }
        match self.find_account(account).await? {
            None => Ok(false),
            Some(found) if !made::is_access(&found) => {
                Err(Status::failed_precondition(format!("account \"{account}\": {NOT_OURS}")))
            }
            Some(_) => Ok(true),
        }
    }

    async fn find_account(&self, name: &str) -> Result<Option<Account>, Status> {
        let name = name.to_owned();
        match read(&self.store, move |store| store.account(&name)).await {
            Err(Error::NotFound { .. }) => Ok(None),
            found => found.map(Some).map_err(|error| status::of(&error)),
        }
    }

    async fn has_role(&self, account: &str) -> Result<bool, Status> {
        let of_account = account.to_owned();
        match read(&self.store, move |store| store.roles(Some(&of_account))).await {
            Err(Error::NotFound { noun: Noun::Account, .. }) => Ok(false),
            roles => roles.map(|roles| !roles.is_empty()).map_err(|error| status::of(&error)),
        }
    }

    async fn granted_buckets(&self, account: &str) -> Result<Vec<BucketName>, Status> {
        let of_account = account.to_owned();
        match read(&self.store, move |store| store.grants(None, Some(&of_account))).await {
            Err(Error::NotFound { noun: Noun::Account, .. }) => Ok(Vec::new()),
            grants => Ok(grants.map_err(|error| status::of(&error))?.into_iter().map(|grant| grant.bucket).collect()),
        }
    }
}

/// The account name of the access `name`.
pub(crate) fn account_name(name: &str) -> Result<String, Status> {
    if name.is_empty() {
        return Err(Status::invalid_argument("name is missing: give the name of the access"));
    }
    Ok(format!("{ACCESS_PREFIX}{name}"))
}

/// The error for an account of this name that the driver did not create.
fn taken(account: &str) -> Error {
    Error::Exists { noun: Noun::Account, name: account.to_owned(), why: NOT_OURS.to_owned() }
}

/// The refusal for a bucket that does not exist.
pub(crate) fn no_such_bucket(id: &str) -> Status {
    status::of(&Error::not_found(Noun::Bucket, id))
}

/// The gRPC status; never ALREADY_EXISTS, after which the sidecar expects a response that is not there.
pub(crate) fn grant_status(error: &Error) -> Status {
    match error {
        Error::Exists { .. } => Status::failed_precondition(error.to_string()),
        _ => status::of(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[test]
    fn a_grant_never_answers_already_exists() {
        let exists = Error::Exists { noun: Noun::Account, name: "cosi-ba".into(), why: "it differs".into() };
        assert_eq!(grant_status(&exists).code(), Code::FailedPrecondition);
    }

    #[test]
    fn accounts_of_accesses_are_told_by_their_prefix() {
        assert_eq!(account_name("ba-1").unwrap(), "cosi-ba-1");
        assert!(account_name("").is_err());
        // The owner account of the buckets has no such name.
        assert!(!crate::OWNER.starts_with(ACCESS_PREFIX));
    }
}
