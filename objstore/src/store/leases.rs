//! Exclusive leases of volumes, as every other use of a bucket meets them: it has the lease taken back first
//! (`state/leases.rs`).
//!
//! - What a node has answered is in the store when [`Store::share_bucket`] returns, or its session has ended.
//! - A change by others is counted until it is committed, so no lease is granted in between.
//!
//! The record of the session says that it has a lease. It is removed behind: if the store dies before, the next opening has
//! the lease taken back once more.

use std::ops::Range;

use prost::Message;

use super::Store;
use crate::core::Core;
use crate::error::{Error, Posix, Result};
use crate::meta::{Durability, Txn};
use crate::name::BucketName;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::session::Session as Record;
use crate::session_id::SessionId;
use crate::state::{Changing, Recalled};

/// What the record of a session says of its exclusive lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionLease {
    /// The number of the grant; zero without a lease.
    pub grant: u64,
    /// The inode numbers that were set aside for the session.
    pub inos: Range<u64>,
}

/// Changes what the record of a session says of its lease.
///
/// # Errors
/// ESTALE if the session has ended.
pub(crate) fn put_lease(txn: &mut dyn Txn, own: SessionId, change: impl FnOnce(&mut SessionLease)) -> Result<()> {
    let key = key::by_id(tag::SESSION, own.get());
    let value = txn.get(&key)?.ok_or(Posix::Stale)?;
    let mut record: Record = decode("a session", &value)?;
    if let Some(remote) = &mut record.remote {
        let inos = remote.first_ino..remote.first_ino.saturating_add(remote.inos);
        let mut lease = SessionLease { grant: remote.lease, inos };
        change(&mut lease);
        let SessionLease { grant, inos } = lease;
        (remote.lease, remote.first_ino, remote.inos) = (grant, inos.start, inos.end - inos.start);
    }
    txn.put(key, record.encode_to_vec());
    Ok(())
}

impl Store {
    /// Waits until no session has the bucket alone: before others read it. Then everything that a node has answered is in
    /// the store.
    ///
    /// # Errors
    /// If the record of the bucket cannot be read. A bucket that does not exist is no error.
    pub async fn share_bucket(&self, name: &BucketName) -> Result<()> {
        if !self.core.leases.is_any() {
            return Ok(());
        }
        let Some(bucket) = self.core.bucket_known(name)? else { return Ok(()) };
        while let Some(recalled) = recall(&self.core, bucket.id) {
            self.core.feeds.behind_at(recalled.holder.mount).acknowledged().await;
            lease_returned(&self.core, bucket.id, recalled);
        }
        Ok(())
    }

    /// Begins a change of a bucket that no session makes: as [`Store::share_bucket`], and no session receives the bucket
    /// alone until the change is over.
    pub(super) async fn begin_change(&self, name: &BucketName) -> Result<Changing<'_>> {
        let changing = self.core.leases.change(name);
        self.share_bucket(name).await?;
        Ok(changing)
    }

    /// As [`Store::share_bucket`], on a thread that may wait.
    pub(crate) fn take_lease_back(&self, bucket: u64) {
        take_lease_back(&self.core, bucket);
    }
}

/// Has the lease of a bucket taken back, on a thread that may wait. When it returns, everything that a node has answered is
/// in the store, or its session has ended.
pub(crate) fn take_lease_back(core: &Core, bucket: u64) {
    while let Some(recalled) = recall(core, bucket) {
        core.feeds.behind_at(recalled.holder.mount).wait();
        lease_returned(core, bucket, recalled);
    }
}

fn recall(core: &Core, bucket: u64) -> Option<Recalled> {
    core.leases.recall(&core.feeds, bucket, core.clock.now())
}

/// The session has acknowledged the recall, or has ended.
pub(crate) fn lease_returned(core: &Core, bucket: u64, Recalled { holder, grant }: Recalled) {
    if !core.leases.returned(bucket, holder.session, grant) {
        return;
    }
    let forget = move |txn: &mut dyn Txn| {
        let is_over = |lease: &mut SessionLease| {
            if lease.grant == grant {
                lease.grant = 0;
            }
        };
        match put_lease(txn, holder.own, is_over) {
            Err(Error::Posix(Posix::Stale)) => Ok(()),
            done => done,
        }
    };
    drop(core.meta.write(Durability::Buffered, forget));
}
