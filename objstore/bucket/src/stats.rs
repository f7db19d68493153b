//! Counts and latencies of requests.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use objstore_base::latency::{Latency, Recorder};

use crate::error::{Error, Result};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Writes an object or a part.
    Put,
    /// Reads an object or a range.
    Get,
    /// Lists keys or uploads.
    List,
    /// Removes objects.
    Delete,
}

impl Kind {
    /// All kinds, in the order of [`Stats::latencies`].
    pub const ALL: [Self; 4] = [Self::Put, Self::Get, Self::List, Self::Delete];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::List => "list",
            Self::Delete => "delete",
        }
    }
}

/// Counts since the client was made, by [`Kind`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// How long requests took, with their retries.
    pub latencies: [Latency; 4],
    /// How many failed at last: missing objects and conflicts are answers, and not counted.
    pub errors: [u64; 4],
}

/// The counters behind [`Stats`].
#[derive(Default)]
pub(crate) struct Counters {
    latencies: [Recorder; 4],
    errors: [AtomicU64; 4],
}

impl Counters {
    /// Runs a request and counts it.
    pub async fn count<T>(&self, kind: Kind, request: impl Future<Output = Result<T>>) -> Result<T> {
        let started = Instant::now();
        let answer = request.await;
        self.latencies[kind as usize].record(started.elapsed());
        if let Err(error) = &answer
            && !matches!(error, Error::Missing { .. } | Error::Conflict { .. })
        {
            self.errors[kind as usize].fetch_add(1, Relaxed);
        }
        answer
    }

    pub fn read(&self) -> Stats {
        let latencies = std::array::from_fn(|at| self.latencies[at].read());
        Stats { latencies, errors: std::array::from_fn(|at| self.errors[at].load(Relaxed)) }
    }
}
