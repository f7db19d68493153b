//! The sessions of mounts on other machines that this process serves: the table, and their end.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use node_session::SessionId;
use parking_lot::{Mutex, MutexGuard};

use super::Store;
use super::session_records::{self, Recorded};
use crate::error::Result;
use crate::meta::{Durability, Read};

/// A session that is served, as far as its end concerns it.
pub(crate) trait ServedSession: Any + Send + Sync {
    /// The bucket or snapshot it shows.
    fn bucket(&self) -> u64;

    /// Whether it has a record: if not, it has ended.
    fn is_recorded(&self, read: &dyn Read) -> Result<bool>;

    /// Refuses further calls, waits for those under way, and gives back what the session holds in memory. Its records
    /// are removed before.
    fn fence(&self);

    /// The session itself.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// The sessions that are served: all that have a record, and those that ended and are not fenced yet.
#[derive(Default)]
pub(crate) struct RemoteSessions {
    served: Mutex<BTreeMap<SessionId, Arc<dyn ServedSession>>>,
    /// Held from before a session is recorded until it is among the served.
    beginning: Mutex<()>,
}

impl RemoteSessions {
    /// The session with this id.
    pub fn find(&self, id: SessionId) -> Option<Arc<dyn ServedSession>> {
        self.served.lock().get(&id).cloned()
    }

    /// All sessions.
    pub fn all(&self) -> Vec<Arc<dyn ServedSession>> {
        self.served.lock().values().cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.served.lock().len()
    }

    /// Adds a session.
    pub fn add(&self, id: SessionId, session: Arc<dyn ServedSession>) {
        self.served.lock().insert(id, session);
    }

    /// Lets one thread begin sessions: two openings of one id begin one session.
    pub fn begin(&self) -> MutexGuard<'_, ()> {
        self.beginning.lock()
    }
}

impl Store {
    /// Ends a session of another machine: its lease is over, its node closed it, or an administrator ends it. When it
    /// returns, the end is on disk, and nothing of the session is done any more. A session that is not there is no error.
    ///
    /// # Errors
    /// If the records cannot be read or written.
    pub fn end_remote(&self, id: SessionId) -> Result<()> {
        let core = self.core.clone();
        let ended = self.core.meta.write(Durability::Synced, move |txn| {
            let found = session_records::remote_sessions(&*txn)?.into_iter().find(|session| session.id == id);
            let Some(Recorded { own, .. }) = found else { return Ok(()) };
            session_records::end_remote(txn, (id, own), core.clock.now())
        });
        ended.wait()?;
        self.fence_ended(None)
    }

    /// Fences the sessions of a bucket, or of all, that have no record any more.
    pub(super) fn fence_ended(&self, bucket: Option<u64>) -> Result<()> {
        // Each session that was recorded before is among the served after this.
        drop(self.remote.begin());
        let served: Vec<_> = self.remote.served.lock().iter().map(|(id, session)| (*id, session.clone())).collect();
        let snapshot = self.core.meta.snapshot();
        for (id, session) in served {
            if bucket.is_none_or(|bucket| session.bucket() == bucket) && !session.is_recorded(&*snapshot)? {
                session.fence();
                self.remote.served.lock().remove(&id);
            }
        }
        Ok(())
    }
}
