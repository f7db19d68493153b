//! The store's side of the delivery: the changes that one session has not acknowledged.

use std::collections::VecDeque;

use crate::Moment;

/// What is delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery<C> {
    /// One change.
    One(C),
    /// So much changed that every cache is to be dropped.
    All,
}

#[derive(Clone, Debug)]
struct Undelivered<C> {
    number: u64,
    /// When the first change in it was published.
    published: Moment,
    delivery: Delivery<C>,
}

/// The changes that a session has not acknowledged.
#[derive(Clone, Debug)]
pub struct Outbox<C> {
    published: u64,
    acknowledged: u64,
    undelivered: VecDeque<Undelivered<C>>,
    most: usize,
}

impl<C> Outbox<C> {
    /// The outbox of a new session, which keeps so many changes.
    pub fn new(most: usize) -> Self {
        Self { published: 0, acknowledged: 0, undelivered: VecDeque::new(), most: most.max(1) }
    }

    /// The outbox of a session that a store finds when it opens: what its caches have not seen is unknown, so they are to
    /// be dropped first.
    pub fn reopened(most: usize, now: Moment) -> Self {
        let mut outbox = Self::new(most);
        outbox.push(Delivery::All, now);
        outbox
    }

    /// Adds a change in the order of the commits; its number.
    pub fn publish(&mut self, change: C, now: Moment) -> u64 {
        if self.undelivered.len() >= self.most {
            let first = self.undelivered.front().map_or(now, |oldest| oldest.published);
            self.undelivered.clear();
            self.undelivered.push_back(Undelivered {
                number: self.published,
                published: first,
                delivery: Delivery::All,
            });
        }
        self.push(Delivery::One(change), now)
    }

    fn push(&mut self, delivery: Delivery<C>, published: Moment) -> u64 {
        self.published += 1;
        self.undelivered.push_back(Undelivered { number: self.published, published, delivery });
        self.published
    }

    /// The number of the last change: answers that are read now include it.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// The session has applied everything up to this number.
    pub fn acknowledge(&mut self, number: u64) {
        self.acknowledged = self.acknowledged.max(number.min(self.published));
        while self.undelivered.front().is_some_and(|oldest| oldest.number <= self.acknowledged) {
            self.undelivered.pop_front();
        }
    }

    /// Whether the session has applied everything up to this number.
    pub fn is_acknowledged(&self, number: u64) -> bool {
        self.acknowledged >= number
    }

    /// What to deliver, with its numbers, in order; after a reconnection all of it again.
    pub fn undelivered(&self) -> impl Iterator<Item = (u64, &Delivery<C>)> {
        self.undelivered.iter().map(|one| (one.number, &one.delivery))
    }

    /// Since when an acknowledgement of the session is outstanding.
    pub fn oldest(&self) -> Option<Moment> {
        self.undelivered.front().map(|oldest| oldest.published)
    }
}
