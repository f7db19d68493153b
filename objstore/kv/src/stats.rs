//! Statistics of the engine, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use objstore_base::latency::{Latency, Recorder};

/// Counters since the engine was opened, and the current queue depth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Operations run, including those that failed.
    pub operations: u64,
    /// Operations that returned an error or panicked.
    pub failures: u64,
    /// Batches committed.
    pub commits: u64,
    /// Bytes of keys and values committed.
    pub committed_bytes: u64,
    /// Commits and syncs that waited for the disk.
    pub syncs: u64,
    /// The total time of these commits and syncs, in microseconds.
    pub sync_time_us: u64,
    /// The slowest of these commits and syncs, in microseconds.
    pub slowest_sync_us: u64,
    /// How long each batch took to be committed, including its sync if one was asked for.
    pub commit_latency: Latency,
    /// How long each wait for the disk took: synced commits, and separate syncs.
    pub sync_latency: Latency,
    /// Operations queued and not run yet.
    pub queue_depth: u64,
    /// The log on other machines, if one keeps the batches.
    pub log: Option<LogStats>,
}

/// The state of a log on other machines, as its owner sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// The last batch that was passed to it.
    pub last_batch: u64,
    /// The last batch up to which it has acknowledged all.
    pub acknowledged_batch: u64,
    /// The last batch of the newest checkpoint that this server made; 0: none yet.
    pub checkpoint_batch: u64,
    /// How long the lease is known to hold without another renewal.
    pub lease: Duration,
}

/// The counters behind [`Stats`], written by the commit leader and read by any thread.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub operations: AtomicU64,
    pub failures: AtomicU64,
    pub commits: AtomicU64,
    pub committed_bytes: AtomicU64,
    commit_latency: Recorder,
    sync_latency: Recorder,
    slowest_sync_us: AtomicU64,
}

impl Counters {
    /// Counts a commit that took so long.
    pub fn committed(&self, took: Duration) {
        self.commit_latency.record(took);
    }

    /// Counts a wait for the disk that took so long.
    pub fn synced(&self, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.sync_latency.record(took);
        self.slowest_sync_us.fetch_max(took_us, Relaxed);
    }

    /// The current counters, with the given queue depth.
    pub fn read(&self, queue_depth: u64) -> Stats {
        let sync_latency = self.sync_latency.read();
        Stats {
            operations: self.operations.load(Relaxed),
            failures: self.failures.load(Relaxed),
            commits: self.commits.load(Relaxed),
            committed_bytes: self.committed_bytes.load(Relaxed),
            syncs: sync_latency.count(),
            sync_time_us: sync_latency.total_us,
            slowest_sync_us: self.slowest_sync_us.load(Relaxed),
            commit_latency: self.commit_latency.read(),
            sync_latency,
            queue_depth,
            log: None,
        }
    }
}
