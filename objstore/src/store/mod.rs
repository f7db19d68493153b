//! The store's handle for S3, COSI, CSI and administration: cheap to clone, plain values in and out.
//!
//! - Methods that are not async may block on the disk: call them from plain threads or `spawn_blocking`.
//! - An async method answers when its change is on disk and every mount of the bucket has dropped its cached old state.

mod access;
pub(crate) mod account;
mod background;
mod bucket;
mod copy;
mod count;
mod driver_access;
mod expiration;
mod fill;
mod folder;
mod grant;
mod group_snapshot;
pub(crate) mod hidden;
pub(crate) mod key;
mod leases;
mod listing;
mod marks;
pub(crate) mod master;
mod modify;
mod mounting;
mod object;
mod options;
mod provisioned;
mod publication;
mod remote;
mod role;
mod role_session;
mod session_records;
pub(crate) mod settings;
mod snapshot;
mod stats;
mod ticket;
pub mod types;
mod upload;
pub(crate) mod volume_authority;

pub(crate) use access::{Access, MountSession};
pub use account::ROOT_ACCOUNT;
pub(crate) use account::{deleted_names, find as find_account};
pub(crate) use background::{Background, Step};
pub(crate) use bucket::usage;
pub(crate) use count::{ACCOUNTS_MAX, GRANTS_MAX, check_buckets};
pub use driver_access::DriverAccess;
pub use folder::check as check_folder;
pub use group_snapshot::GROUP_BUCKETS_MAX;
pub(crate) use leases::{SessionLease, lease_returned, put_lease, take_lease_back};
pub(crate) use mounting::{AccountNow, mount_mode};
pub use mounting::{MountPolicies, MountRights};
pub use options::Options;
pub(crate) use remote::{RemoteSessions, ServedSession};
pub use role_session::{ROLE_SESSION_SECONDS, SESSION_KEY_PREFIX};
pub(crate) use session_records::{ENDED_KEPT, Recorded, forget_session, refuse_ended, remote_sessions};
pub use settings::BucketSettings;
pub use stats::{BucketUsage, Stats};
pub use ticket::MountTicket;
pub(crate) use ticket::{Published, published};
pub use types::*;
pub(crate) use upload::COMPLETED_KEPT;
pub(crate) use upload::abort as abort_upload;
pub use upload::{PART_BYTES_MIN, PARTS_MAX};
pub use volume_authority::VolumeAuthority;

use std::sync::Arc;

use crate::core::Core;
use crate::error::{Error, Result};
pub(crate) use crate::header;
use crate::meta::{Durability, Txn};
use crate::name::BucketName;
pub(crate) use crate::scan::all;
use crate::tree::Tx;

pub use crate::content::{RANGE_BLOCK_BYTES, Reader};

/// A handle to an open store; clones refer to the same store.
#[derive(Clone)]
pub struct Store {
    pub(crate) core: Arc<Core>,
    pub(crate) access: Arc<Access>,
    pub(crate) remote: Arc<RemoteSessions>,
    pub(crate) background: Arc<Background>,
}

impl Store {
    /// Called before [`Store::close`]: the ownership of a store that other servers could take over stays with this
    /// process, whose next program continues it.
    pub fn leave(&self) {
        self.core.meta.leave();
    }

    /// Saves what is behind while the store still serves, so that [`Store::close`] has little left to do.
    ///
    /// # Errors
    /// Errors of the disk, the bucket of the content, or the log. The store serves on.
    pub fn save_everything(&self) -> Result<()> {
        self.core.settle_everything()?;
        self.core.blobs.sync_dirty()?;
        self.core.meta.sync().wait()
    }

    /// Syncs everything and stops. Reading is possible until the last handle is dropped.
    pub fn close(&self) {
        self.background.stop();
        self.core.locks.close();
        if let Err(error) = self.core.settle_everything() {
            tracing::error!(%error, "cannot record the attributes of dirty files; the next start records them");
        }
        if let Err(error) = self.core.blobs.sync_dirty() {
            tracing::error!(%error, "cannot sync content; writes of the last seconds may not be on disk");
        }
        self.core.meta.close();
    }

    /// Changes one bucket. When it returns, the change is on disk and mounts have dropped their caches of the old
    /// state.
    async fn change_bucket<T: Send + 'static>(
        &self,
        name: &BucketName,
        change: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let _changing = self.begin_change(name).await?;
        let (core, name) = (self.core.clone(), name.clone());
        let written = self.core.meta.write_awaited(Durability::Synced, move |txn| {
            let mut tx = Tx::begin(txn, &core, &name, 0)?;
            let value = change(&mut tx)?;
            let bucket = tx.bucket.id;
            tx.finish()?;
            Ok((value, bucket))
        });
        let (value, bucket) = written.await?;
        self.wait_for_mounts(bucket).await;
        Ok(value)
    }

    /// After a change of a bucket: waits until its mounts have dropped their caches, and until writes in place to what
    /// became a version have ended.
    async fn wait_for_mounts(&self, bucket: u64) {
        if self.core.writers.has_writes_to_wait_for(bucket) {
            let core = self.core.clone();
            let waited = tokio::task::spawn_blocking(move || core.wait_for_writes(bucket)).await;
            drop(waited);
        }
        self.core.feeds.wait_for_mounts(bucket).await;
    }

    /// Changes records of the store itself; on disk when it returns.
    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut dyn Txn, &Arc<Core>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let core = self.core.clone();
        self.core.meta.write_awaited(Durability::Synced, move |txn| change(txn, &core)).await
    }

    /// Runs blocking work off the async workers.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let store = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        done.unwrap_or_else(|error| Err(Error::Engine { why: format!("an operation stopped: {error}") }))
    }
}
