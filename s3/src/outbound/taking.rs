//! The progress of a client that reads a response with a memory share.
//!
//! - Only the time counts during which the client has unread data, not the time that the store takes.
//! - The response body checks when it is asked for more. For a client that reads nothing, its connection checks every
//!   [`LOOK`](crate::body::LOOK).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::body::Share;

/// A response that is being read.
pub(crate) struct Taking {
    share: Share,
    pace: Mutex<ByteRate>,
}

#[derive(Default)]
struct ByteRate {
    /// Bytes handed out.
    bytes: u64,
    /// Since when the client has had the last data handed out.
    since: Option<Instant>,
    /// The total time that it took for earlier data.
    waited: Duration,
}

impl Taking {
    /// A response of which nothing was handed out yet.
    pub(super) fn new(share: Share) -> Self {
        Self { share, pace: Mutex::default() }
    }

    /// The client asks for more.
    pub(super) fn asked(&self) {
        let mut pace = self.pace();
        let waited = pace.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        pace.waited += waited;
    }

    /// More bytes were handed out to the client.
    pub(super) fn gave(&self, bytes: usize) {
        let mut pace = self.pace();
        pace.bytes += bytes as u64;
        pace.since = Some(Instant::now());
    }

    /// Whether the client reads too slowly while others wait for its memory.
    pub(crate) fn is_too_slow(&self) -> bool {
        let pace = self.pace();
        let since = pace.since.map_or(Duration::ZERO, |since| since.elapsed());
        self.share.is_wasted(pace.bytes, pace.waited + since)
    }

    /// Whether the client read nothing for `limit` while others wait for its memory.
    pub(crate) fn is_stalled(&self, limit: Duration) -> bool {
        self.share.is_wanted() && self.pace().since.is_some_and(|since| since.elapsed() >= limit)
    }

    fn pace(&self) -> MutexGuard<'_, ByteRate> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
