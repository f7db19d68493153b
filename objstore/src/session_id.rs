//! The numbers of sessions and mounts.

use std::sync::atomic::{AtomicU64, Ordering};

pub use objstore_files::SessionId;

static NEXT_MOUNT: AtomicU64 = AtomicU64::new(1);

/// A number that identifies a mount.
pub(crate) fn next_mount() -> u64 {
    NEXT_MOUNT.fetch_add(1, Ordering::Relaxed)
}
