//! The node's side of the delivery: which changes its caches and its kernel have applied.

use super::Delivery;
use crate::Boot;

/// How a node handles a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Drop what it names from every cache, then acknowledge [`Inbox::applied`].
    Apply,
    /// It was applied before; acknowledge [`Inbox::applied`] again.
    Repeated,
    /// One before it is missing: ask for all undelivered changes.
    Gap,
    /// It is of another opening of the store; do nothing.
    Foreign,
}

/// How far a node has applied the changes of one opening of the store.
#[derive(Clone, Debug)]
pub struct Inbox {
    boot: Boot,
    applied: u64,
}

impl Inbox {
    /// The inbox of a new session.
    pub fn new(boot: Boot) -> Self {
        Self { boot, applied: 0 }
    }

    /// The inbox of a process whose caches are empty, in a session with so many published changes: all are applied.
    pub fn inherited(boot: Boot, published: u64) -> Self {
        Self { boot, applied: published }
    }

    /// The session goes on with another opening of the store, which begins to count again. The caches may be kept until
    /// the first delivery drops them, but answers to the store's earlier opening are not cached any more.
    pub fn resumed(&mut self, boot: Boot) {
        *self = Self::new(boot);
    }

    /// Decides about a delivery.
    pub fn receive<C>(&mut self, boot: Boot, number: u64, delivery: &Delivery<C>) -> Received {
        if boot != self.boot {
            return Received::Foreign;
        }
        let follows = number == self.applied + 1 || matches!(delivery, Delivery::All);
        if number <= self.applied {
            Received::Repeated
        } else if follows {
            self.applied = number;
            Received::Apply
        } else {
            Received::Gap
        }
    }

    /// The number of the last applied change.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Whether an answer that includes all changes up to `included` may be cached.
    pub fn may_cache(&self, boot: Boot, included: u64) -> bool {
        boot == self.boot && included >= self.applied
    }
}
