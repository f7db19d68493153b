//! Totals over all mounts of this process, including ended ones, so that counters never decrease.

use std::collections::BTreeMap;
use std::time::Duration;

use fuse::{LATENCY_BOUNDS_US, Mount, StatsSnapshot};
use objstore::latency::Latency;
use objstore_files::LinkStats;

/// Sums over mounts.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// By the operation's name.
    pub operations: BTreeMap<&'static str, OperationTotal>,
    /// Bytes that programs read from the server, not from the kernel's cache.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// The connections to stores on other machines.
    pub links: LinkTotals,
}

/// Totals of the connections to stores on other machines.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkTotals {
    /// Connections that were opened again.
    pub reconnects: u64,
    /// Bytes received from stores.
    pub received_bytes: u64,
    /// Bytes sent to stores.
    pub sent_bytes: u64,
    /// The times until a call was answered.
    pub round_trips: Latency,
}

/// Totals of one operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperationTotal {
    /// Calls.
    pub count: u64,
    /// Calls answered with an error.
    pub errors: u64,
    /// The total time of the calls.
    pub took: Duration,
    /// The latency histogram, as in [`fuse::OperationStats::buckets`].
    pub buckets: [u64; LATENCY_BOUNDS_US.len() + 1],
}

impl Totals {
    /// Adds the statistics of a mount.
    pub(super) fn add(&mut self, mount: &Mount) {
        self.links.add(mount.files().link());
        self.add_stats(&mount.stats());
    }

    fn add_stats(&mut self, stats: &StatsSnapshot) {
        self.read_bytes += stats.read_bytes;
        self.written_bytes += stats.written_bytes;
        for operation in &stats.operations {
            let total = self.operations.entry(operation.name).or_default();
            total.count += operation.count;
            total.errors += operation.errors;
            total.took += operation.total;
            for (sum, calls) in total.buckets.iter_mut().zip(&operation.buckets) {
                *sum += calls;
            }
        }
    }
}

impl LinkTotals {
    fn add(&mut self, link: Option<LinkStats>) {
        let Some(link) = link else { return };
        self.reconnects += link.reconnects;
        self.received_bytes += link.received_bytes;
        self.sent_bytes += link.sent_bytes;
        self.round_trips.total_us += link.round_trips.total_us;
        for (sum, count) in self.round_trips.buckets.iter_mut().zip(link.round_trips.buckets) {
            *sum += count;
        }
    }
}
