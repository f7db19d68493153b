//! Who owns a log and which servers follow it, as the log knows: for people, and for a planned hand-over.
//!
//! - It is a hint, and decides nothing about ownership: [`Log::fence`](crate::Log::fence) does.

use std::time::Duration;

use crate::owner::Epoch;

/// A server that follows the log into a copy of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follower {
    /// Its name, as in its claims.
    pub server: String,
    /// The last entry that its copy had when it announced itself.
    pub at: u64,
    /// How many entries it lacked then.
    pub behind: u64,
    /// How long ago that was.
    pub seen: Duration,
}

/// The owner and the followers of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The present epoch; it rises with each takeover.
    pub epoch: Epoch,
    /// The name of the server that has it.
    pub server: String,
    /// How long its lease still lasts; zero if it has ended or was released.
    pub lease: Duration,
    /// The other servers that announced themselves lately, the one that lacks least first.
    pub followers: Vec<Follower>,
}
