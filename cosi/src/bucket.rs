//! Making and deleting buckets.
//!
//! - A bucket is the same if it was asked for with the same parameters, whatever its quota is by now.
//! - Deleting removes the bucket with all that it holds, since that is what a `deletionPolicy` of `Delete` asks for,
//!   whoever made the bucket; its snapshots stay. A bucket published to a node is not deleted.
//! - The accounts that this driver made for the bucket go before the bucket: while the bucket is there, a repeated
//!   call finds them.

use std::collections::BTreeMap;

use objstore::name::BucketName;
use objstore::store::{Bucket, CreateBucket, Deletion, RootAttributes};
use objstore::{Error, Noun};
use tonic::Status;

use crate::parameters::{BucketParameters, same_request};
use crate::rpc::read;
use crate::{ACCESS_PREFIX, Driver, OWNER, status};

impl Driver {
    /// Makes the bucket `name`, or finds it made as asked before.
    pub(crate) async fn create_bucket(&self, name: &str, parameters: BucketParameters) -> Result<(), Status> {
        let name: BucketName = name.parse().map_err(|error| status::of(&error))?;
        let attributes = parameters.attributes(&self.config.driver_name);
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
            Ok(_) => Ok(()),
            Err(error @ Error::Exists { .. }) => self.settle(name, attributes, error).await,
            Err(error) => Err(status::of(&error)),
        }
    }

    /// Tells a bucket that changed since it was made for this request from one made for another.
    async fn settle(&self, name: BucketName, asked: BTreeMap<String, String>, exists: Error) -> Result<(), Status> {
        let found = read(&self.store, move |store| store.bucket(&name)).await.map_err(|error| status::of(&error))?;
        match is_ours(&found) && same_request(&found.attributes, &asked) {
            true => Ok(()),
            false => Err(status::of(&exists)),
        }
    }

    async fn ensure_owner(&self) -> objstore::Result<()> {
        match read(&self.store, |store| store.account(OWNER)).await {
            Err(Error::NotFound { .. }) => self.store.create_account(OWNER, false).await.map(|_| ()),
            found => found.map(|_| ()),
        }
    }

    /// Deletes the bucket `id` with all that it holds and the accounts made for it; an absent one is no error.
    pub(crate) async fn delete_bucket(&self, id: &str) -> Result<(), Status> {
        // What cannot be the name of a bucket was never made.
        let Ok(name) = id.parse::<BucketName>() else { return Ok(()) };
        let Some(bucket) = self.find_bucket(&name).await? else { return Ok(()) };
        self.refuse_snapshot_or_mounted(&bucket).await?;
        let deleted = match self.delete_accounts_of(&name).await {
            Ok(()) => self.store.delete_bucket(&name, Deletion::Force).await,
            Err(error) => Err(error),
        };
        match deleted {
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

    async fn refuse_snapshot_or_mounted(&self, bucket: &Bucket) -> Result<(), Status> {
        let name = bucket.name.clone();
        if bucket.snapshot {
            return Err(Status::failed_precondition(format!(
                "\"{name}\" is a snapshot, not a bucket; delete it as a snapshot"
            )));
        }
        let published = read(&self.store, move |store| match store.publications(Some(&name)) {
            Err(Error::NotFound { .. }) => Ok(Vec::new()),
            published => published,
        })
        .await;
        match published.map_err(|error| status::of(&error))?.first() {
            None => Ok(()),
            Some(publication) => Err(Status::failed_precondition(format!(
                "bucket \"{}\" is mounted as a volume on node \"{}\"; delete the pods that use it first",
                bucket.name, publication.node
            ))),
        }
    }

    /// Deletes the accounts that this driver made for the bucket, and so their keys.
    async fn delete_accounts_of(&self, bucket: &BucketName) -> objstore::Result<()> {
        let of_bucket = bucket.clone();
        let grants = read(&self.store, move |store| store.grants(Some(&of_bucket), None)).await?;
        for grant in grants.into_iter().filter(|grant| grant.account.starts_with(ACCESS_PREFIX)) {
            match self.store.delete_account(&grant.account).await {
                Err(Error::NotFound { .. }) => {}
                deleted => deleted?,
            }
        }
        Ok(())
    }
}

fn is_ours(bucket: &Bucket) -> bool {
    bucket.owner == OWNER && !bucket.snapshot
}
