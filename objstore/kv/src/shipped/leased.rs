//! Snapshots of a copy, read under the lease: what is returned was current while the lease was known to hold.
//!
//! - The lease is looked at after the read. Before it, it could end while the read is made.
//! - Once the log is lost, answers are withheld for a while: the process is about to be replaced, and a caller that waits
//!   for the next one sees a pause where it would otherwise see an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use objstore_base::error::{Error, Result};
use objstore_log::keeper::Term;

use super::LEASE_WAIT;
use crate::txn::{Pair, Read, Snapshot, Value};

/// Withholds answers after the log was lost.
pub(super) struct Withheld {
    limit: Duration,
    /// Whether the process ends by itself: then nothing is withheld.
    ended: AtomicBool,
}

impl Withheld {
    pub fn new(limit: Duration) -> Self {
        Self { limit, ended: AtomicBool::new(false) }
    }

    /// Returns after the limit; called instead of an answer.
    pub fn wait(&self) {
        if !self.ended.load(Ordering::Acquire) {
            std::thread::sleep(self.limit);
        }
    }

    /// The log is given up as planned.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }
}

/// A lease, and what happens without it.
#[derive(Clone)]
pub(super) struct Lease {
    pub term: Arc<Term>,
    pub withheld: Arc<Withheld>,
}

impl Lease {
    /// Refuses without a lease that is known to hold, after a wait for its renewal.
    pub fn check(&self) -> Result<()> {
        if self.term.holds() || self.term.holds_within(LEASE_WAIT) {
            return Ok(());
        }
        self.withheld.wait();
        Err(Error::Busy { what: "the store, whose log another server may have taken over,".into() })
    }
}

/// A snapshot that is refused without a lease.
pub(super) struct Leased {
    snapshot: Box<dyn Snapshot>,
    lease: Lease,
}

impl Leased {
    pub fn new(snapshot: Box<dyn Snapshot>, lease: Lease) -> Self {
        Self { snapshot, lease }
    }

    fn passed<T>(&self, read: Result<T>) -> Result<T> {
        self.lease.check()?;
        read
    }
}

impl Read for Leased {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.passed(self.snapshot.get(key))
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>> {
        self.passed(self.snapshot.scan(from, to, limit))
    }

    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>> {
        self.passed(self.snapshot.scan_back(from, to, limit))
    }
}

impl Snapshot for Leased {}
