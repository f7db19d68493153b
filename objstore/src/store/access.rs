//! The data behind access decisions: the master key that seals secrets, the access that bucket policies leave to
//! mounts, and the sessions of mounts. Those check their access again when an account, a grant or a policy changes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use super::{MountPolicies, Store};
use crate::error::Result;
use crate::grant::Master;

/// A mount's session, as far as a change of rights concerns it.
pub(crate) trait MountSession: Send + Sync {
    /// The bucket it shows.
    fn bucket(&self) -> u64;

    /// Whether its account may not even read any more.
    fn is_refused(&self) -> bool;

    /// Has its kernel drop what it has cached.
    fn drop_caches(&self);
}

/// What decides who may do what in an open store.
pub(crate) struct Access {
    /// The master key, which secrets are sealed under.
    pub master: Master,
    /// The evaluation of bucket policies for mounts.
    pub mount_policies: OnceLock<Arc<dyn MountPolicies>>,
    /// Rises whenever an account, a grant or a bucket policy changes.
    epoch: AtomicU64,
    sessions: Mutex<Vec<Weak<dyn MountSession>>>,
}

impl Access {
    /// For a store that is being opened.
    pub fn new(master: Master) -> Self {
        Self { master, mount_policies: OnceLock::new(), epoch: AtomicU64::new(1), sessions: Mutex::default() }
    }

    /// A number that rises whenever an account, a grant or a bucket policy changes.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// A session begins: it asks again after each change.
    pub fn enter(&self, session: Weak<dyn MountSession>) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(session);
    }

    fn sessions(&self) -> Vec<Arc<dyn MountSession>> {
        let mut all = self.sessions.lock();
        all.retain(|session| session.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Store {
    /// Called when an account, a grant or a policy changed: mounts check again, and those now refused drop their
    /// caches.
    pub(crate) async fn grants_changed(&self) {
        self.access.epoch.fetch_add(1, Ordering::AcqRel);
        let sessions = self.access.sessions();
        // The author of a policy determines how long evaluating it takes, so it runs off the async workers.
        let refused = move |_: &Self| -> Result<Vec<_>> {
            Ok(sessions.into_iter().filter(|session| session.is_refused()).collect())
        };
        for session in self.blocking(refused).await.unwrap_or_default() {
            session.drop_caches();
            self.core.feeds.wait_for_mounts(session.bucket()).await;
        }
    }
}
