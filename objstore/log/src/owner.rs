//! Who owns a log, and where it begins and ends.

use std::fmt;
use std::time::Duration;

/// The number of an ownership; it rises with each.
pub type Epoch = u64;

/// A server's claim to own a log.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The server's name, which must be unique: a server with the name of the present owner takes the log over at once.
    pub server: String,
    /// How long other servers are kept out after each renewal.
    pub lease: Duration,
}

/// An ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// Its epoch.
    pub epoch: Epoch,
    /// The log's content at its beginning: no other entry of an earlier epoch will ever be read.
    pub tail: Tail,
}

/// Where a log begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The identity of the log.
    pub id: LogId,
    /// The number of the first entry that has not been trimmed.
    pub first: u64,
    /// The number of the next entry: one more than the last before the first gap.
    pub next: u64,
}

/// The random identity of a log, made with it: it tells a log from another one at the same address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogId(pub [u8; 16]);

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
