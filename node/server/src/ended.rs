//! Sessions that ended, and why: counts for metrics, and the last ones for operators.
//!
//! The last ones are in memory and bounded; the log has all of them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use node_session::{Moment, SessionId};
use parking_lot::Mutex;

/// How many of the last sessions are kept that ended.
const KEPT: usize = 128;

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The node closed it, as it does at unmount.
    Closed,
    /// The node did not renew its lease.
    Lease,
    /// The node left changes of others unacknowledged, so its lease was not renewed any more.
    Behind,
    /// The node did not come back after a restart of the store.
    Absent,
    /// The store ended it: the volume is no longer published to the node, the grant or the bucket is gone, or too many
    /// changes were undelivered.
    Access,
    /// An administrator ended it.
    Administrator,
}

impl Why {
    /// All reasons.
    pub const ALL: [Self; 6] =
        [Self::Closed, Self::Lease, Self::Behind, Self::Absent, Self::Access, Self::Administrator];

    /// Its name in metrics and in what commands print.
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Lease => "lease",
            Self::Behind => "behind",
            Self::Absent => "absent",
            Self::Access => "access",
            Self::Administrator => "administrator",
        }
    }
}

/// Whose session it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The name of the node.
    pub node: String,
    /// The bucket or snapshot.
    pub bucket: String,
}

/// A session that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedSession {
    /// Its id.
    pub id: SessionId,
    /// Whose it was.
    pub named: Named,
    /// Why.
    pub why: Why,
    /// When.
    pub at: Moment,
}

/// What is known of ended sessions.
#[derive(Default)]
pub(crate) struct Ended {
    counts: [AtomicU64; Why::ALL.len()],
    last: Mutex<VecDeque<EndedSession>>,
}

impl Ended {
    /// A session ended; this is also its line in the log.
    pub(crate) fn add(&self, session: EndedSession) {
        let EndedSession { id, named: Named { node, bucket }, why, .. } = &session;
        let (session_id, why_name) = (format!("{:032x}", id.0), why.name());
        match why {
            Why::Closed => tracing::info!(session = session_id, node, bucket, "a node closed its session"),
            _ => tracing::warn!(
                session = session_id,
                node,
                bucket,
                why = why_name,
                "a node's session is ended and fenced"
            ),
        }
        if let Some(at) = Why::ALL.iter().position(|known| known == why) {
            self.counts[at].fetch_add(1, Relaxed);
        }
        let mut last = self.last.lock();
        last.push_back(session);
        let beyond = last.len().saturating_sub(KEPT);
        last.drain(..beyond);
    }

    /// The last ones, the newest first.
    pub(crate) fn last(&self) -> Vec<EndedSession> {
        self.last.lock().iter().rev().cloned().collect()
    }

    /// How many ended, by [`Why::ALL`].
    pub(crate) fn counts(&self) -> [u64; Why::ALL.len()] {
        std::array::from_fn(|at| self.counts[at].load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_bounded_and_the_counts_are_not() {
        let ended = Ended::default();
        for number in 0..2 * KEPT as u128 {
            let (id, named) = (SessionId(number), Named::default());
            ended.add(EndedSession { id, named, why: Why::Lease, at: Moment::default() });
        }
        let last = ended.last();
        assert_eq!((last.len(), last[0].id), (KEPT, SessionId(2 * KEPT as u128 - 1)));
        assert_eq!(ended.counts(), [0, 2 * KEPT as u64, 0, 0, 0, 0]);
    }
}
