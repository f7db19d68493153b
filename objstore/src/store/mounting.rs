//! Access of an account through a mount: what its grant allows, less what the bucket's policy may deny it.
//!
//! - A mount has no request whose key, address or headers a policy could be evaluated with. So a denying statement
//!   applies if it could apply to any call of the mount: one that denies reading closes the mount, one that denies
//!   writing makes it read-only.
//! - An allowing statement opens no mount: that takes a grant.
//! - Only the S3 endpoint parses policies; the store asks it through [`MountPolicies`]. Without an answer, a policy
//!   leaves no access to a mount.

use std::sync::Arc;

use super::types::{Account, Mode};
use super::{Access, Store, account, grant, settings};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::name::BucketName;

/// The evaluation of bucket policies for mounts.
pub trait MountPolicies: Send + Sync + 'static {
    /// The access that the policy of `bucket` leaves to `account` on a mount. A `namesake` has the name of a different
    /// account in the policy: denials for either of them apply.
    fn leaves(&self, policy: &str, bucket: &BucketName, account: &Account, namesake: bool) -> MountRights;
}

/// The access that a policy leaves to an account on a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountRights {
    /// Whether no statement may deny reading.
    pub reads: bool,
    /// Whether no statement may deny writing.
    pub writes: bool,
}

impl MountRights {
    /// Full access: no policy restricts it.
    pub const ALL: Self = Self { reads: true, writes: true };
    /// No access.
    pub const NONE: Self = Self { reads: false, writes: false };
}

/// The account that currently has a name.
pub(crate) struct AccountNow {
    /// Its id, which is never reused.
    pub id: u64,
    account: Account,
}

impl AccountNow {
    /// The account with this name, if it exists.
    pub(crate) fn find(core: &Core, name: &str) -> Result<Option<Self>> {
        let found = account::find(&*core.meta.snapshot(), name)?;
        Ok(found.map(|record| Self { id: record.id, account: account::shown(name, &record) }))
    }
}

/// The access of an account to a bucket through a mount: none once the bucket is deleted.
///
/// # Errors
/// [`Error::Denied`] if the policy may deny it to read.
pub(crate) fn mount_mode(core: &Core, access: &Access, now: &AccountNow, bucket: &BucketName) -> Result<Option<Mode>> {
    match mode(core, access, &now.account, bucket) {
        Err(Error::NotFound { .. }) => Ok(None),
        mode => mode,
    }
}

fn mode(core: &Core, access: &Access, account: &Account, bucket: &BucketName) -> Result<Option<Mode>> {
    let Some(mode) = grant::access(core, account.id, account.root, bucket)? else { return Ok(None) };
    let rights = rights(core, access, account, bucket)?;
    if !rights.reads {
        let why = format!(
            "the policy of bucket \"{bucket}\" denies account \"{}\" reading, or may deny it: a mount has no requests for a \
             policy to judge, so it is closed; narrow the account's grant instead of denying by policy",
            account.name
        );
        return Err(Error::Denied { why });
    }
    Ok(Some(if mode.reads() && !rights.writes { Mode::Read } else { mode }))
}

fn rights(core: &Core, access: &Access, account: &Account, bucket: &BucketName) -> Result<MountRights> {
    let read = &*core.meta.snapshot();
    let found = settings::named(core, read, bucket)?;
    let (bucket, found) = match found.taken_of {
        Some(source) => *source,
        None => (bucket.clone(), found),
    };
    let Some(policy) = &found.settings.policy else { return Ok(MountRights::ALL) };
    let namesake = settings::is_namesake(read, &found.settings, &account.name, account.id)?;
    let policies = access.mount_policies.get();
    Ok(policies.map_or(MountRights::NONE, |policies| policies.leaves(policy, &bucket, account, namesake)))
}

impl Store {
    /// Sets the evaluation of bucket policies for mounts; the first call counts.
    pub fn set_mount_policies(&self, policies: Arc<dyn MountPolicies>) {
        let _ = self.access.mount_policies.set(policies);
    }

    /// The access of an account to a bucket through a mount: that of [`Store::access`], less what the bucket's policy
    /// may deny.
    ///
    /// # Errors
    /// [`Error::Denied`] if the policy may deny it to read.
    pub fn mount_access(&self, account: &Account, bucket: &BucketName) -> Result<Option<Mode>> {
        mode(&self.core, &self.access, account, bucket)
    }
}
