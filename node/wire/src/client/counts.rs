//! What a client counts of its connections and calls, for operators.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use objstore_base::latency::{Latency, Recorder};
use parking_lot::Mutex;

use crate::header::Role;
use crate::traffic::{self, Traffic};

/// The longest reason that is kept of a failed attempt to connect.
const WHY_CHARS: usize = 300;

/// The counts while they are made.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) traffic: Arc<Traffic>,
    lanes: [Lane; Role::ALL.len()],
    under_way: AtomicU64,
    trips: Recorder,
}

#[derive(Debug, Default)]
struct Lane {
    /// How often a connection was admitted.
    admitted: AtomicU64,
    is_up: AtomicU64,
    /// Why the last attempt to connect failed, until one succeeds.
    why: Mutex<Option<String>>,
}

/// The connections and calls of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The open connections: three at most.
    pub connections: u32,
    /// How often a connection was opened again.
    pub reconnects: u64,
    /// The calls that wait for an answer now.
    pub under_way: u64,
    /// The times from sending a call to its answer, without those of the control connection.
    pub round_trips: Latency,
    /// The bytes in each direction.
    pub bytes: traffic::Bytes,
    /// Why there is a connection missing, if an attempt to open it failed.
    pub why: Option<String>,
}

/// A call under way; counted until it is dropped.
pub(super) struct Trip<'a> {
    counts: &'a Counts,
    began: Instant,
}

impl Counts {
    fn lane(&self, role: Role) -> &Lane {
        &self.lanes[usize::from(role as u8 - 1)]
    }

    pub(super) fn admitted(&self, role: Role) {
        let lane = self.lane(role);
        lane.admitted.fetch_add(1, Relaxed);
        lane.is_up.store(1, Relaxed);
        *lane.why.lock() = None;
    }

    /// A connection ended, or could not be opened, for this reason.
    pub(super) fn down(&self, role: Role, why: Option<&str>) {
        let lane = self.lane(role);
        lane.is_up.store(0, Relaxed);
        if let Some(why) = why {
            *lane.why.lock() = Some(why.chars().filter(|c| !c.is_control()).take(WHY_CHARS).collect());
        }
    }

    pub(super) fn begin(&self) -> Trip<'_> {
        self.under_way.fetch_add(1, Relaxed);
        Trip { counts: self, began: Instant::now() }
    }

    pub(super) fn read(&self) -> Stats {
        let sum = |of: fn(&Lane) -> u64| self.lanes.iter().map(of).sum::<u64>();
        Stats {
            connections: u32::try_from(sum(|lane| lane.is_up.load(Relaxed))).unwrap_or(0),
            reconnects: sum(|lane| lane.admitted.load(Relaxed).saturating_sub(1)),
            under_way: self.under_way.load(Relaxed),
            round_trips: self.trips.read(),
            bytes: self.traffic.bytes(),
            why: self.lanes.iter().find_map(|lane| lane.why.lock().clone()),
        }
    }
}

impl Trip<'_> {
    /// The call was answered.
    pub(super) fn answered(self) {
        self.counts.trips.record(self.began.elapsed());
    }
}

impl Drop for Trip<'_> {
    fn drop(&mut self) {
        self.counts.under_way.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_connection_is_no_reconnection_and_a_failure_is_told_until_one_is_open() {
        let counts = Counts::default();
        for role in Role::ALL {
            counts.admitted(role);
        }
        assert_eq!((counts.read().connections, counts.read().reconnects), (3, 0));
        counts.down(Role::Bulk, Some("a\nreason"));
        assert_eq!((counts.read().connections, counts.read().why.as_deref()), (2, Some("areason")));
        counts.admitted(Role::Bulk);
        assert_eq!((counts.read().reconnects, counts.read().why), (1, None));
    }

    #[test]
    fn a_call_that_is_not_answered_is_no_round_trip() {
        let counts = Counts::default();
        let (answered, dropped) = (counts.begin(), counts.begin());
        assert_eq!(counts.read().under_way, 2);
        answered.answered();
        drop(dropped);
        assert_eq!((counts.read().under_way, counts.read().round_trips.count()), (0, 1));
    }
}
