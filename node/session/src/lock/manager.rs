//! The locks of all files of a volume.

use std::collections::{BTreeMap, BTreeSet};

use super::file::{File, Request};
use super::waits::Waits;
use super::{Kind, Mode, Owner, Range};
use crate::SessionId;

/// The number of a request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Whether a request may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It is refused if it cannot be granted at once.
    No,
    /// It waits.
    Yes,
}

/// A lock that keeps a request from being granted (fcntl(2), `F_GETLK`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Whose it is.
    pub owner: Owner,
    /// What it covers.
    pub range: Range,
    /// What it allows.
    pub mode: Mode,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Set {
    /// The lock is held. These requests were waiting and are granted too, because the lock replaced a stronger one.
    Granted(Vec<Ticket>),
    /// Another lock is in the way (EAGAIN). The requests were granted because a whole-file lock was
    /// given up first, as flock(2) does.
    Refused(Conflict, Vec<Ticket>),
    /// It waits under this number; the requests were granted as in [`Set::Refused`].
    Waits(Ticket, Vec<Ticket>),
    /// It would wait for itself (EDEADLK).
    Deadlock,
    /// The session has as many locks and waiting requests as it may have (ENOLCK).
    TooMany,
}

/// All locks of a volume; `F` names a file.
#[derive(Clone, Debug)]
pub struct Locks<F> {
    files: BTreeMap<(F, Kind), File>,
    /// Where each owner holds locks.
    holders: BTreeMap<Owner, BTreeSet<(F, Kind)>>,
    waits: Waits<F>,
    /// How many ranges and waiting requests each session has.
    counts: BTreeMap<SessionId, usize>,
    most: usize,
    last: u64,
}

impl<F: Ord + Copy> Locks<F> {
    /// No locks; each session may have so many ranges and waiting requests.
    pub fn new(most: usize) -> Self {
        Self {
            files: BTreeMap::new(),
            holders: BTreeMap::new(),
            waits: Waits::default(),
            counts: BTreeMap::new(),
            most,
            last: 0,
        }
    }

    /// The lock that would keep a request from being granted; nothing is changed.
    pub fn test(&self, file: F, owner: Owner, kind: Kind, (range, mode): (Range, Mode)) -> Option<Conflict> {
        let conflict = self.files.get(&(file, kind))?.conflict(&Request { owner, range, mode });
        conflict.map(|(owner, range, mode)| Conflict { owner, range, mode })
    }

    /// Locks a range, or all of a file. It replaces what the owner has there.
    pub fn set(&mut self, file: F, owner: Owner, kind: Kind, (range, mode): (Range, Mode), wait: Wait) -> Set {
        let at = (file, kind);
        let range = if kind == Kind::Whole { Range::ALL } else { range };
        let request = Request { owner, range, mode };
        if self.is_full(owner.session()) {
            return Set::TooMany;
        }
        let given_up = if kind == Kind::Whole { self.give_up(at, &request) } else { Vec::new() };
        let here = self.files.entry(at).or_default();
        let Some((owner_there, range_there, mode_there)) = here.conflict(&request) else {
            let mut granted = given_up;
            granted.extend(self.change(at, owner, range, Some(mode)));
            return Set::Granted(granted);
        };
        match wait {
            Wait::No => Set::Refused(Conflict { owner: owner_there, range: range_there, mode: mode_there }, given_up),
            Wait::Yes if self.waits.closes_circle(&self.files, at, &request) => Set::Deadlock,
            Wait::Yes => {
                self.last += 1;
                let ticket = Ticket(self.last);
                self.files.entry(at).or_default().push(ticket, request);
                self.waits.insert(ticket, owner, at);
                self.count(owner, 0, 1);
                Set::Waits(ticket, given_up)
            }
        }
    }

    /// Unlocks a range, or all of a file; the requests that are granted now.
    pub fn unset(&mut self, file: F, owner: Owner, kind: Kind, range: Range) -> Vec<Ticket> {
        let range = if kind == Kind::Whole { Range::ALL } else { range };
        self.change((file, kind), owner, range, None)
    }

    /// Takes a waiting request back, because its call was interrupted. `None` if it was granted before; the requests
    /// that are granted now otherwise.
    pub fn interrupt(&mut self, ticket: Ticket) -> Option<Vec<Ticket>> {
        let at = self.waits.remove(ticket)?;
        self.take_back(at, &[ticket]);
        Some(self.grant(at))
    }

    /// Releases what an owner holds and waits for on one file: the last close of a process, or of a description.
    pub fn release(&mut self, file: F, owner: Owner, kind: Kind) -> Vec<Ticket> {
        let its = self.waits.of(owner);
        let here: Vec<_> = its.filter(|(_, at)| *at == (file, kind)).map(|(ticket, _)| ticket).collect();
        for ticket in &here {
            self.waits.remove(*ticket);
        }
        self.take_back((file, kind), &here);
        self.change((file, kind), owner, Range::ALL, None)
    }

    /// Releases everything of a session; the requests of others that are granted now.
    pub fn end_all_of(&mut self, session: SessionId) -> Vec<Ticket> {
        let mut places: BTreeSet<_> = BTreeSet::new();
        for (ticket, at) in self.waits.those(|owner| owner.session() == session) {
            self.waits.remove(ticket);
            self.take_back(at, &[ticket]);
            places.insert(at);
        }
        for (_, held) in self.holders.iter().filter(|(owner, _)| owner.session() == session) {
            places.extend(held);
        }
        let mut granted = Vec::new();
        for at in places {
            if let Some(file) = self.files.get_mut(&at) {
                // All of it first, so that the requests of others are granted in their order.
                file.end_all_of(session);
            }
            granted.extend(self.grant(at));
        }
        self.holders.retain(|owner, _| owner.session() != session);
        self.counts.remove(&session);
        granted
    }

    /// Whether nothing is held or waited for, and nothing is kept of what was.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.holders.is_empty() && self.waits.is_empty() && self.counts.is_empty()
    }

    /// Every lock that is held: what a session reclaims after a restart of the store, and what operators are shown.
    pub fn held(&self) -> impl Iterator<Item = (F, Kind, Conflict)> {
        let files = self.files.iter();
        files.flat_map(|((name, kind), file)| {
            file.held().map(|(owner, range, mode)| (*name, *kind, Conflict { owner, range, mode }))
        })
    }

    /// Whether a session has as many locks and waiting requests as it may have.
    pub fn is_full(&self, session: SessionId) -> bool {
        self.counts.get(&session).is_some_and(|count| *count >= self.most)
    }

    /// Whether an owner holds a lock of a file.
    pub fn holds(&self, file: F, owner: Owner, kind: Kind) -> bool {
        self.files.get(&(file, kind)).is_some_and(|file| file.held_by(owner) > 0)
    }

    /// The locks of an owner on a file.
    pub fn locks_of(&self, file: F, owner: Owner, kind: Kind) -> Vec<(Range, Mode)> {
        self.files.get(&(file, kind)).map(|file| file.locks_of(owner)).unwrap_or_default()
    }

    /// A whole-file lock of another mode is given up before the new one is asked for (flock(2)).
    fn give_up(&mut self, at: (F, Kind), request: &Request) -> Vec<Ticket> {
        let file = self.files.get(&at);
        let had = file.and_then(|file| file.held().find(|(owner, ..)| *owner == request.owner));
        match had {
            Some((.., mode)) if mode != request.mode => self.change(at, request.owner, Range::ALL, None),
            _ => Vec::new(),
        }
    }

    /// Changes what an owner holds, and grants what can be granted then.
    fn change(&mut self, at: (F, Kind), owner: Owner, range: Range, mode: Option<Mode>) -> Vec<Ticket> {
        let Some(file) = self.files.get_mut(&at) else { return Vec::new() };
        let before = file.held_by(owner);
        file.set(owner, range, mode);
        let after = file.held_by(owner);
        self.count(owner, before, after);
        self.note(at, owner, after);
        self.grant(at)
    }

    fn grant(&mut self, at: (F, Kind)) -> Vec<Ticket> {
        let granted = self.files.get_mut(&at).map(File::grant).unwrap_or_default();
        for (ticket, request, before) in &granted {
            self.waits.remove(*ticket);
            let after = self.files.get(&at).map_or(0, |file| file.held_by(request.owner));
            self.note(at, request.owner, after);
            // The request counted, too.
            self.count(request.owner, before + 1, after);
        }
        self.forget_unused(at);
        granted.into_iter().map(|(ticket, ..)| ticket).collect()
    }

    /// Removes requests from the queue of a file.
    fn take_back(&mut self, at: (F, Kind), tickets: &[Ticket]) {
        let removed = self.files.get_mut(&at).map(|file| file.remove(|ticket, _| tickets.contains(&ticket)));
        for (_, request) in removed.unwrap_or_default() {
            self.count(request.owner, 1, 0);
        }
    }

    fn note(&mut self, at: (F, Kind), owner: Owner, held: usize) {
        let places = self.holders.entry(owner).or_default();
        if held > 0 {
            places.insert(at);
        } else {
            places.remove(&at);
        }
        if places.is_empty() {
            self.holders.remove(&owner);
        }
    }

    fn count(&mut self, owner: Owner, before: usize, after: usize) {
        let count = self.counts.entry(owner.session()).or_default();
        *count = (*count + after).saturating_sub(before);
        if *count == 0 {
            self.counts.remove(&owner.session());
        }
    }

    fn forget_unused(&mut self, at: (F, Kind)) {
        if self.files.get(&at).is_some_and(File::is_unused) {
            self.files.remove(&at);
        }
    }
}
