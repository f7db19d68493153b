//! Totals over all mounts of this process, including ended ones, so that counters never decrease.

use std::collections::BTreeMap;
use std::time::Duration;

use fuse::{LATENCY_BOUNDS_US, StatsSnapshot};

/// Sums over mounts.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// By the operation's name.
    pub operations: BTreeMap<&'static str, OperationTotal>,
    /// Bytes that programs read from the server, not from the kernel's cache.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
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
    pub(super) fn add(&mut self, stats: &StatsSnapshot) {
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
