//! File locks across sessions: byte ranges (fcntl(2)) and whole files (flock(2)).
//!
//! - The two kinds do not see each other, as on Linux. A range lock belongs to a process or to an open file description
//!   (OFD), a whole-file lock to an open file description.
//! - Waiters are served in their order, as far as the locks that are held allow. A waiting request keeps nobody from a
//!   lock, as on Linux: a process may hold a shared lock and wait for a program of its own that takes another one, and
//!   would wait for ever if a waiting writer were in between.
//! - A request of a process that would close a cycle of waiting processes is refused (EDEADLK).
//! - The end of a session releases its locks and its waiting requests. After a restart of the store, sessions reclaim
//!   their locks in the grace time, before others can take them.

mod file;
mod manager;
#[cfg(test)]
mod model;
mod range;
mod waits;

pub use manager::{Conflict, Locks, Set, Ticket, Wait};
pub use range::{Mode, Range};

use crate::SessionId;

/// Which kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Byte ranges: fcntl(2).
    Ranges,
    /// Whole files: flock(2).
    Whole,
}

/// The owner of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A process of a node, by the kernel's lock owner. Its requests take part in the detection of deadlocks.
    Process(SessionId, u64),
    /// An open file description of a node.
    Description(SessionId, u64),
}

impl Owner {
    /// The session of the node.
    pub fn session(self) -> SessionId {
        match self {
            Self::Process(session, _) | Self::Description(session, _) => session,
        }
    }
}
