//! The state that callers, the commit leader and the writer thread share.
//!
//! - [`leader`](super::leader) has the methods of a round, [`syncs`](super::syncs) those of syncs outside of one.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use objstore_base::error::Result;
use objstore_disk::Poison;
use parking_lot::{Condvar, Mutex};

use super::backend::{BATCH_KEY, Backend, decode_batch};
use super::epochs::Epochs;
use super::queue::{Queue, Request};
use super::stats::Counters;

/// State that callers and the writer thread share.
pub(super) struct WriterState<B> {
    pub backend: B,
    pub queue: Queue,
    pub counters: Counters,
    /// The number of the last committed batch.
    pub committed_batch: AtomicU64,
    /// The number of the last batch that is on disk.
    pub synced_batch: AtomicU64,
    pub poison: Poison,
    pub syncs: Syncs,
    /// Change counts for each kind of key.
    pub epochs: Epochs,
    /// The number of operations in the last batch.
    pub last_operations: AtomicU64,
    /// How long a buffered commit may wait for its sync.
    pub sync_after: Duration,
    /// Locked by the commit leader.
    pub work: Mutex<Work>,
}

impl<B: Backend> WriterState<B> {
    /// Continues with `backend`, all of whose content is on disk.
    pub fn new(backend: B, sync_after: Duration) -> Result<Self> {
        let last_batch = decode_batch(backend.snapshot().get(BATCH_KEY)?.as_deref())?;
        Ok(Self {
            backend,
            queue: Queue::default(),
            counters: Counters::default(),
            committed_batch: AtomicU64::new(last_batch),
            synced_batch: AtomicU64::new(last_batch),
            poison: Poison::default(),
            syncs: Syncs::default(),
            epochs: Epochs::default(),
            last_operations: AtomicU64::new(0),
            sync_after,
            work: Mutex::new(Work::after(last_batch)),
        })
    }
}

/// State that only the commit leader may touch.
pub(super) struct Work {
    pub taken: VecDeque<Request>,
    pub last_batch: u64,
}

impl Work {
    /// The state after a batch that is on disk.
    pub fn after(last_batch: u64) -> Self {
        Self { taken: VecDeque::new(), last_batch }
    }
}

/// Which sync is in progress, and what remains to be synced.
#[derive(Default)]
pub(super) struct Syncs {
    pub running: Mutex<bool>,
    pub ended: Condvar,
    /// The oldest commit that may not be on disk, and the time at which it must be.
    pub oldest: Mutex<Option<(u64, Instant)>>,
}
