//! The sessions of this store that outlive the server (see `volume/persistent.rs`).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::appends::Appends;
use crate::error::{Error, Result};
use crate::feed::Feeds;
use crate::session_id::{SessionId, next_mount};

/// The persistent sessions of this store.
#[derive(Default)]
pub(crate) struct PersistentSessions {
    known: Mutex<HashMap<SessionId, KnownSession>>,
    /// Sessions that were to continue but cannot, because a record that they need is damaged; each with the reason.
    damaged: Mutex<HashMap<SessionId, String>>,
}

struct KnownSession {
    bucket: u64,
    mount: u64,
    /// Whether a volume serves it.
    served: bool,
    appends: Arc<Appends>,
}

/// The facts about a session that its volume needs.
pub(crate) struct Served {
    pub id: SessionId,
    pub mount: u64,
    pub appends: Arc<Appends>,
    /// The id of the account whose grant opened it; zero if unknown.
    pub account: u64,
    /// Whether its mount is on another machine.
    pub remote: bool,
}

impl PersistentSessions {
    /// The session of a mount.
    pub fn of_mount(&self, mount: u64) -> Option<SessionId> {
        let sessions = self.known.lock();
        sessions.iter().find(|(_, known)| known.mount == mount).map(|(id, _)| *id)
    }

    /// Registers a session when a store opens. Its kernel may hold inodes that are not counted here. Returns its mount
    /// number.
    pub fn inherit(&self, id: SessionId, bucket: u64, appends: Appends) -> u64 {
        let mount = next_mount();
        self.known.lock().insert(id, KnownSession { bucket, mount, served: false, appends: Arc::new(appends) });
        mount
    }

    /// The sessions of a bucket, with their mount numbers.
    pub fn of_bucket(&self, bucket: u64) -> Vec<(SessionId, u64)> {
        let sessions = self.known.lock();
        sessions.iter().filter(|(_, known)| known.bucket == bucket).map(|(id, known)| (*id, known.mount)).collect()
    }

    /// Records that a session which was to continue cannot be served. All others can.
    pub fn set_damaged(&self, id: SessionId, error: &Error) {
        self.damaged.lock().insert(id, error.to_string());
    }

    /// Refuses a session that is damaged.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with what is wrong.
    pub fn check_damage(&self, id: SessionId) -> Result<()> {
        let why = self.damaged.lock().get(&id).cloned();
        let expected = "records that can be read (unmount this mount and mount it again)";
        why.map_or(Ok(()), |why| Err(Error::corrupt("the session of this mount", expected, why)))
    }

    /// Lets a volume serve a session.
    ///
    /// # Errors
    /// [`Error::Invalid`] for one that is served already, or that was not to go on.
    pub fn serve(&self, feeds: &Feeds, id: SessionId, account: u64) -> Result<Served> {
        let mut sessions = self.known.lock();
        match sessions.get_mut(&id) {
            Some(known) if feeds.is_lost(known.mount) => Err(refused(id, "too much changed while no server ran")),
            Some(known) if !known.served => {
                known.served = true;
                Ok(Served { id, mount: known.mount, appends: known.appends.clone(), account, remote: false })
            }
            Some(_) => Err(refused(id, "another volume serves it already")),
            None => Err(refused(id, "it is not among the sessions that the server continued when it opened the store")),
        }
    }

    /// Records that a session is no longer served but continues.
    pub fn leave(&self, id: SessionId) {
        if let Some(known) = self.known.lock().get_mut(&id) {
            known.served = false;
        }
    }

    /// The bucket and the mount of a session, and whether a volume serves it.
    pub fn find(&self, id: SessionId) -> Option<(u64, u64, bool)> {
        self.known.lock().get(&id).map(|known| (known.bucket, known.mount, known.served))
    }

    /// Knows a session that begins and is served.
    pub fn begin(&self, id: SessionId, bucket: u64, mount: u64, appends: Arc<Appends>) {
        self.known.lock().insert(id, KnownSession { bucket, mount, served: true, appends });
    }

    /// Forgets a session that ended, with what it noted of its appends.
    pub fn end(&self, id: SessionId) {
        let known = self.known.lock().remove(&id);
        if let Some(known) = known {
            known.appends.remove();
        }
    }
}

/// The refusal of a session.
pub(crate) fn refused(id: SessionId, why: &str) -> Error {
    Error::invalid("session", id.get().to_string(), why)
}
