//! Making and deleting buckets.
//!
//! - A bucket is the same if it was asked for with the same parameters, whatever its quota is by now.
//! - Deleting removes a bucket that this driver made with all that it holds, since that is what a `deletionPolicy` of
//!   `Delete` asks for; its snapshots stay. A bucket that is mounted or published to a node is not deleted.
//! - The accounts that this driver made for the bucket go in the same transaction: a deletion that is refused takes no
//!   access away. An account that has grants of other buckets stays.

use std::collections::BTreeMap;

use objstore::name::BucketName;
use objstore::store::{Bucket, CreateBucket, Creator, Outcome, RootAttributes};
use objstore::{Error, Noun};
use tonic::Status;

use crate::parameters::{BucketParameters, NAME, same_request};
use crate::rpc::read;
use crate::{Driver, OWNER, made, status};

impl Driver {
    /// Makes the bucket `name`, or finds it made as asked before.
    pub(crate) async fn create_bucket(&self, name: &str, parameters: BucketParameters) -> Result<(), Status> {
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
        match self.store.create_bucket(request).await {
            Ok((_, Outcome::Made)) => self.pace.note(&name),
            Ok((_, Outcome::Found)) => {}
            Err(error @ Error::Exists { .. }) => self.settle(name.clone(), attributes, error).await?,
            Err(error) => return Err(status::of(&error)),
        }
        self.pace.wait(&name).await;
        Ok(())
    }

    /// Tells a bucket that changed since it was made for this request from one made for another.
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

    /// Deletes the bucket `id` with all that it holds and the accounts made for it; an absent one is no error.
    pub(crate) async fn delete_bucket(&self, id: &str) -> Result<(), Status> {
        // What cannot be the name of a bucket was never made.
        let Ok(name) = id.parse::<BucketName>() else { return Ok(()) };
        let Some(bucket) = self.find_bucket(&name).await? else { return Ok(()) };
        self.refuse_foreign(&bucket)?;
        let accounts = self.accounts_of(&name).await.map_err(|error| status::of(&error))?;
        match self.store.delete_unused_bucket(&name, bucket.id, accounts).await {
            // Another call was faster.
            Err(Error::NotFound { noun: Noun::Bucket, .. }) => Ok(()),
            deleted => deleted.map_err(|error| status::of(&error)),
        }
    }

    /// The bucket, if there is one.
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

    /// The accounts that this driver made for the bucket and that open no other.
    async fn accounts_of(&self, bucket: &BucketName) -> objstore::Result<Vec<String>> {
        let bucket = bucket.clone();
        read(&self.store, move |store| {
            let mut accounts = Vec::new();
            for grant in store.grants(Some(&bucket), None)? {
                let account = match store.account(&grant.account) {
                    // It went meanwhile, and its grant with it.
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
