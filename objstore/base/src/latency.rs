//! Latency histograms to which any thread adds without a lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Upper bounds of the buckets, in microseconds; one further bucket is for longer durations.
pub const BOUNDS_US: [u64; 16] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    10_000_000,
];

const BUCKETS: usize = BOUNDS_US.len() + 1;

/// A snapshot of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// The number of durations in each bucket: at most its bound, and longer than the bound before it.
    pub buckets: [u64; BUCKETS],
    /// The sum of all durations, in microseconds.
    pub total_us: u64,
}

impl Latency {
    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// A histogram that is being recorded; each duration costs two atomic additions.
#[derive(Debug, Default)]
pub struct Recorder {
    buckets: [AtomicU64; BUCKETS],
    total_us: AtomicU64,
}

impl Recorder {
    /// Adds one duration.
    pub fn record(&self, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < took_us);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.total_us.fetch_add(took_us, Relaxed);
    }

    /// Runs `work` and adds its duration, also if it returns an error.
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        self.record(started.elapsed());
        done
    }

    /// The current content of the histogram.
    pub fn read(&self) -> Latency {
        let buckets = std::array::from_fn(|at| self.buckets[at].load(Relaxed));
        Latency { buckets, total_us: self.total_us.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_in_the_bucket_of_its_bound() {
        let recorder = Recorder::default();
        for micros in [0, 50, 51, 10_000_000, 10_000_001] {
            recorder.record(Duration::from_micros(micros));
        }
        let latency = recorder.read();
        assert_eq!((latency.buckets[0], latency.buckets[1], latency.buckets[15], latency.buckets[16]), (2, 1, 1, 1));
        assert_eq!((latency.count(), latency.total_us), (5, 20_000_102));
    }
}
