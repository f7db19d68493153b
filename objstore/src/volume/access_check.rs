//! The access check of a mount: what the account behind it may do, evaluated again whenever an account, a grant or a
//! bucket policy changes.
//!
//! - Revoking a grant ends the access of a mount opened with it: its next request is refused, and what the kernel had
//!   cached is dropped before the revocation is answered. The mount itself stays, also across a restart of the server,
//!   and works again once there is a grant again.
//! - A narrower grant narrows the mount; a wider one does not widen it beyond what it was opened with. A policy's
//!   denial narrows it in the same way (`store/mounting.rs`).
//! - The account is the one that opened the mount, not a later account of the same name.

use parking_lot::Mutex;

use super::session::Session;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::name::BucketName;
use crate::store::{Access, AccountNow, Mode, MountSession, mount_mode};

/// The access check of a session.
pub(crate) struct AccessCheck {
    /// The account whose grant opened it; `None` for the administrator, whose access is not restricted.
    account: Option<String>,
    known: Mutex<CachedGrant>,
}

/// The cached facts about the account.
#[derive(Default)]
struct CachedGrant {
    /// The account's id; zero until it was looked up.
    id: u64,
    /// The epoch of grants in which the rest was read.
    epoch: u64,
    /// The mode of its access, or why it has none.
    mode: Option<std::result::Result<Mode, String>>,
}

impl AccessCheck {
    /// The access check of an account, not evaluated yet.
    pub fn new(account: Option<String>) -> Self {
        Self { account, known: Mutex::default() }
    }

    /// The id of the account, once looked up; zero without an account.
    pub fn account_id(&self) -> u64 {
        self.known.lock().id
    }

    /// Binds the check to the account with this id; with zero, to the account that has the name when it is looked up.
    pub fn hold_to(&self, id: u64) {
        self.known.lock().id = id;
    }

    /// Refuses access that the account does not have now.
    pub fn check(&self, (core, access): (&Core, &Access), bucket: &BucketName, writes: bool) -> Result<()> {
        let Some(account) = &self.account else { return Ok(()) };
        let epoch = access.epoch();
        let mut known = self.known.lock();
        if known.epoch != epoch || known.mode.is_none() {
            known.mode = Some(known.ask((core, access), account, bucket)?);
            known.epoch = epoch;
        }
        match &known.mode {
            Some(Ok(mode)) if mode.reads() && (mode.writes() || !writes) => Ok(()),
            Some(Err(why)) => Err(Error::Denied { why: why.clone() }),
            _ => Err(Error::Denied { why: format!("account \"{account}\" may not do this on \"{bucket}\"") }),
        }
    }
}

impl CachedGrant {
    /// The account's current access, or why it has none.
    fn ask(
        &mut self,
        (core, access): (&Core, &Access),
        name: &str,
        bucket: &BucketName,
    ) -> Result<std::result::Result<Mode, String>> {
        let now = AccountNow::find(core, name)?.filter(|now| self.id == 0 || self.id == now.id);
        let Some(now) = now else { return Ok(Err(format!("account \"{name}\" was deleted"))) };
        self.id = now.id;
        match mount_mode(core, access, &now, bucket) {
            Ok(Some(mode)) => Ok(Ok(mode)),
            Ok(None) => Ok(Err(format!("account \"{name}\" holds no grant on \"{bucket}\""))),
            Err(Error::Denied { why }) => Ok(Err(why)),
            Err(error) => Err(error),
        }
    }
}

impl Session {
    /// Refuses access that the account behind the mount does not have.
    pub fn check(&self, writes: bool) -> Result<()> {
        self.access_check.check((&self.core, &self.access), &self.name, writes)
    }
}

impl MountSession for Session {
    fn bucket(&self) -> u64 {
        self.bucket
    }

    fn is_refused(&self) -> bool {
        self.check(false).is_err()
    }

    fn drop_caches(&self) {
        Self::drop_caches(self);
    }
}
