//! Statistics of a mount: count, errors and latency of each operation; and each single call, for a watcher.
//!
//! - Counting costs a few atomic additions. Watching costs nothing while there is no watcher.
//! - A watcher that is too slow misses calls and receives their number; no call ever waits for a watcher.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use objstore_files::Trips;
use parking_lot::Mutex;

/// The operations that are counted.
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
    CopyRange,
    MakeUnnamed,
    SyncFs,
    StatX,
    Ioctl,
    Lock,
    Invalidate,
}

/// The operations' names, in the order of [`Op`].
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
    "copy_file_range",
    "tmpfile",
    "syncfs",
    "statx",
    "ioctl",
    "lock",
    "invalidate",
];

/// Upper bounds of the latency histogram in microseconds; one more bucket holds longer calls.
pub const LATENCY_BOUNDS_US: [u64; 16] =
    [5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 500_000, 2_000_000];

const BUCKETS: usize = LATENCY_BOUNDS_US.len() + 1;

#[derive(Debug, Default)]
struct Counter {
    errors: AtomicU64,
    nanos: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// The most calls that a watcher may lag behind.
const BEHIND_MAX: usize = 4096;

/// An answered call of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call<'a> {
    /// The operation.
    pub op: Op,
    /// The node of the call; for a call about a name, its directory.
    pub node: u64,
    /// The name.
    pub name: Option<&'a OsStr>,
    /// How long it took.
    pub took: Duration,
    /// The error it was answered with.
    pub errno: Option<i32>,
}

/// The counters of one mount.
#[derive(Debug)]
pub(crate) struct Stats {
    operations: [Counter; NAMES.len()],
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    watched: AtomicBool,
    watchers: Mutex<Vec<Watcher>>,
}

#[derive(Debug)]
struct Watcher {
    calls: SyncSender<WatchedCall>,
    /// Number of calls missed since the last one received.
    missed: u64,
}

/// One call, as a watcher receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedCall {
    /// The operation's name, as in [`OperationStats::name`].
    pub operation: &'static str,
    /// The inode of the call, as the mount numbers it; for a call about a name, its directory.
    pub node: u64,
    /// The name in that directory; for a rename, the old name.
    pub name: Option<String>,
    /// How long it took.
    pub took: Duration,
    /// The error it was answered with (errno(3)).
    pub errno: Option<i32>,
    /// Number of calls left out before this one because the watcher was too slow.
    pub missed: u64,
}

impl Default for Stats {
    fn default() -> Self {
        let operations = std::array::from_fn(|_| Counter::default());
        Self {
            operations,
            read_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            watched: AtomicBool::new(false),
            watchers: Mutex::default(),
        }
    }
}

impl Stats {
    /// Counts a call of the kernel and sends it to the watchers.
    pub fn call(&self, call: Call<'_>) {
        self.record(call.op, call.took, call.errno.is_some());
        if self.watched.load(Ordering::Relaxed) {
            self.tell(call);
        }
    }

    fn tell(&self, call: Call<'_>) {
        let mut watchers = self.watchers.lock();
        watchers.retain_mut(|watcher| watcher.tell(call));
        self.watched.store(!watchers.is_empty(), Ordering::Relaxed);
    }

    /// Subscribes to all calls from now on, until the receiver is dropped.
    pub fn watch(&self) -> Receiver<WatchedCall> {
        let (calls, watched) = sync_channel(BEHIND_MAX);
        let mut watchers = self.watchers.lock();
        watchers.push(Watcher { calls, missed: 0 });
        self.watched.store(true, Ordering::Relaxed);
        watched
    }

    /// Counts one operation.
    pub fn record(&self, op: Op, took: Duration, failed: bool) {
        let counter = &self.operations[op as usize];
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BOUNDS_US.partition_point(|bound| bound * 1_000 < nanos);
        counter.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        counter.nanos.fetch_add(nanos, Ordering::Relaxed);
        counter.errors.fetch_add(u64::from(failed), Ordering::Relaxed);
    }

    /// Counts bytes that programs read from this process, not from the kernel's cache.
    pub fn read(&self, bytes: usize) {
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes written.
    pub fn written(&self, bytes: usize) {
        self.written_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The current values of all counters.
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
        let (read_bytes, written_bytes) = (load(&self.read_bytes), load(&self.written_bytes));
        StatsSnapshot { operations, read_bytes, written_bytes, trips: Vec::new() }
    }
}

impl Watcher {
    /// Sends a call to one watcher. Returns whether it still listens.
    fn tell(&mut self, call: Call<'_>) -> bool {
        let Call { op, node, name, took, errno } = call;
        let name = name.map(|name| name.to_string_lossy().into_owned());
        let told = WatchedCall { operation: NAMES[op as usize], node, name, took, errno, missed: self.missed };
        match self.calls.try_send(told) {
            Ok(()) => self.missed = 0,
            Err(TrySendError::Full(_)) => self.missed += 1,
            Err(TrySendError::Disconnected(_)) => return false,
        }
        true
    }
}

/// The statistics of a mount at one moment.
#[derive(Clone, Debug)]
pub struct StatsSnapshot {
    /// All operations, including those never called.
    pub operations: Vec<OperationStats>,
    /// Bytes that programs read from the server, not from the kernel's cache.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// The calls of a store on another machine, and the trips that they took.
    pub trips: Vec<Trips>,
}

/// The statistics of one operation.
#[derive(Clone, Debug)]
pub struct OperationStats {
    /// The operation's name in the FUSE protocol.
    pub name: &'static str,
    /// Number of calls.
    pub count: u64,
    /// Number of calls answered with an error.
    pub errors: u64,
    /// The total time of all calls.
    pub total: Duration,
    /// Number of calls between each of [`LATENCY_BOUNDS_US`] and the bound before; the last entry counts those above
    /// all bounds.
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
        assert_eq!(snapshot.operations.len(), NAMES.len());
    }

    #[test]
    fn a_watcher_sees_each_call_or_how_many_it_missed() {
        let stats = Stats::default();
        let call =
            |node| Call { op: Op::Open, node, name: None, took: Duration::from_micros(3), errno: Some(libc::ENOENT) };
        stats.call(call(1));
        let watched = stats.watch();
        for node in 0..BEHIND_MAX as u64 + 5 {
            stats.call(call(node));
        }
        let first = watched.recv().unwrap();
        assert_eq!((first.operation, first.node, first.errno, first.missed), ("open", 0, Some(libc::ENOENT), 0));
        stats.call(call(99));
        let last = watched.try_iter().last().unwrap();
        assert_eq!((last.node, last.missed), (99, 5));
        drop(watched);
        stats.call(call(7));
        assert!(!stats.watched.load(Ordering::Relaxed));
        assert_eq!(stats.snapshot().operations[Op::Open as usize].errors, BEHIND_MAX as u64 + 8);
    }
}
