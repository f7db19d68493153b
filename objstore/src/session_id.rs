//! The numbers of sessions and mounts.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// The id of a mount's session, which stays the same across restarts of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(NonZeroU64);

impl SessionId {
    /// The session id for a number; `None` for zero.
    pub fn new(id: u64) -> Option<Self> {
        NonZeroU64::new(id).map(Self)
    }

    /// The id as a number.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

static NEXT_MOUNT: AtomicU64 = AtomicU64::new(1);

/// A number that identifies a mount.
pub(crate) fn next_mount() -> u64 {
    NEXT_MOUNT.fetch_add(1, Ordering::Relaxed)
}
