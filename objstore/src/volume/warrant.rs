//! What the account behind a mount may do, asked anew whenever an account or grant changes.
//!
//! - A grant taken back ends what a mount opened with it can do: its next request is refused, and what the kernel had
//!   cached of it is dropped before the taking back is answered. The mount itself stays, also over a restart of the
//!   server, and works again once there is a grant again.
//! - A grant made narrower narrows the mount; one made wider does not widen it: it was opened as it was.

use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::session::Session;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::name::BucketName;
use crate::store::{Mode, Store, mode_of_account};

/// The right of a session.
pub(crate) struct Warrant {
    /// Whose grant opened it; nobody's is the administrator's, which nothing narrows.
    account: Option<String>,
    /// The mode, and the epoch of grants it was read in.
    known: Mutex<(u64, Option<Mode>)>,
}

impl Warrant {
    /// The right of an account, not yet asked for.
    pub fn new(account: Option<String>) -> Self {
        Self { account, known: Mutex::new((0, None)) }
    }

    /// Refuses what the account may not do now.
    pub fn check(&self, core: &Core, bucket: &BucketName, writes: bool) -> Result<()> {
        let Some(account) = &self.account else { return Ok(()) };
        let epoch = core.grants_epoch.load(Ordering::Acquire);
        let mut known = self.known.lock();
        if known.0 != epoch {
            *known = (epoch, mode_of_account(core, account, bucket)?);
        }
        match known.1 {
            Some(mode) if mode.reads() && (mode.writes() || !writes) => Ok(()),
            _ => Err(Error::Denied { why: format!("account \"{account}\" holds no grant for this on \"{bucket}\"") }),
        }
    }
}

impl Store {
    /// An account or grant changed: mounts ask anew, and those refused now forget what they had cached.
    pub(crate) async fn grants_changed(&self) {
        self.core.grants_epoch.fetch_add(1, Ordering::AcqRel);
        let sessions: Vec<_> = {
            let mut all = self.core.sessions.lock();
            all.retain(|session| session.strong_count() > 0);
            all.iter().filter_map(std::sync::Weak::upgrade).collect()
        };
        for session in sessions {
            if session.check(false).is_err() {
                session.drop_caches();
                session.core.feeds.settle(session.bucket).await;
            }
        }
    }
}

impl Session {
    /// Refuses what the account behind the mount may not do.
    pub fn check(&self, writes: bool) -> Result<()> {
        self.warrant.check(&self.core, &self.name, writes)
    }
}
