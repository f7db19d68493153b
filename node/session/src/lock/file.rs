//! The locks of one kind on one file, and the requests that wait for them.

use std::collections::BTreeMap;

use super::range::Ranges;
use super::{Mode, Owner, Range, Ticket};
use crate::SessionId;

/// A request for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) owner: Owner,
    pub(super) range: Range,
    pub(super) mode: Mode,
}

impl Request {
    fn conflicts(&self, owner: Owner, range: Range, mode: Mode) -> bool {
        let excludes = self.mode == Mode::Exclusive || mode == Mode::Exclusive;
        self.owner != owner && excludes && self.range.overlaps(range)
    }
}

/// The locks on one file.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    held: BTreeMap<Owner, Ranges>,
    waiting: Vec<(Ticket, Request)>,
}

impl File {
    pub(super) fn is_unused(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }

    /// How many ranges an owner has locked.
    pub(super) fn held_by(&self, owner: Owner) -> usize {
        self.held.get(&owner).map_or(0, Ranges::len)
    }

    /// Every lock with its owner.
    pub(super) fn held(&self) -> impl Iterator<Item = (Owner, Range, Mode)> {
        self.held.iter().flat_map(|(owner, ranges)| ranges.iter().map(|(range, mode)| (*owner, range, mode)))
    }

    /// The first lock that keeps a request from being granted.
    pub(super) fn conflict(&self, request: &Request) -> Option<(Owner, Range, Mode)> {
        let mut held = self.held();
        held.find(|(owner, range, mode)| request.conflicts(*owner, *range, *mode))
    }

    /// Whether a request that waits conflicts with this one.
    pub(super) fn queues_behind(&self, request: &Request) -> bool {
        self.waiting.iter().any(|(_, earlier)| request.conflicts(earlier.owner, earlier.range, earlier.mode))
    }

    /// The owners that a request has to wait for: holders of conflicting locks, and conflicting waiters before
    /// `ticket`.
    pub(super) fn blockers(&self, request: &Request, ticket: Option<Ticket>) -> Vec<Owner> {
        let held = self.held().filter(|(owner, range, mode)| request.conflicts(*owner, *range, *mode));
        let earlier = self.waiting.iter().take_while(|(waiting, _)| Some(*waiting) != ticket);
        let earlier = earlier.filter(|(_, other)| request.conflicts(other.owner, other.range, other.mode));
        held.map(|(owner, ..)| owner).chain(earlier.map(|(_, other)| other.owner)).collect()
    }

    /// Locks a range for its owner, or unlocks it.
    pub(super) fn set(&mut self, owner: Owner, range: Range, mode: Option<Mode>) {
        let ranges = self.held.entry(owner).or_default();
        ranges.set(range, mode);
        if ranges.is_empty() {
            self.held.remove(&owner);
        }
    }

    /// Drops everything of a session.
    pub(super) fn end_session(&mut self, session: SessionId) {
        self.held.retain(|owner, _| owner.session() != session);
        self.waiting.retain(|(_, request)| request.owner.session() != session);
    }

    pub(super) fn push(&mut self, ticket: Ticket, request: Request) {
        self.waiting.push((ticket, request));
    }

    /// Takes requests out of the queue; those that `taken` picks.
    pub(super) fn remove(&mut self, taken: impl Fn(Ticket, &Request) -> bool) -> Vec<(Ticket, Request)> {
        let (removed, kept) = self.waiting.drain(..).partition(|(ticket, request)| taken(*ticket, request));
        self.waiting = kept;
        removed
    }

    /// The requests that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &(Ticket, Request)> {
        self.waiting.iter()
    }

    /// Grants what can be granted, in the order of the queue.
    pub(super) fn grant(&mut self) -> Vec<(Ticket, Request)> {
        let mut granted = Vec::new();
        let mut passed: Vec<(Ticket, Request)> = Vec::new();
        for (ticket, request) in std::mem::take(&mut self.waiting) {
            let is_behind = passed.iter().any(|(_, other)| request.conflicts(other.owner, other.range, other.mode));
            // The earlier requests may be waiting for an owner that holds a lock here.
            let holds = self.held.contains_key(&request.owner);
            if self.conflict(&request).is_some() || is_behind && !holds {
                passed.push((ticket, request));
            } else {
                self.set(request.owner, request.range, Some(request.mode));
                granted.push((ticket, request));
            }
        }
        self.waiting = passed;
        granted
    }
}
