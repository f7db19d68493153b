//! Where a store's log is, and under which name this server owns it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use objstore_log::{Claim, Log};

use crate::vault::Vault;

/// Who renews the lease of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// A thread of the store.
    Kept,
    /// None: it ends after its length. For tests that have no thread.
    Untended,
}

/// Receives the reason when this server has lost the log; called once or more, from any thread, which must not be
/// blocked. From then on the store refuses reads and writes.
pub type Lost = Arc<dyn Fn(&str) + Send + Sync>;

/// A log, and the claim by which this server owns it.
#[derive(Clone)]
pub struct Place {
    /// The log.
    pub log: Arc<dyn Log>,
    /// The server and its lease.
    pub claim: Claim,
    /// Who renews the lease.
    pub lease: Lease,
    /// What happens when the log is lost.
    pub lost: Lost,
    /// How long answers are withheld after that, so that the process can be replaced without an error to any caller.
    pub withheld: Duration,
    /// Where checkpoints go, and after how many bytes of log; `None`: the log is never trimmed.
    pub checkpoints: Option<Checkpoints>,
}

/// A place of checkpoints.
#[derive(Clone)]
pub struct Checkpoints {
    /// The place.
    pub vault: Arc<dyn Vault>,
    /// After how many bytes of log a checkpoint is made, which bounds what an opening replays.
    pub log_bytes: u64,
}

impl Place {
    /// The place of `log` for the server of `claim`, whose lease is kept, without checkpoints. No answer is
    /// withheld.
    pub fn new(log: Arc<dyn Log>, claim: Claim, lost: Lost) -> Self {
        Self { log, claim, lease: Lease::Kept, lost, withheld: Duration::ZERO, checkpoints: None }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("claim", &self.claim).finish_non_exhaustive()
    }
}
