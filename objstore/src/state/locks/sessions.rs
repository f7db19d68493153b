//! The sessions that have file locks: how each is known, restored, closed and ended.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use node_session::SessionId;
use node_session::lock::{Kind, Locks, Mode, Range, Set, Ticket, Wait};
use objstore_files::LockOwner;

use super::cell::Cell;
use super::log::LockLog;
use super::{FileId, FileLocks, owner_of};
use crate::feed::Feeds;
use crate::session_id::SessionId as OwnId;

/// A session, as locks know it.
#[derive(Clone)]
pub(crate) struct LockSession {
    pub(super) id: SessionId,
    mount: u64,
    /// The file that keeps its locks, if it outlives the process.
    log: Option<Arc<LockLog>>,
}

/// A session that has or had locks.
pub(super) struct Known {
    pub mount: u64,
    pub log: Option<Arc<LockLog>>,
    /// The owners that hold locks of a file.
    pub owners: BTreeMap<(FileId, Kind, u64), LockOwner>,
    /// The requests that wait, by the mount's numbers.
    pub waiting: HashMap<u64, Ticket>,
}

impl LockSession {
    /// The session of a mount that ends with the process.
    pub fn of_process(mount: u64) -> Self {
        Self { id: SessionId(1 << 64 | u128::from(mount)), mount, log: None }
    }

    /// A session that outlives the process.
    pub fn persistent(id: OwnId, mount: u64, log: LockLog) -> Self {
        Self { id: named(id), mount, log: Some(Arc::new(log)) }
    }

    /// Its number, as locks know it.
    pub fn id(&self) -> SessionId {
        self.id
    }
}

fn named(id: OwnId) -> SessionId {
    SessionId(u128::from(id.get()))
}

/// The locks to which the changes of a session lead. They are found apart from those of others, with which earlier ones
/// may conflict.
fn last_state(session: SessionId, bucket: u64, cells: Vec<Cell>) -> Vec<(FileId, LockOwner, (Kind, Range, Mode))> {
    let (mut locks, mut owners) = (Locks::new(usize::MAX), BTreeMap::new());
    for cell in cells {
        let Cell::Changed { ino, kind, by, range, mode } = cell else { continue };
        let (file, owner) = ((bucket, ino), owner_of(session, kind, by.owner));
        owners.insert((file, kind, by.owner), by);
        match mode {
            // Each owner has a file of its own here, so nothing conflicts.
            Some(mode) => drop(locks.set((file, by.owner), owner, kind, (range, mode), Wait::No)),
            None => drop(locks.unset((file, by.owner), owner, kind, range)),
        }
    }
    let held = owners.into_iter().flat_map(|((file, kind, number), by)| {
        let its = locks.locks_of((file, number), owner_of(session, kind, number), kind);
        its.into_iter().map(move |(range, mode)| (file, by, (kind, range, mode))).collect::<Vec<_>>()
    });
    held.collect()
}

impl FileLocks {
    /// Knows a session from its first lock on; the file of its locks.
    pub(super) fn enter(&self, session: &LockSession) -> Option<Arc<LockLog>> {
        let known = &mut self.0.lock().known;
        let known = known.entry(session.id).or_insert_with(|| Known {
            mount: session.mount,
            log: session.log.clone(),
            owners: BTreeMap::new(),
            waiting: HashMap::new(),
        });
        known.log.clone()
    }

    /// Restores the locks of a session that continues, when a store opens, from what its file says.
    pub fn restore(&self, session: &LockSession, bucket: u64, cells: Vec<Cell>) {
        if session.log.as_ref().is_none_or(|log| !log.is_open()) {
            return;
        }
        self.enter(session);
        let state = &mut *self.0.lock();
        for (file, by, (kind, range, mode)) in last_state(session.id, bucket, cells) {
            match state.locks.set(file, owner_of(session.id, kind, by.owner), kind, (range, mode), Wait::No) {
                Set::Granted(_) => state.owned(session.id, (file, kind), by),
                refused => tracing::error!(ino = file.1, ?refused, "a lock of a mount is not restored"),
            }
        }
    }

    /// Ends the locks of a session, and its waiting requests.
    pub fn end(&self, feeds: &Feeds, session: SessionId) {
        let state = &mut *self.0.lock();
        let Some(known) = state.known.remove(&session) else { return };
        for ticket in known.waiting.values() {
            state.waiting.remove(ticket);
        }
        let woken = state.locks.end_all_of(session);
        if let Some(log) = known.log {
            log.remove();
        }
        state.granted(feeds, woken);
    }

    /// Ends the locks of a persistent session.
    pub fn end_persistent(&self, feeds: &Feeds, id: OwnId) {
        self.end(feeds, named(id));
    }

    /// The store is closed: the locks of mounts on other machines are written out. No lock is granted from now on.
    pub fn close(&self) {
        let state = &mut *self.0.lock();
        state.is_closed = true;
        for (id, known) in &state.known {
            let closed = known.log.as_ref().map_or(Ok(()), |log| log.close(state.cells(*id)));
            if let Err(error) = closed {
                tracing::error!(%error, "the file locks of a mount on another machine are not written out");
            }
        }
    }
}
