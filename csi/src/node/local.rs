//! Volumes of the store in this process.
//!
//! - Calls are made on threads that may block, of a runtime that runs what they start.

use std::collections::HashMap;

use objstore::name::BucketName;
use objstore::store::{Bucket, CreateBucket, Creator, Modification, Stats, Usage};
use objstore::units::parse_size;
use objstore::{Error, Noun, Store};
use tokio::runtime::Handle;
use tonic::{Code, Status};

use super::record::Stage;
use super::volumes::{Figures, Opened, Report, Request, Volumes};
use crate::controller::Parameters;
use crate::{OWNER, PROVISIONER, access, disk, filling, health, is_provisioned, status};

/// The bucket attribute of an inline volume: the node that made it.
const INLINE: &str = "csi.inline";

/// The volumes of a store.
pub(super) struct Local {
    pub(super) store: Store,
    pub(super) driver_name: String,
    pub(super) node_id: String,
}

impl Local {
    /// The volume with this id. An id that is not a valid bucket name cannot exist.
    fn bucket(&self, id: &str) -> Result<Bucket, Status> {
        let name = id.parse().map_err(|_| status::no_such_volume(id))?;
        self.store.bucket(&name).map_err(|error| match error {
            Error::NotFound { .. } => status::no_such_volume(id),
            error => status::of(error),
        })
    }

    /// The bucket of an inline volume with these attributes.
    fn inline_bucket(
        &self,
        name: &BucketName,
        attributes: &HashMap<String, String>,
    ) -> Result<(CreateBucket, Modification), Status> {
        let mut given = attributes.clone();
        let size = given.remove("size").ok_or_else(|| {
            Status::invalid_argument("an inline volume needs the attribute size (such as 1Gi), or else bucket")
        })?;
        let quota = parse_size(&size).ok().filter(|bytes| *bytes > 0).ok_or_else(|| {
            status::of(Error::invalid("size", &size, "use a number of bytes above 0, such as 512Mi or 1Gi"))
        })?;
        let parameters = Parameters::of_inline(&given).map_err(status::of)?;
        let free_bytes = self.store.stats().free_bytes;
        if quota > free_bytes {
            return Err(Status::resource_exhausted(format!(
                "an inline volume of {quota} bytes does not fit: the store's disk has {free_bytes} bytes free"
            )));
        }
        let mut attributes = parameters.attributes();
        attributes.insert(PROVISIONER.to_owned(), self.driver_name.clone());
        attributes.insert(INLINE.to_owned(), self.node_id.clone());
        let request = CreateBucket {
            name: name.clone(),
            owner: OWNER.to_owned(),
            quota_bytes: Some(quota),
            versioning: parameters.versioning,
            source: None,
            attributes,
            root: parameters.root,
        };
        Ok((request, parameters.initial))
    }
}

impl Volumes for Local {
    fn open(&self, request: &Request<'_>) -> Result<Opened, Status> {
        let bucket = self.bucket(request.volume)?;
        if let Some(why) = disk::other_kind(&bucket, &self.driver_name, request.kind) {
            return Err(Status::failed_precondition(why));
        }
        filling::refuse(&bucket)?;
        let opened = access::for_stage(&self.store, &self.driver_name, &bucket, request.secrets)?;
        let read_only = opened.read_only || bucket.snapshot;
        Ok(Opened { bucket_id: bucket.id, read_only, account: opened.account, credentials: None })
    }

    fn find(&self, volume: &str) -> Result<(), Status> {
        self.bucket(volume).map(drop)
    }

    fn narrow(&self, stage: &Stage, secrets: &HashMap<String, String>) -> Result<bool, Status> {
        let bucket = self.bucket(&stage.volume)?;
        let opened = access::for_publish(&self.store, &bucket, secrets)?;
        Ok(opened.is_some_and(|opened| opened.read_only))
    }

    fn again(&self, stage: &Stage) -> Result<bool, Status> {
        let bucket = self.bucket(stage.bucket())?;
        if bucket.id != stage.bucket_id {
            return Err(status::of(Error::not_found(Noun::Bucket, &stage.volume)));
        }
        let Some(name) = &stage.options.account else { return Ok(false) };
        let account = self.store.account(name).map_err(status::of)?;
        if stage.options.account_id.is_some_and(|id| id != account.id) {
            return Err(status::of(Error::not_found(Noun::Account, name)));
        }
        access::read_only(&self.store, &account, &bucket)
    }

    fn make_inline(&self, name: &BucketName, attributes: &HashMap<String, String>) -> Result<Opened, Status> {
        let (request, initial) = self.inline_bucket(name, attributes)?;
        let made = Handle::current().block_on(async {
            match self.store.account(OWNER) {
                Err(Error::NotFound { .. }) => drop(self.store.create_account_as(OWNER, false, Creator::Csi).await?),
                found => drop(found?),
            }
            self.store.create_bucket_modified(request, initial).await
        });
        let (bucket, _) = made.map_err(status::of)?;
        Ok(Opened { bucket_id: bucket.id, ..Opened::default() })
    }

    fn remove_inline(&self, name: &str) -> Result<(), Status> {
        let bucket = match self.bucket(name) {
            Err(status) if status.code() == Code::NotFound => return Ok(()),
            found => found?,
        };
        let is_ours =
            is_provisioned(&bucket, &self.driver_name) && bucket.attributes.get(INLINE) == Some(&self.node_id);
        if !is_ours {
            return Ok(());
        }
        match Handle::current().block_on(self.store.delete_unused_bucket(&bucket.name, bucket.id, Vec::new())) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(status::of(error)),
        }
    }

    fn open_named(&self, bucket: &BucketName, secrets: &HashMap<String, String>) -> Result<Opened, Status> {
        let bucket = self.bucket(bucket.as_str())?;
        // Without a key, the author of any pod could open any volume.
        let opened = access::for_publish(&self.store, &bucket, secrets)?.ok_or_else(|| {
            Status::permission_denied(format!(
                "an inline volume of bucket \"{}\" needs a nodePublishSecretRef with an S3 key of the bucket",
                bucket.name
            ))
        })?;
        let read_only = opened.read_only || bucket.snapshot;
        Ok(Opened { bucket_id: bucket.id, read_only, account: opened.account, credentials: None })
    }

    fn report(&self, stage: &Stage) -> Result<Report, Status> {
        let bucket = self.bucket(stage.bucket())?;
        let usage = self.store.usage(&bucket.name).map_err(status::of)?;
        let stats = self.store.stats();
        let fault = health::fault(&bucket, &usage, &stats);
        Ok(Report { usage: figures(&usage, &stats).usage(), fault })
    }

    fn size(&self, volume: &str) -> Result<Option<u64>, Status> {
        Ok(self.bucket(volume)?.quota_bytes)
    }
}

fn figures(usage: &Usage, stats: &Stats) -> Figures {
    let used_bytes = usage.bytes.saturating_add(usage.upload_bytes);
    let left = usage.limit_bytes.map_or(stats.free_bytes, |limit| limit.saturating_sub(used_bytes));
    let free_bytes = left.min(stats.free_bytes);
    let total_bytes = usage.limit_bytes.unwrap_or(used_bytes.saturating_add(free_bytes));
    Figures { total_bytes, used_bytes, free_bytes, inodes: usage.inodes, disk_free_bytes: stats.free_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(limit_bytes: Option<u64>, used: u64, free_bytes: u64) -> (i64, i64, i64) {
        let usage = Usage { bytes: used, upload_bytes: 5, inodes: 3, limit_bytes, ..Usage::default() };
        let usage = figures(&usage, &Stats { free_bytes, ..Default::default() }).usage();
        let [bytes, inodes] = &usage[..] else { panic!("{usage:?}") };
        assert_eq!(inodes.total, inodes.used + inodes.available);
        (bytes.total, bytes.used, bytes.available)
    }

    #[test]
    fn usage_follows_the_quota_or_else_the_disk() {
        assert_eq!(bytes(Some(100), 10, 1000), (100, 15, 85));
        assert_eq!(bytes(Some(100), 10, 50), (100, 15, 50), "the disk may have less than the quota allows");
        assert_eq!(bytes(Some(100), 200, 1000), (100, 205, 0), "a quota may be lowered below what is used");
        assert_eq!(bytes(None, 10, 1000), (1015, 15, 1000));
    }
}
