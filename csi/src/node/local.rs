//! Volumes of the store in this process.

use std::collections::HashMap;

use objstore::store::{Bucket, Stats, Usage};
use objstore::{Error, Noun, Store};
use tonic::Status;

use super::access;
use super::record::Stage;
use super::volumes::{Figures, Opened, Report, Request, Volumes};
use crate::{disk, status};

/// The volumes of a store.
pub(super) struct Local {
    pub(super) store: Store,
    pub(super) driver_name: String,
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
}

impl Volumes for Local {
    fn open(&self, request: &Request<'_>) -> Result<Opened, Status> {
        let bucket = self.bucket(request.volume)?;
        if let Some(why) = disk::other_kind(&bucket, &self.driver_name, request.kind) {
            return Err(Status::failed_precondition(why));
        }
        let opened = access::for_stage(&self.store, &self.driver_name, &bucket, request.secrets)?;
        let read_only = opened.read_only || bucket.snapshot;
        Ok(Opened { bucket_id: bucket.id, read_only, account: opened.account, credentials: None })
    }

    fn narrow(&self, stage: &Stage, secrets: &HashMap<String, String>) -> Result<bool, Status> {
        let bucket = self.bucket(&stage.volume)?;
        let opened = access::for_publish(&self.store, &bucket, secrets)?;
        Ok(opened.is_some_and(|opened| opened.read_only))
    }

    fn again(&self, stage: &Stage) -> Result<bool, Status> {
        let bucket = self.bucket(&stage.volume)?;
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

    fn report(&self, stage: &Stage) -> Result<Report, Status> {
        let bucket = self.bucket(&stage.volume)?;
        let usage = self.store.usage(&bucket.name).map_err(status::of)?;
        let stats = self.store.stats();
        let fault = stats.poisoned.as_ref().map(|why| format!("the store refuses writes: {why}"));
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
