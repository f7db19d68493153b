//! File locks of all mounts: byte ranges (fcntl(2)) and whole files (flock(2)), across mounts and machines.
//!
//! - The rules are those of [`node_session::lock`]. Here each lock has its session, and the file that keeps it over the
//!   death of the process (`log`): a lock costs no transaction.
//! - A request that waits holds no thread. When it is granted, the mount receives a change in its feed.
//! - The end of a session ends its locks and its waiting requests.
//! - A session has at most [`LOCKS_MAX`] locks and waiting requests, of which [`WAITING_MAX`] wait.
//!
//! A crash leaves the locks that were answered, and perhaps a change that was not: it is asked for again, which leads to
//! the same locks. Requests that waited are gone, and are asked for again as well.

mod cell;
mod log;
mod sessions;

use std::collections::{BTreeSet, HashMap};

use node_session::SessionId;
use node_session::lock::{Kind, Locks, Mode, Owner, Range, Set, Ticket, Wait};
use objstore_files::{
    HeldLock, LOCKED_INODES_MAX, Lock, LockKind, LockMode, LockOwner, LockRange, LockRelease, Locked,
};
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::feed::{Change, Feeds};
use cell::Cell;
pub(super) use log::SUFFIX;
pub(crate) use log::{Left, LockLog};
use sessions::Known;
pub(crate) use sessions::LockSession;

/// The most locks and waiting requests of a session. Each takes some 300 bytes here.
const LOCKS_MAX: usize = 16_384;
/// The most waiting requests of a session.
const WAITING_MAX: usize = 4_096;

/// A file: its bucket and its inode.
type FileId = (u64, u64);

/// The locks of all files.
pub(crate) struct FileLocks(Mutex<State>);

struct State {
    locks: Locks<FileId>,
    known: HashMap<SessionId, Known>,
    waiting: HashMap<Ticket, Waiting>,
    is_closed: bool,
}

/// A request that waits.
struct Waiting {
    session: SessionId,
    /// The mount's number for it.
    number: u64,
    file: FileId,
    by: LockOwner,
    lock: Lock,
}

impl Default for FileLocks {
    fn default() -> Self {
        let locks = Locks::new(LOCKS_MAX);
        Self(Mutex::new(State { locks, known: HashMap::new(), waiting: HashMap::new(), is_closed: false }))
    }
}

impl FileLocks {
    /// The lock that would keep an owner from getting this one.
    pub fn test(&self, session: &LockSession, file: FileId, owner: u64, lock: Lock) -> Option<HeldLock> {
        let state = self.0.lock();
        let kind = kind(lock.kind);
        let asked = (range(lock), mode(lock.mode));
        let conflict = state.locks.test(file, owner_of(session.id, kind, owner), kind, asked)?;
        let pid = match conflict.owner {
            Owner::Process(id, owner) | Owner::Description(id, owner) if id == session.id => {
                state.known.get(&id).and_then(|known| known.owners.get(&(file, kind, owner))).map_or(0, |by| by.pid)
            }
            _ => 0,
        };
        let mode = if conflict.mode == Mode::Shared { LockMode::Shared } else { LockMode::Exclusive };
        let range = LockRange::new(conflict.range.first(), conflict.range.last()).unwrap_or(LockRange::ALL);
        Some(HeldLock { mode, range, pid })
    }

    /// Locks, or waits under `number` if that is not zero.
    pub fn set(
        &self,
        feeds: &Feeds,
        session: &LockSession,
        (file, by, lock): (FileId, LockOwner, Lock),
        number: u64,
    ) -> Result<Locked> {
        let log = self.enter(session);
        // It waits for the disk once in the life of a session, and nobody else meanwhile.
        log.map_or(Ok(()), |log| log.prepare())?;
        let state = &mut *self.0.lock();
        if state.is_closed || !state.known.contains_key(&session.id) {
            return Err(Error::Unusable { why: "the store or the session of the mount is closing".into() });
        }
        if number != 0 && state.known.get(&session.id).is_some_and(|known| known.waiting.contains_key(&number)) {
            return Ok(Locked::Waits);
        }
        if state.locks.is_full(session.id) {
            return Ok(Locked::TooMany);
        }
        state.set(feeds, session.id, (file, by, lock), number)
    }

    /// Unlocks; whether the session has other locks of the file, or waits for some.
    pub fn unset(&self, feeds: &Feeds, session: &LockSession, (file, owner): (FileId, u64), what: Lock) -> bool {
        let state = &mut *self.0.lock();
        state.unset(feeds, session.id, (file, owner), kind(what.kind), range(what));
        state.uses(session.id, file)
    }

    /// Ends the locks and waiting requests of what is closed; whether the session has others of the file.
    pub fn release(&self, feeds: &Feeds, session: &LockSession, file: FileId, closed: LockRelease) -> bool {
        let state = &mut *self.0.lock();
        let its = match closed {
            LockRelease::Descriptor { owner } => vec![(Kind::Ranges, owner)],
            LockRelease::Description { owner, handle } => {
                let mut its = state.through(session.id, file, handle);
                its.extend((owner != 0).then_some((Kind::Whole, owner)));
                its
            }
        };
        for (kind, owner) in its {
            state.take_back(feeds, session.id, |waiting| {
                waiting.file == file && waiting.by.owner == owner && self::kind(waiting.lock.kind) == kind
            });
            state.unset(feeds, session.id, (file, owner), kind, Range::ALL);
        }
        state.uses(session.id, file)
    }

    /// Takes a waiting request back; whether it waited.
    pub fn cancel(&self, feeds: &Feeds, session: &LockSession, number: u64) -> bool {
        self.0.lock().take_back(feeds, session.id, |waiting| waiting.number == number)
    }

    /// The inodes of a bucket, behind one, of which the session has locks or waits for some.
    pub fn inodes(&self, session: &LockSession, bucket: u64, after: u64) -> Vec<u64> {
        let state = self.0.lock();
        let Some(known) = state.known.get(&session.id) else { return Vec::new() };
        let held = known.owners.keys().map(|(file, ..)| *file);
        let waiting = known.waiting.values().filter_map(|ticket| state.waiting.get(ticket)).map(|waiting| waiting.file);
        let files: BTreeSet<_> = held.chain(waiting).filter(|(own, ino)| *own == bucket && *ino > after).collect();
        files.into_iter().map(|(_, ino)| ino).take(LOCKED_INODES_MAX).collect()
    }
}

impl State {
    fn set(
        &mut self,
        feeds: &Feeds,
        session: SessionId,
        (file, by, lock): (FileId, LockOwner, Lock),
        number: u64,
    ) -> Result<Locked> {
        let kind = kind(lock.kind);
        let (owner, asked) = (owner_of(session, kind, by.owner), (range(lock), mode(lock.mode)));
        if self.locks.test(file, owner, kind, asked).is_none() {
            // Before it is held: a lock that cannot be kept is refused.
            self.note(session, Cell::Changed { ino: file.1, kind, by, range: asked.0, mode: Some(asked.1) })?;
        }
        let may_wait = self.known.get(&session).is_some_and(|known| known.waiting.len() < WAITING_MAX);
        let wait = if number == 0 || !may_wait { Wait::No } else { Wait::Yes };
        let held = self.locks.holds(file, owner, kind);
        let (locked, woken) = match self.locks.set(file, owner, kind, asked, wait) {
            Set::Granted(woken) => {
                self.owned(session, (file, kind), by);
                (Locked::Granted, woken)
            }
            Set::Refused(_, woken) if number != 0 => (Locked::TooMany, woken),
            Set::Refused(_, woken) => (Locked::Refused, woken),
            Set::Waits(ticket, woken) => {
                self.waiting.insert(ticket, Waiting { session, number, file, by, lock });
                if let Some(known) = self.known.get_mut(&session) {
                    known.waiting.insert(number, ticket);
                }
                (Locked::Waits, woken)
            }
            Set::Deadlock => (Locked::Deadlock, Vec::new()),
            Set::TooMany => (Locked::TooMany, Vec::new()),
        };
        if held && !self.locks.holds(file, owner, kind) {
            // A whole-file lock of another mode was given up first (flock(2)).
            self.noted(session, Cell::Changed { ino: file.1, kind, by, range: Range::ALL, mode: None });
            self.disowned(session, (file, kind), by.owner);
        }
        self.granted(feeds, woken);
        Ok(locked)
    }

    fn unset(&mut self, feeds: &Feeds, session: SessionId, (file, owner): (FileId, u64), kind: Kind, range: Range) {
        let known = self.known.get(&session);
        let Some(by) = known.and_then(|known| known.owners.get(&(file, kind, owner))).copied() else { return };
        self.noted(session, Cell::Changed { ino: file.1, kind, by, range, mode: None });
        let woken = self.locks.unset(file, owner_of(session, kind, owner), kind, range);
        if !self.locks.holds(file, owner_of(session, kind, owner), kind) {
            self.disowned(session, (file, kind), owner);
        }
        self.granted(feeds, woken);
    }

    /// Takes back the requests of a session that `is_meant` picks; whether there was one.
    fn take_back(&mut self, feeds: &Feeds, session: SessionId, is_meant: impl Fn(&Waiting) -> bool) -> bool {
        let Some(known) = self.known.get(&session) else { return false };
        let waiting = known.waiting.values().copied();
        let tickets: Vec<_> = waiting.filter(|ticket| self.waiting.get(ticket).is_some_and(&is_meant)).collect();
        for ticket in &tickets {
            self.forget(*ticket);
            let woken = self.locks.interrupt(*ticket).unwrap_or_default();
            self.granted(feeds, woken);
        }
        !tickets.is_empty()
    }

    /// Requests that waited are granted: their mounts receive a change.
    fn granted(&mut self, feeds: &Feeds, woken: Vec<Ticket>) {
        for ticket in woken {
            let Some(Waiting { session, number, file, by, lock }) = self.forget(ticket) else { continue };
            let (kind, range, mode) = (kind(lock.kind), range(lock), Some(mode(lock.mode)));
            self.noted(session, Cell::Changed { ino: file.1, kind, by, range, mode });
            self.owned(session, (file, kind), by);
            if let Some(known) = self.known.get(&session) {
                feeds.publish_to(known.mount, &[Change::LockGranted { ticket: number }]);
            }
        }
    }

    fn forget(&mut self, ticket: Ticket) -> Option<Waiting> {
        let waiting = self.waiting.remove(&ticket)?;
        if let Some(known) = self.known.get_mut(&waiting.session) {
            known.waiting.remove(&waiting.number);
        }
        Some(waiting)
    }

    fn owned(&mut self, session: SessionId, (file, kind): (FileId, Kind), by: LockOwner) {
        if let Some(known) = self.known.get_mut(&session) {
            known.owners.insert((file, kind, by.owner), by);
        }
    }

    fn disowned(&mut self, session: SessionId, (file, kind): (FileId, Kind), owner: u64) {
        if let Some(known) = self.known.get_mut(&session) {
            known.owners.remove(&(file, kind, owner));
        }
    }

    /// The owners of byte ranges, held or waited for, that last used an open file.
    fn through(&self, session: SessionId, file: FileId, handle: u64) -> Vec<(Kind, u64)> {
        let Some(known) = self.known.get(&session) else { return Vec::new() };
        let first = (file, Kind::Ranges, 0)..=(file, Kind::Ranges, u64::MAX);
        let held = known.owners.range(first).map(|(_, by)| *by);
        let waiting = known.waiting.values().filter_map(|ticket| self.waiting.get(ticket));
        let waiting = waiting.filter(|waiting| waiting.file == file && waiting.lock.kind == LockKind::Ranges);
        let all = held.chain(waiting.map(|waiting| waiting.by));
        all.filter(|by| by.handle == handle).map(|by| (Kind::Ranges, by.owner)).collect()
    }

    /// Whether a session has locks of a file, or waits for some.
    fn uses(&self, session: SessionId, file: FileId) -> bool {
        let Some(known) = self.known.get(&session) else { return false };
        let mut held = known.owners.range((file, Kind::Ranges, 0)..=(file, Kind::Whole, u64::MAX));
        let mut waiting = known.waiting.values().filter_map(|ticket| self.waiting.get(ticket));
        held.next().is_some() || waiting.any(|waiting| waiting.file == file)
    }

    /// Writes a change down.
    fn note(&self, session: SessionId, cell: Cell) -> Result<()> {
        let Some(log) = self.known.get(&session).and_then(|known| known.log.as_ref()) else { return Ok(()) };
        log.add(cell, || self.cells(session))
    }

    /// Writes down a change that happens in any case.
    fn noted(&self, session: SessionId, cell: Cell) {
        if let Err(error) = self.note(session, cell) {
            tracing::error!(%error, "a change of a mount's file locks is not kept over a restart");
        }
    }

    /// What a session holds, as cells.
    fn cells(&self, session: SessionId) -> Vec<Cell> {
        let owners = self.known.get(&session).map(|known| &known.owners).into_iter().flatten();
        let of = |((file, kind, owner), by): (&(FileId, Kind, u64), &LockOwner)| {
            let (ino, kind, by) = (file.1, *kind, *by);
            let locks = self.locks.locks_of(*file, owner_of(session, kind, *owner), kind);
            locks.into_iter().map(move |(range, mode)| Cell::Changed { ino, kind, by, range, mode: Some(mode) })
        };
        owners.flat_map(of).collect()
    }
}

fn kind(kind: LockKind) -> Kind {
    match kind {
        LockKind::Ranges => Kind::Ranges,
        LockKind::Whole => Kind::Whole,
    }
}

fn mode(mode: LockMode) -> Mode {
    match mode {
        LockMode::Shared => Mode::Shared,
        LockMode::Exclusive => Mode::Exclusive,
    }
}

fn range(lock: Lock) -> Range {
    match lock.kind {
        LockKind::Whole => Range::ALL,
        LockKind::Ranges => Range::new(lock.range.first(), lock.range.last()).unwrap_or(Range::ALL),
    }
}

/// An owner of byte ranges counts as a process: the kernel does not tell it from an open file description (OFD).
fn owner_of(session: SessionId, kind: Kind, owner: u64) -> Owner {
    match kind {
        Kind::Ranges => Owner::Process(session, owner),
        Kind::Whole => Owner::Description(session, owner),
    }
}

#[cfg(test)]
mod tests;
