//! The durations and limits that a node and a store agree on when a session is opened.

use std::time::Duration;

/// The terms of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long a session lives after a renewal.
    pub lease: Duration,
    /// How much faster than another machine's a clock may run, in millionths. Two clocks with NTP differ by less than
    /// 1,000; a clock without NTP by some 100; a virtual machine that is being moved by more.
    pub rate_difference_ppm: u32,
    /// The most undelivered changes that the store keeps for one session.
    pub changes: usize,
}

impl Default for Terms {
    fn default() -> Self {
        Self { lease: Duration::from_secs(20), rate_difference_ppm: 50_000, changes: 16_384 }
    }
}

impl Terms {
    /// How long after the sending of a renewal a node may serve from its caches.
    pub fn fresh(&self) -> Duration {
        self.lease / 2
    }

    /// How often a node renews: several attempts fit into the time in which it is fresh.
    pub fn renewal(&self) -> Duration {
        self.lease / 6
    }

    /// How long after the receipt of a renewal the store waits for a session, by its own clock: the node counts the same
    /// lease from an earlier moment, on a clock that may be slower.
    pub fn store_waits(&self) -> Duration {
        let margin = self.lease.as_nanos() * u128::from(self.rate_difference_ppm) / 1_000_000 + 1;
        self.lease + Duration::from_nanos(u64::try_from(margin).unwrap_or(u64::MAX))
    }

    /// How long a session may leave a change unacknowledged before its lease is no longer renewed.
    pub fn acknowledgement(&self) -> Duration {
        self.lease / 2
    }
}
