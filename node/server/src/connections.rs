//! The connections of each session, for operators: how many, from where, and what went over them.
//!
//! - Only admitted peers are here, so the limits on connections bound it. A session without connections stays here while
//!   it is open, or until the next look at leases.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use node_session::{Moment, SessionId};
use node_wire::header::Role;
use node_wire::traffic::{Bytes, Traffic};
use parking_lot::Mutex;

/// All connections; a cheap handle.
#[derive(Clone, Default)]
pub(crate) struct Connections(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    last: u64,
    sessions: HashMap<SessionId, Links>,
}

/// The connections of one session.
#[derive(Default)]
struct Links {
    open: BTreeMap<u64, Link>,
    /// How many connections there were, by role.
    opened: BTreeMap<Role, u64>,
    /// The bytes of those that ended.
    ended: Bytes,
}

struct Link {
    role: Role,
    from: SocketAddr,
    since: Moment,
    traffic: Arc<Traffic>,
}

/// A connection; counted until it is dropped.
pub(crate) struct Counted {
    connections: Connections,
    session: SessionId,
    number: u64,
}

/// An open connection, as operators are shown it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionShown {
    /// What it is for.
    pub role: Role,
    /// The address of the node.
    pub from: SocketAddr,
    /// When it was admitted.
    pub since: Moment,
}

/// The connections of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) open: Vec<ConnectionShown>,
    pub(crate) reconnects: u64,
    pub(crate) bytes: Bytes,
}

impl Connections {
    /// A connection was admitted.
    pub(crate) fn enter(
        &self,
        session: SessionId,
        (role, from): (Role, SocketAddr),
        traffic: &Arc<Traffic>,
        since: Moment,
    ) -> Counted {
        let table = &mut *self.0.lock();
        table.last += 1;
        let number = table.last;
        let links = table.sessions.entry(session).or_default();
        *links.opened.entry(role).or_default() += 1;
        links.open.insert(number, Link { role, from, since, traffic: Arc::clone(traffic) });
        Counted { connections: self.clone(), session, number }
    }

    /// The connections of a session.
    pub(crate) fn of(&self, session: SessionId) -> Shown {
        let table = self.0.lock();
        let Some(links) = table.sessions.get(&session) else { return Shown::default() };
        let open = links.open.values();
        let bytes = open.clone().fold(links.ended, |sum, link| add(sum, link.traffic.bytes()));
        let open = open.map(|link| ConnectionShown { role: link.role, from: link.from, since: link.since });
        let reconnects = links.opened.values().map(|opened| opened.saturating_sub(1)).sum();
        Shown { open: open.collect(), reconnects, bytes }
    }

    /// Forgets sessions that have no connection and are not open.
    pub(crate) fn forget(&self, is_open: impl Fn(SessionId) -> bool) {
        self.0.lock().sessions.retain(|session, links| !links.open.is_empty() || is_open(*session));
    }
}

fn add(one: Bytes, other: Bytes) -> Bytes {
    Bytes { received: one.received + other.received, sent: one.sent + other.sent }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut table = self.connections.0.lock();
        if let Some(links) = table.sessions.get_mut(&self.session)
            && let Some(link) = links.open.remove(&self.number)
        {
            links.ended = add(links.ended, link.traffic.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_lost_its_connections_is_shown_until_it_ends() {
        let connections = Connections::default();
        let from = SocketAddr::from(([10, 0, 0, 1], 9));
        let enter = |role| connections.enter(SessionId(1), (role, from), &Arc::default(), Moment::default());
        let first = enter(Role::Control);
        let calls = enter(Role::Calls);
        drop(first);
        let again = enter(Role::Control);
        let shown = connections.of(SessionId(1));
        assert_eq!((shown.open.len(), shown.reconnects), (2, 1));
        drop((calls, again));
        connections.forget(|_| true);
        assert_eq!(connections.of(SessionId(1)).reconnects, 1);
        connections.forget(|_| false);
        assert_eq!(connections.of(SessionId(1)), Shown::default());
    }
}
