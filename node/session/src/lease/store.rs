//! The store's side of a lease.

use std::time::Duration;

use crate::{Moment, Terms};

/// The lease of a session, as the store sees it.
#[derive(Clone, Debug)]
pub struct Granted {
    terms: Terms,
    /// When the last renewal was received.
    received: Moment,
    /// Whether the node asked for a renewal after that and was refused.
    is_refused: bool,
}

impl Granted {
    /// A lease that is granted at this moment. After a restart the store grants one to every session that it finds: any
    /// renewal before the restart was received earlier.
    pub fn new(terms: Terms, received: Moment) -> Self {
        Self { terms, received, is_refused: false }
    }

    /// A renewal was received.
    pub fn renew(&mut self, received: Moment) {
        self.received = self.received.max(received);
        self.is_refused = false;
    }

    /// A renewal was received and refused.
    pub fn refuse(&mut self) {
        self.is_refused = true;
    }

    /// Whether the node's latest request for a renewal was refused.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// How long ago the last renewal was received.
    pub fn age(&self, now: Moment) -> Duration {
        now.since(self.received)
    }

    /// How long the node may serve from now on, if nothing renews the lease.
    pub fn left(&self, now: Moment) -> Duration {
        self.end().since(now)
    }

    /// From this moment on the node serves nothing any more.
    pub fn end(&self) -> Moment {
        self.received + self.terms.store_waits()
    }

    /// Whether the node serves nothing any more.
    pub fn is_over(&self, now: Moment) -> bool {
        now >= self.end()
    }
}
