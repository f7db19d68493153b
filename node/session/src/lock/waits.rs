//! Deadlock detection: whether a new wait would close a cycle of waiting processes.

use std::collections::{BTreeMap, BTreeSet};

use super::file::{File, Request};
use super::{Kind, Owner};

/// Whether a request that begins to wait would close a cycle of processes that wait for each other (fcntl(2),
/// EDEADLK). Requests for whole files and of open file descriptions are no part of it, as on Linux.
pub(super) fn closes_circle<F: Ord + Copy>(
    files: &BTreeMap<(F, Kind), File>,
    at: (F, Kind),
    request: &Request,
) -> bool {
    let is_process = |owner: &Owner| matches!(owner, Owner::Process(..));
    let Some(file) = files.get(&at).filter(|_| at.1 == Kind::Ranges && is_process(&request.owner)) else {
        return false;
    };
    let mut seen = BTreeSet::new();
    let mut next = file.blockers(request, None);
    while let Some(owner) = next.pop() {
        if owner == request.owner {
            return true;
        }
        if !is_process(&owner) || !seen.insert(owner) {
            continue;
        }
        for file in files.iter().filter(|((_, kind), _)| *kind == Kind::Ranges).map(|(_, file)| file) {
            let its = file.waiting().filter(|(_, waiting)| waiting.owner == owner);
            next.extend(its.flat_map(|(ticket, waiting)| file.blockers(waiting, Some(*ticket))));
        }
    }
    false
}
