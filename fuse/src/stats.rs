//! How often each operation was called, how often it failed, and how long it took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The operations of a mount, as they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Lookup,
    Forget,
    GetAttr,
    SetAttr,
    ReadLink,
    Make,
    Unlink,
    RemoveDir,
    Rename,
    Link,
    Create,
    Open,
    Read,
    Write,
    Flush,
    Release,
    Sync,
    OpenDir,
    ReadDir,
    ReadDirPlus,
    ReleaseDir,
    StatFs,
    GetXattr,
    SetXattr,
    ListXattr,
    RemoveXattr,
    Allocate,
    Seek,
    Invalidate,
}

/// Their names, in the same order.
const NAMES: [&str; Op::Invalidate as usize + 1] = [
    "lookup",
    "forget",
    "getattr",
    "setattr",
    "readlink",
    "make",
    "unlink",
    "rmdir",
    "rename",
    "link",
    "create",
    "open",
    "read",
    "write",
    "flush",
    "release",
    "fsync",
    "opendir",
    "readdir",
    "readdirplus",
    "releasedir",
    "statfs",
    "getxattr",
    "setxattr",
    "listxattr",
    "removexattr",
    "fallocate",
    "lseek",
    "invalidate",
];

/// Upper bounds of the latency buckets, in microseconds; one more bucket holds what took longer.
pub const LATENCY_BOUNDS_US: [u64; 16] =
    [5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 500_000, 2_000_000];

const BUCKETS: usize = LATENCY_BOUNDS_US.len() + 1;

#[derive(Debug, Default)]
struct Counter {
    errors: AtomicU64,
    nanos: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// The counters of one mount.
#[derive(Debug)]
pub(crate) struct Stats {
    operations: [Counter; NAMES.len()],
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

impl Default for Stats {
    fn default() -> Self {
        let operations = std::array::from_fn(|_| Counter::default());
        Self { operations, read_bytes: AtomicU64::new(0), written_bytes: AtomicU64::new(0) }
    }
}

impl Stats {
    /// Counts one operation.
    pub fn record(&self, op: Op, took: Duration, failed: bool) {
        let counter = &self.operations[op as usize];
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BOUNDS_US.partition_point(|bound| bound * 1_000 < nanos);
        counter.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        counter.nanos.fetch_add(nanos, Ordering::Relaxed);
        counter.errors.fetch_add(u64::from(failed), Ordering::Relaxed);
    }

    /// Counts bytes read by programs, past the kernel's cache.
    pub fn read(&self, bytes: usize) {
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes written.
    pub fn written(&self, bytes: usize) {
        self.written_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The figures as they are now.
    pub fn snapshot(&self) -> StatsSnapshot {
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let operations = NAMES
            .iter()
            .zip(&self.operations)
            .map(|(name, counter)| {
                let buckets: Vec<u64> = counter.buckets.iter().map(load).collect();
                OperationStats {
                    name,
                    count: buckets.iter().sum(),
                    errors: load(&counter.errors),
                    total: Duration::from_nanos(load(&counter.nanos)),
                    buckets,
                }
            })
            .collect();
        StatsSnapshot { operations, read_bytes: load(&self.read_bytes), written_bytes: load(&self.written_bytes) }
    }
}

/// The figures of one mount at one moment.
#[derive(Clone, Debug)]
pub struct StatsSnapshot {
    /// Each operation, also those never called.
    pub operations: Vec<OperationStats>,
    /// Bytes programs read, past the kernel's cache.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// The figures of one operation.
#[derive(Clone, Debug)]
pub struct OperationStats {
    /// Its name, as in the FUSE protocol.
    pub name: &'static str,
    /// How often it was called.
    pub count: u64,
    /// How often it was answered with an error.
    pub errors: u64,
    /// The time all calls took together.
    pub total: Duration,
    /// How many calls fell below each of [`LATENCY_BOUNDS_US`] and above the one before; last, those above all.
    pub buckets: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_fall_into_their_buckets() {
        let stats = Stats::default();
        for micros in [1, 5, 6, 1_000, 3_000_000] {
            stats.record(Op::Write, Duration::from_micros(micros), micros == 6);
        }
        let snapshot = stats.snapshot();
        let write = snapshot.operations.iter().find(|operation| operation.name == "write").unwrap();
        assert_eq!((write.count, write.errors), (5, 1));
        assert_eq!((write.buckets[0], write.buckets[1], write.buckets[7], write.buckets[16]), (2, 1, 1, 1));
        assert_eq!(snapshot.operations.len(), write.buckets.len() + 12);
    }
}
