//! Persistent sessions, which outlive the server: begin, detach, takeover and end.
//!
//! - A persistent session has an id and a record with its bucket and root directory. So a server that takes it over
//!   serves the same inodes, even if names changed meanwhile; if the bucket is gone, every call is ESTALE, as before.
//! - It ends with [`Volume::end`], or when a store is opened without it among the sessions to continue. Dropping a
//!   [`Volume`] leaves the session: the kernel mount continues, with everything it holds.
//! - While it is not served, its invalidations are recorded as undelivered (`undelivered.rs`), and S3 writes wait a moment for
//!   it, as for a mount that is stuck.
//!
//! Ending removes the record and the replay records in one transaction, after the orphans that no other session holds
//! were queued for deletion: a crash in between leaves a session that the next opening ends.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;

use super::session::{Place, Session, Volume};
use crate::core::Core;
use crate::error::Result;
use crate::meta::{Durability, Read, Txn};
use crate::name::BucketName;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::session::Session as Record;
use crate::scan::all;
use crate::session_id::SessionId;
use crate::state::{Appends, Served, refused};
use crate::store::{Store, forget_session};

/// How long a server that has taken over mounts waits for them before it is ready.
const TOLD_MAX: Duration = Duration::from_secs(2);

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
        let told = self.core.feeds.wait_for_all();
        // What a mount has not confirmed until then, it confirms later.
        let _ = tokio::time::timeout(TOLD_MAX, told).await;
    }

    /// Ends a session that was to continue and that no volume serves, because its mount is gone.
    ///
    /// # Errors
    /// If a volume serves it: use [`Volume::end`].
    pub fn end_session(&self, id: SessionId) -> Result<()> {
        match self.core.persistent.find(id) {
            Some((_, _, true)) => Err(refused(id, "a volume serves it")),
            Some((bucket, mount, false)) => {
                let name = crate::buckets::name_of(&*self.core.meta.snapshot(), bucket)?;
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
    let Session { bucket, clone_group, frozen, root, mount, .. } = *session;
    let account = session.access_check.account_id();
    let record = Record { bucket, name: session.name.to_string(), clone_group, frozen, root, account, remote: None };
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
    core.persistent.begin(id, bucket, mount, appends.clone());
    Ok(Served { id, mount, appends, account, remote: false })
}

/// Takes over a session of an earlier server.
pub(super) fn take_over(core: &Core, read: &dyn Read, id: SessionId, name: &BucketName) -> Result<(Place, Served)> {
    core.persistent.check_damage(id)?;
    let value = read.get(&key::by_id(tag::SESSION, id.get()))?;
    let value = value.ok_or_else(|| refused(id, "the store has no record of it"))?;
    let record: Record = decode("a session", &value)?;
    if record.name != name.as_str() {
        return Err(refused(id, "it is of another bucket"));
    }
    let Record { bucket, clone_group, frozen, root, account, remote, .. } = record;
    let served = core.persistent.serve(&core.feeds, id, account)?;
    Ok((Place { bucket, clone_group, frozen, root }, Served { remote: remote.is_some(), ..served }))
}

/// Ends a session: inodes that only it held are collected, its records removed. It does not wait; opening the store
/// does what remains.
pub(super) fn end(core: &Arc<Core>, id: SessionId, bucket: u64, name: Option<&BucketName>, mount: u64) {
    core.feeds.remove(mount);
    core.locks.end_persistent(&core.feeds, id);
    let freed = core.inode_refs.end(bucket, id);
    if let Some(name) = name {
        freed.into_iter().for_each(|ino| super::holds::collect(core, name, bucket, mount, ino));
    }
    core.persistent.end(id);
    let last = core.persistent.of_bucket(bucket).is_empty();
    let done = core.meta.write(Durability::Buffered, move |txn| {
        if last {
            forget_owed(txn, bucket)?;
        }
        forget_session(txn, id)
    });
    drop(done);
}

/// Removes the undelivered invalidations of a bucket without persistent sessions.
pub(crate) fn forget_owed(txn: &mut dyn Txn, bucket: u64) -> Result<()> {
    for pair in all(&*txn, &key::by_id(tag::OWED, bucket))? {
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
