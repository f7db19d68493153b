//! Access to several buckets with one key, and buckets that this driver did not make. COSI v1alpha2.
//!
//! - An access is made in one transaction. Afterwards a request for other buckets or other modes under the same name is
//!   refused with ALREADY_EXISTS: its key is in a Secret, and must not open more than that Secret says.
//! - Revoking removes the access to the given buckets; the account and its key go with the last.

use std::collections::BTreeMap;

use objstore::name::BucketName;
use objstore::store::{Creator, DriverAccess, Mode, NewKey};
use tonic::Status;

use crate::access::{account_name, no_such_bucket};
use crate::parameters::GivenParameters;
use crate::{Driver, status};

impl Driver {
    /// Creates the access `name` to exactly these buckets, or finds it, and returns its account's key.
    pub(crate) async fn grant_several(&self, name: &str, grants: BTreeMap<BucketName, Mode>) -> Result<NewKey, Status> {
        let account = account_name(name)?;
        let asked = DriverAccess { account, creator: Creator::Cosi, grants };
        self.store.make_driver_access(asked).await.map_err(|error| status::of(&error))
    }

    /// Revokes the access of `account` to these buckets. An unknown account counts as revoked.
    pub(crate) async fn revoke_several(&self, account: &str, buckets: Vec<BucketName>) -> Result<(), Status> {
        if !self.is_own_account(account).await? {
            return Ok(());
        }
        self.store.revoke_driver_access(account, buckets).await.map_err(|error| status::of(&error))
    }

    /// The name of an existing bucket, made by this driver or not, if it has what the parameters ask for.
    pub(crate) async fn existing_bucket(&self, id: &str, given: GivenParameters) -> Result<BucketName, Status> {
        let name: BucketName = id.parse().map_err(|_| no_such_bucket(id))?;
        let found = self.find_bucket(&name).await?.filter(|found| !found.snapshot).ok_or_else(|| no_such_bucket(id))?;
        match given.differs_from(&found) {
            Some(parameter) => Err(Status::already_exists(format!(
                "bucket \"{name}\" has another {parameter} than the BucketClass asks for; change it with `amphora bucket \
                 set`, or remove the parameter"
            ))),
            None => Ok(found.name),
        }
    }
}
