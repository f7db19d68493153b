//! Creating and deleting buckets.
//!
//! - An existing bucket is the requested one if it was created with the same parameters, even if its quota was changed
//!   since.
//! - Deletion removes a bucket that this driver created with all its content, as a `deletionPolicy` of `Delete` asks;
//!   its snapshots stay. A bucket that is mounted or published to a node is not deleted.
//! - The accounts that this driver created for the bucket are deleted in the same transaction, so a refused deletion
//!   removes no access. An account with grants for other buckets stays.

use std::collections::BTreeMap;

use objstore::name::BucketName;
use objstore::store::{Bucket, CreateBucket, Creator, Outcome, RootAttributes};
use objstore::{Error, Noun};
use tonic::Status;

use crate::parameters::{BucketParameters, NAME, same_request};
use crate::rpc::read;
use crate::{Driver, OWNER, made, status};

impl Driver {
    /// Creates the bucket `name`, or finds it as created before; returns its name.
    pub(crate) async fn create_bucket(&self, name: &str, parameters: BucketParameters) -> Result<BucketName, Status> {
        let name: BucketName = name.parse().map_err(|error| status::of(&error))?;
        let mut attributes = parameters.attributes(&self.config.driver_name);
        attributes.insert(NAME.to_owned(), name.to_string());
        self.ensure_owner().await.map_err(|error| status::of(&error))?;
        let request = CreateBucket {
            name: name.clone(),
            owner: OWNER.to_owned(),
            quota_bytes: parameters.quota_bytes,
            versioning: parameters.versioning,
            source: None,
            attributes: attributes.clone(),
            root: RootAttributes::default(),
        };
        match self.store.create_bucket_with(request, parameters.preset.settings(&name)).await {
            Ok((_, Outcome::Made)) => self.rate.note(&name),
            Ok((_, Outcome::Found)) => {}
            Err(error @ Error::Exists { .. }) => self.settle(name.clone(), attributes, error).await?,
            Err(error) => return Err(status::of(&error)),
        }
        Ok(name)
    }

    /// Distinguishes a bucket that changed since it was created for this request from one created for another.
    async fn settle(&self, name: BucketName, asked: BTreeMap<String, String>, exists: Error) -> Result<(), Status> {
        let found = read(&self.store, move |store| store.bucket(&name)).await.map_err(|error| status::of(&error))?;
        match made::is_bucket(&found, &self.config.driver_name) && same_request(&found.attributes, &asked) {
            true => Ok(()),
            false => Err(status::of(&exists)),
        }
    }

    async fn ensure_owner(&self) -> objstore::Result<()> {
        match read(&self.store, |store| store.account(OWNER)).await {
            Err(Error::NotFound { .. }) => self.store.create_account_as(OWNER, false, Creator::Cosi).await.map(|_| ()),
            found => found.map(|_| ()),
        }
    }

    /// Deletes the bucket `id` with its content and the accounts created for it; an absent bucket is no error.
    pub(crate) async fn delete_bucket(&self, id: &str) -> Result<(), Status> {
        // An invalid bucket name was never created.
        let Ok(name) = id.parse::<BucketName>() else { return Ok(()) };
        let Some(bucket) = self.find_bucket(&name).await? else { return Ok(()) };
        self.refuse_foreign(&bucket)?;
        let accounts = self.accounts_of(&name).await.map_err(|error| status::of(&error))?;
        match self.store.delete_unused_bucket(&name, bucket.id, accounts).await {
            // A concurrent call deleted it.
            Err(Error::NotFound { noun: Noun::Bucket, .. }) => Ok(()),
            deleted => deleted.map_err(|error| status::of(&error)),
        }
    }

    /// The bucket, if it exists.
    pub(crate) async fn find_bucket(&self, name: &BucketName) -> Result<Option<Bucket>, Status> {
        let name = name.clone();
        match read(&self.store, move |store| store.bucket(&name)).await {
            Err(Error::NotFound { noun: Noun::Bucket, .. }) => Ok(None),
            found => found.map(Some).map_err(|error| status::of(&error)),
        }
    }

    fn refuse_foreign(&self, bucket: &Bucket) -> Result<(), Status> {
        let (name, driver) = (&bucket.name, &self.config.driver_name);
        if bucket.snapshot {
            return Err(Status::failed_precondition(format!(
                "\"{name}\" is a snapshot, not a bucket; delete it with `amphora snapshot delete`"
            )));
        }
        match made::is_bucket(bucket, driver) {
            true => Ok(()),
            false => Err(Status::failed_precondition(format!(
                "bucket \"{name}\" was not made by the driver {driver}; delete it with `amphora bucket delete`, or keep \
                 it with the deletionPolicy Retain"
            ))),
        }
    }

    /// The accounts that this driver created for the bucket and that open no other.
    async fn accounts_of(&self, bucket: &BucketName) -> objstore::Result<Vec<String>> {
        let bucket = bucket.clone();
        read(&self.store, move |store| {
            let mut accounts = Vec::new();
            for grant in store.grants(Some(&bucket), None)? {
                let account = match store.account(&grant.account) {
                    // The account was deleted meanwhile, and its grant with it.
                    Err(Error::NotFound { .. }) => continue,
                    found => found?,
                };
                let opens_others = store.grants(None, Some(&account.name))?.iter().any(|other| other.bucket != bucket);
                if made::is_access(&account) && !opens_others {
                    accounts.push(account.name);
                }
            }
            Ok(accounts)
        })
        .await
    }
}
