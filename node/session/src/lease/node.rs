//! The node's side of a lease.

use std::time::Duration;

use crate::{Moment, Terms};

/// What a node may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Serve from its caches.
    Fresh,
    /// Ask the store about everything; what is cached stays, but is not served.
    Stale,
    /// Nothing: names and pages are dropped, also from the kernel; what is dirty answers EIO, everything else ESTALE.
    Expired,
}

/// The lease of a session, as its node sees it.
#[derive(Clone, Debug)]
pub struct Lease {
    terms: Terms,
    /// When the last renewal that succeeded was sent.
    sent: Moment,
    is_expired: bool,
}

impl Lease {
    /// The lease of a session whose opening was sent at this moment.
    pub fn new(terms: Terms, sent: Moment) -> Self {
        Self { terms, sent, is_expired: false }
    }

    /// The lease of a session that is resumed by a message sent at this moment, when the store had renewed the lease last
    /// `age` before it received the message. A lease from before the start of this machine's clock is over.
    pub fn aged(terms: Terms, sent: Moment, age: Duration) -> Self {
        let renewed = sent.before(age);
        Self { terms, sent: renewed.unwrap_or(sent), is_expired: renewed.is_none() }
    }

    /// The store renewed the lease; the renewal was sent at this moment. `false` if that is too late.
    pub fn renewed(&mut self, sent: Moment) -> bool {
        if !self.is_expired {
            self.sent = self.sent.max(sent);
        }
        !self.is_expired
    }

    /// The store still has the session, as its answer to what was sent at this moment says: also an expired lease goes on.
    /// What was cached before it expired has been dropped.
    pub fn resumed(&mut self, sent: Moment) {
        self.sent = self.sent.max(sent);
        self.is_expired = false;
    }

    /// The store answered that the session is ended.
    pub fn lost(&mut self) {
        self.is_expired = true;
    }

    /// What the node may do now. It has to be asked before each answer from a cache.
    pub fn standing(&mut self, now: Moment) -> Standing {
        let age = now.since(self.sent);
        self.is_expired |= age >= self.terms.lease;
        if self.is_expired {
            Standing::Expired
        } else if age < self.terms.fresh() {
            Standing::Fresh
        } else {
            Standing::Stale
        }
    }

    /// How long the lease lasts from now on, if nothing renews it.
    pub fn left(&self, now: Moment) -> Duration {
        if self.is_expired { Duration::ZERO } else { self.terms.lease.saturating_sub(now.since(self.sent)) }
    }

    /// How long a kernel may serve an answer that is given now without asking again: its timeouts run on while the
    /// node's process is stopped, so they may not outlast the time in which the lease is fresh.
    pub fn cacheable(&self, now: Moment) -> Duration {
        if self.is_expired { Duration::ZERO } else { self.terms.fresh().saturating_sub(now.since(self.sent)) }
    }
}
