//! Sessions as operators are shown them.

use std::time::Duration;

use node_session::{Moment, SessionId};

use crate::connections::{ConnectionShown, Connections};
use crate::session::Session;

/// How a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its lease is renewed.
    Served,
    /// No connection of its node is open: it lives on the rest of its lease.
    Unreached,
    /// It left changes of others unacknowledged for half a lease: its lease is not renewed until it catches up.
    Behind,
    /// The store was restarted, and its node has not come back yet.
    Awaited,
    /// It is being ended.
    Ending,
}

impl State {
    /// Its name in what commands print.
    pub fn name(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Unreached => "unreached",
            Self::Behind => "behind",
            Self::Awaited => "awaited",
            Self::Ending => "ending",
        }
    }
}

/// A session that a server serves or waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionShown {
    /// Its id.
    pub id: SessionId,
    /// How it stands.
    pub state: State,
    /// When this process opened it; `None` if it is awaited.
    pub since: Option<Moment>,
    /// The connections of its node.
    pub connections: Vec<ConnectionShown>,
    /// How often a connection was opened again.
    pub reconnects: u64,
    /// How long the node may serve, if it does not renew its lease.
    pub lease_left: Duration,
    /// How long ago the last renewal was received.
    pub lease_age: Duration,
    /// How long the oldest unacknowledged change of others has waited for the node.
    pub behind: Duration,
    /// The unacknowledged changes of others.
    pub undelivered: u64,
    /// Calls that were answered.
    pub answered: u64,
    /// Calls that are under way.
    pub under_way: u64,
    /// Answers that now wait until other mounts have applied the change.
    pub waiting: u64,
    /// Bytes received from the node.
    pub received_bytes: u64,
    /// Bytes sent to the node.
    pub sent_bytes: u64,
}

/// An open session.
pub(crate) fn open(session: &Session, connections: &Connections, now: Moment) -> SessionShown {
    let links = connections.of(session.id);
    let behind = session.deliveries.owed(now);
    let (lease_left, lease_age) = session.lease(now);
    let state = if session.is_closed() {
        State::Ending
    } else if session.is_behind(now) {
        State::Behind
    } else if links.open.is_empty() {
        State::Unreached
    } else {
        State::Served
    };
    SessionShown {
        id: session.id,
        state,
        since: Some(session.since),
        connections: links.open,
        reconnects: links.reconnects,
        lease_left,
        lease_age,
        behind,
        undelivered: session.deliveries.count(),
        answered: session.counts.answered(),
        under_way: session.counts.under_way(),
        waiting: session.counts.waiting(),
        received_bytes: links.bytes.received,
        sent_bytes: links.bytes.sent,
    }
}

/// A recorded session whose node has not come back.
pub(crate) fn awaited(id: SessionId, (lease_left, lease_age): (Duration, Duration)) -> SessionShown {
    SessionShown {
        id,
        state: State::Awaited,
        since: None,
        connections: Vec::new(),
        reconnects: 0,
        lease_left,
        lease_age,
        behind: Duration::ZERO,
        undelivered: 0,
        answered: 0,
        under_way: 0,
        waiting: 0,
        received_bytes: 0,
        sent_bytes: 0,
    }
}
