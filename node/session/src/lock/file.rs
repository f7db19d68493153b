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

    /// What an owner has locked.
    pub(super) fn locks_of(&self, owner: Owner) -> Vec<(Range, Mode)> {
        self.held.get(&owner).into_iter().flat_map(Ranges::iter).collect()
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

    /// The owners of the locks that a request waits for.
    pub(super) fn blockers(&self, request: &Request) -> impl Iterator<Item = Owner> {
        let held = self.held().filter(|(owner, range, mode)| request.conflicts(*owner, *range, *mode));
        held.map(|(owner, ..)| owner)
    }

    /// The request that waits under a number.
    pub(super) fn waiter(&self, ticket: Ticket) -> Option<&Request> {
        self.waiting.iter().find(|(waiting, _)| *waiting == ticket).map(|(_, request)| request)
    }

    /// Locks a range for its owner, or unlocks it.
    pub(super) fn set(&mut self, owner: Owner, range: Range, mode: Option<Mode>) {
        let ranges = self.held.entry(owner).or_default();
        ranges.set(range, mode);
        if ranges.is_empty() {
            self.held.remove(&owner);
        }
    }

    /// Drops the locks of a session.
    pub(super) fn end_all_of(&mut self, session: SessionId) {
        self.held.retain(|owner, _| owner.session() != session);
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

    /// Grants what can be granted, in the order of the queue; with each request the number of ranges that its owner
    /// had before.
    pub(super) fn grant(&mut self) -> Vec<(Ticket, Request, usize)> {
        let mut granted = Vec::new();
        for (ticket, request) in std::mem::take(&mut self.waiting) {
            if self.conflict(&request).is_some() {
                self.waiting.push((ticket, request));
            } else {
                let before = self.held_by(request.owner);
                self.set(request.owner, request.range, Some(request.mode));
                granted.push((ticket, request, before));
            }
        }
        granted
    }
}
