//! Persistent sessions, which outlive the server: begin, detach, takeover and end.
//!
//! - A persistent session has an id and a record with its bucket and root directory. So a server that takes it over
//!   serves the same inodes, even if names changed meanwhile; if the bucket is gone, every call is ESTALE, as before.
//! - It ends with [`Volume::end`], or when a store opens and is not told that it continues. Dropping a [`Volume`]
//!   leaves the session: the kernel mount continues, with everything it holds.
//! - While it is not served, its invalidations are recorded as undelivered (`owed.rs`), and S3 writes wait a moment for
//!   it, as for a mount that is stuck.
//!
//! Ending removes the record and the replay records in one transaction, after the orphans that no other session holds
//! were queued for deletion: a crash in between leaves a session that the next opening ends.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use prost::Message;

use super::replay::Appends;
use super::session::{Place, Session, Volume};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::feed::Life;
use crate::meta::{Durability, Read, Txn};
use crate::name::BucketName;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::session::Session as Record;
use crate::store::Store;

/// The id of a mount's session, which stays the same across restarts of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(NonZeroU64);

impl SessionId {
    /// The session id for a number; `None` for zero.
    pub fn new(id: u64) -> Option<Self> {
        NonZeroU64::new(id).map(Self)
    }

    /// The id as a number.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

/// The persistent sessions of this store.
#[derive(Default)]
pub(crate) struct Lasting {
    known: Mutex<HashMap<SessionId, Known>>,
    /// Those that were to go on and cannot, because a record that they need is damaged; and why.
    damaged: Mutex<HashMap<SessionId, String>>,
}

struct Known {
    bucket: u64,
    mount: u64,
    /// Whether a volume serves it.
    served: bool,
    appends: Arc<Appends>,
}

/// The facts about a session that its volume needs.
pub(super) struct Served {
    pub id: SessionId,
    pub mount: u64,
    pub appends: Arc<Appends>,
    /// The id of the account whose grant opened it; zero if unknown.
    pub account: u64,
}

static NEXT_MOUNT: AtomicU64 = AtomicU64::new(1);

/// A number that identifies a mount.
pub(super) fn next_mount() -> u64 {
    NEXT_MOUNT.fetch_add(1, Ordering::Relaxed)
}

impl Lasting {
    /// The session of a mount.
    pub fn of_mount(&self, mount: u64) -> Option<SessionId> {
        let sessions = self.known.lock();
        sessions.iter().find(|(_, known)| known.mount == mount).map(|(id, _)| *id)
    }

    /// Registers a session when a store opens. Its kernel may hold inodes that are not counted here. Returns its mount
    /// number.
    pub fn inherit(&self, core: &Core, id: SessionId, bucket: u64, below: u64, appends: Appends) -> u64 {
        let mount = next_mount();
        core.pins.inherit(bucket, id, below);
        core.feeds.open(bucket, mount, Life::Lasting);
        self.known.lock().insert(id, Known { bucket, mount, served: false, appends: Arc::new(appends) });
        mount
    }

    /// The sessions of a bucket, with their mount numbers.
    pub fn of_bucket(&self, bucket: u64) -> Vec<(SessionId, u64)> {
        let sessions = self.known.lock();
        sessions.iter().filter(|(_, known)| known.bucket == bucket).map(|(id, known)| (*id, known.mount)).collect()
    }

    /// A session that was to go on cannot be served, and all others can.
    pub fn set_damaged(&self, id: SessionId, error: &Error) {
        self.damaged.lock().insert(id, error.to_string());
    }

    /// Refuses a session that is damaged.
    fn check_damage(&self, id: SessionId) -> Result<()> {
        let why = self.damaged.lock().get(&id).cloned();
        let mend = "records that can be read (unmount this mount and mount it again)";
        why.map_or(Ok(()), |why| Err(Error::corrupt("the session of this mount", mend, why)))
    }

    fn serve(&self, core: &Core, id: SessionId, account: u64) -> Result<Served> {
        let mut sessions = self.known.lock();
        match sessions.get_mut(&id) {
            Some(known) if core.feeds.is_lost(known.mount) => Err(refused(id, "too much changed while no server ran")),
            Some(known) if !known.served => {
                known.served = true;
                Ok(Served { id, mount: known.mount, appends: known.appends.clone(), account })
            }
            Some(_) => Err(refused(id, "another volume serves it already")),
            None => Err(refused(id, "it is not one of those that were to go on when the store was opened")),
        }
    }

    /// Records that a session is no longer served but continues.
    pub(super) fn leave(&self, id: SessionId) {
        if let Some(known) = self.known.lock().get_mut(&id) {
            known.served = false;
        }
    }
}

fn refused(id: SessionId, why: &str) -> Error {
    Error::invalid("session", id.get().to_string(), why)
}

impl Store {
    /// An unused id for a new session.
    pub fn new_session(&self) -> SessionId {
        loop {
            let mut bytes = [0; 8];
            self.core.random.fill(&mut bytes);
            if let Some(id) = SessionId::new(u64::from_ne_bytes(bytes)) {
                return id;
            }
        }
    }

    /// Waits until all mounts have applied their invalidations so far, for a server that has just taken over mounts
    /// with undelivered ones. Waits at most two seconds, because a mount may not answer.
    pub async fn mounts_told(&self) {
        self.core.feeds.settle_all().await;
    }

    /// Ends a session that was to continue and that no volume serves, because its mount is gone.
    ///
    /// # Errors
    /// If a volume serves it: use [`Volume::end`].
    pub fn end_session(&self, id: SessionId) -> Result<()> {
        let known = self.core.lasting.known.lock().get(&id).map(|known| (known.bucket, known.mount, known.served));
        match known {
            Some((_, _, true)) => Err(refused(id, "a volume serves it")),
            Some((bucket, mount, false)) => {
                let name = crate::store::bucket_name(&*self.core.meta.snapshot(), bucket)?;
                end(&self.core, id, bucket, name.as_ref(), mount);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// Begins a session.
pub(super) fn begin(id: SessionId, session: &Session) -> Result<Served> {
    let Session { core, .. } = session;
    let Session { bucket, family, frozen, root, mount, .. } = *session;
    let account = session.warrant.account_id();
    let record = Record { bucket, name: session.name.to_string(), family, frozen, root, account };
    let written = core.meta.write(Durability::Buffered, move |txn| {
        let key = key::by_id(tag::SESSION, id.get());
        if txn.get(&key)?.is_some() {
            return Err(refused(id, "there is one with this id already"));
        }
        txn.put(key, record.encode_to_vec());
        Ok(())
    });
    written.wait()?;
    let appends = Arc::new(Appends::new(core.disk.clone(), &core.dir, id));
    let known = Known { bucket, mount, served: true, appends: appends.clone() };
    core.lasting.known.lock().insert(id, known);
    Ok(Served { id, mount, appends, account })
}

/// Takes over a session of an earlier server.
pub(super) fn take_over(core: &Core, read: &dyn Read, id: SessionId, name: &BucketName) -> Result<(Place, Served)> {
    core.lasting.check_damage(id)?;
    let value = read.get(&key::by_id(tag::SESSION, id.get()))?;
    let value = value.ok_or_else(|| refused(id, "the store has no record of it"))?;
    let record: Record = decode("a session", &value)?;
    if record.name != name.as_str() {
        return Err(refused(id, "it is of another bucket"));
    }
    let Record { bucket, family, frozen, root, account, .. } = record;
    Ok((Place { bucket, family, frozen, root }, core.lasting.serve(core, id, account)?))
}

/// Ends a session: inodes that only it held are collected, its records removed. It does not wait; opening the store
/// does what remains.
pub(super) fn end(core: &Arc<Core>, id: SessionId, bucket: u64, name: Option<&BucketName>, mount: u64) {
    core.feeds.remove(mount);
    let freed = core.pins.end(bucket, id);
    if let Some(name) = name {
        freed.into_iter().for_each(|ino| super::holds::collect(core, name, bucket, mount, ino));
    }
    let known = core.lasting.known.lock().remove(&id);
    if let Some(known) = known {
        known.appends.remove();
    }
    let last = core.lasting.of_bucket(bucket).is_empty();
    let done = core.meta.write(Durability::Buffered, move |txn| {
        if last {
            forget_owed(txn, bucket)?;
        }
        forget(txn, id)
    });
    drop(done);
}

/// Removes the records of a session.
pub(crate) fn forget(txn: &mut dyn Txn, id: SessionId) -> Result<()> {
    for pair in crate::store::all(&*txn, &key::by_id(tag::REPLAY, id.get()))? {
        txn.delete(pair.key.to_vec());
    }
    txn.delete(key::by_id(tag::SESSION, id.get()));
    Ok(())
}

/// Removes the undelivered invalidations of a bucket without persistent sessions.
pub(crate) fn forget_owed(txn: &mut dyn Txn, bucket: u64) -> Result<()> {
    for pair in crate::store::all(&*txn, &key::by_id(tag::OWED, bucket))? {
        txn.delete(pair.key.to_vec());
    }
    Ok(())
}

impl Volume {
    /// The session's id, if it is persistent.
    pub fn session(&self) -> Option<SessionId> {
        self.0.id
    }

    /// Whether an earlier server served the session.
    pub fn inherited(&self) -> bool {
        self.0.inherited
    }

    /// The number of times the store was opened, which distinguishes handles of this process from earlier ones.
    pub fn life(&self) -> u32 {
        self.0.core.life
    }

    /// Ends the session because the kernel mount is gone. A persistent session ends only in this way; any other ends
    /// when its last clone is dropped.
    pub fn end(&self) {
        self.0.end();
    }
}
