//! The requests that wait: where each waits, and whether a new one would close a cycle of waiting processes.

use std::collections::{BTreeMap, BTreeSet};

use super::file::{File, Request};
use super::{Kind, Owner, Ticket};

/// How many waiting requests are looked at to find a cycle: nobody keeps all others waiting by a web of requests. Linux
/// looks at ten.
const LOOKED_AT_MAX: usize = 256;

/// Where each request waits, by its owner.
#[derive(Clone, Debug)]
pub(super) struct Waits<F> {
    owners: BTreeMap<Ticket, Owner>,
    places: BTreeMap<Owner, BTreeMap<Ticket, (F, Kind)>>,
}

impl<F> Default for Waits<F> {
    fn default() -> Self {
        Self { owners: BTreeMap::new(), places: BTreeMap::new() }
    }
}

impl<F: Ord + Copy> Waits<F> {
    pub(super) fn insert(&mut self, ticket: Ticket, owner: Owner, at: (F, Kind)) {
        self.owners.insert(ticket, owner);
        self.places.entry(owner).or_default().insert(ticket, at);
    }

    /// Removes a request; where it waited.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<(F, Kind)> {
        let owner = self.owners.remove(&ticket)?;
        let places = self.places.get_mut(&owner)?;
        let at = places.remove(&ticket);
        if places.is_empty() {
            self.places.remove(&owner);
        }
        at
    }

    /// The requests of an owner, each with where it waits.
    pub(super) fn of(&self, owner: Owner) -> impl Iterator<Item = (Ticket, (F, Kind))> {
        self.places.get(&owner).into_iter().flatten().map(|(ticket, at)| (*ticket, *at))
    }

    /// The requests that `is_meant` picks by their owner, each with where it waits.
    pub(super) fn those(&self, is_meant: impl Fn(Owner) -> bool) -> Vec<(Ticket, (F, Kind))> {
        let owners = self.places.iter().filter(|(owner, _)| is_meant(**owner));
        owners.flat_map(|(_, places)| places.iter().map(|(ticket, at)| (*ticket, *at))).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.places.is_empty()
    }

    /// Whether a request that begins to wait would close a cycle of processes that wait for each other (fcntl(2),
    /// EDEADLK). Requests for whole files and of open file descriptions are no part of it, as on Linux.
    pub(super) fn closes_circle(&self, files: &BTreeMap<(F, Kind), File>, at: (F, Kind), request: &Request) -> bool {
        let is_process = |owner: &Owner| matches!(owner, Owner::Process(..));
        let Some(file) = files.get(&at).filter(|_| at.1 == Kind::Ranges && is_process(&request.owner)) else {
            return false;
        };
        let (mut seen, mut looked_at) = (BTreeSet::new(), 0);
        let mut next: BTreeSet<Owner> = file.blockers(request).collect();
        while let Some(owner) = next.pop_first() {
            if owner == request.owner {
                return true;
            }
            if !is_process(&owner) || !seen.insert(owner) {
                continue;
            }
            for (ticket, at) in self.of(owner).filter(|(_, at)| at.1 == Kind::Ranges) {
                looked_at += 1;
                if looked_at > LOOKED_AT_MAX {
                    return false;
                }
                let file = files.get(&at);
                let waiting = file.and_then(|file| Some((file, file.waiter(ticket)?)));
                next.extend(waiting.into_iter().flat_map(|(file, waiting)| file.blockers(waiting)));
            }
        }
        false
    }
}
