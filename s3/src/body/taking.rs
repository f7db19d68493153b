//! How a client takes an answer that has a share of the memory.
//!
//! - Only the time counts that passes while the client has what was given, not what the store takes.
//! - The body looks when it is asked for more. For a client that takes nothing more its connection looks, every
//!   [`LOOK`](super::LOOK).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Share;

/// An answer being taken.
pub(crate) struct Taking {
    share: Share,
    pace: Mutex<Pace>,
}

#[derive(Default)]
struct Pace {
    /// Bytes given.
    bytes: u64,
    /// Since when the client has what was given last.
    since: Option<Instant>,
    /// How long it took for what came before.
    waited: Duration,
}

impl Taking {
    /// One of which nothing was given yet.
    pub(super) fn new(share: Share) -> Self {
        Self { share, pace: Mutex::default() }
    }

    /// The client wants more.
    pub(super) fn asked(&self) {
        let mut pace = self.pace();
        let waited = pace.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        pace.waited += waited;
    }

    /// The client has so many bytes more.
    pub(super) fn gave(&self, bytes: usize) {
        let mut pace = self.pace();
        pace.bytes += bytes as u64;
        pace.since = Some(Instant::now());
    }

    /// Whether the client takes so little that others wait for its share.
    pub(crate) fn is_too_slow(&self) -> bool {
        let pace = self.pace();
        let since = pace.since.map_or(Duration::ZERO, |since| since.elapsed());
        self.share.is_wasted(pace.bytes, pace.waited + since)
    }

    /// Whether the client took nothing for so long while others wait for its share.
    pub(crate) fn is_stalled(&self, limit: Duration) -> bool {
        self.share.is_wanted() && self.pace().since.is_some_and(|since| since.elapsed() >= limit)
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
