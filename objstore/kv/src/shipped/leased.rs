//! Snapshots of a copy, read under the lease: what is returned was current while the lease was known to hold.
//!
//! - The lease is looked at after the read. Before it, it could end while the read is made.

use std::sync::Arc;

use objstore_base::error::{Error, Result};
use objstore_log::keeper::Term;

use super::LEASE_WAIT;
use crate::txn::{Pair, Read, Snapshot, Value};

/// A snapshot that is refused without a lease.
pub(super) struct Leased {
    snapshot: Box<dyn Snapshot>,
    term: Arc<Term>,
}

impl Leased {
    pub fn new(snapshot: Box<dyn Snapshot>, term: Arc<Term>) -> Self {
        Self { snapshot, term }
    }

    fn passed<T>(&self, read: Result<T>) -> Result<T> {
        check(Some(&self.term))?;
        read
    }
}

/// Refuses without a lease that is known to hold, after a wait for its renewal.
pub(super) fn check(term: Option<&Term>) -> Result<()> {
    match term {
        Some(term) if !term.holds() && !term.holds_within(LEASE_WAIT) => {
            Err(Error::Busy { what: "the store, whose log another server may have taken over,".into() })
        }
        _ => Ok(()),
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
