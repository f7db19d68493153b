//! Where a store's log is, and under which name this server owns it.

use std::fmt;
use std::sync::Arc;

use objstore_log::{Claim, Log};

/// Who renews the lease of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// A thread of the store.
    Kept,
    /// None: it ends after its length. For tests that have no thread.
    Untended,
}

/// A log, and the claim by which this server owns it.
#[derive(Clone)]
pub struct Place {
    /// The log.
    pub log: Arc<dyn Log>,
    /// The server and its lease.
    pub claim: Claim,
    /// Who renews the lease.
    pub lease: Lease,
}

impl Place {
    /// The place of `log` for the server of `claim`, whose lease is kept.
    pub fn new(log: Arc<dyn Log>, claim: Claim) -> Self {
        Self { log, claim, lease: Lease::Kept }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("claim", &self.claim).finish_non_exhaustive()
    }
}
