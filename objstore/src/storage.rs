//! The storage below a whole store: metadata, blobs, the disk under both, the clock and random bytes. It knows nothing
//! of buckets.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::blob::Blobs;
use crate::clock::{Clock, Random};
use crate::disk::{Disk, Lock};
use crate::error::Result;
use crate::meta::Meta;

/// The storage of an open store.
pub(crate) struct Storage {
    /// The metadata.
    pub meta: Meta,
    /// The content outside it.
    pub blobs: Blobs,
    /// The last metadata batch on disk, stamped into packed content.
    pub watermark: Arc<AtomicU64>,
    /// The disk under both.
    pub disk: Arc<dyn Disk>,
    /// The data folder.
    pub dir: PathBuf,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of random bytes.
    pub random: Arc<dyn Random>,
    /// How often the store was opened.
    pub life: u32,
    /// Keeps other servers off the data folder.
    pub _lock: Lock,
}

impl Storage {
    /// Refuses once a write to disk failed: bytes written after that might be lost silently.
    pub fn writable(&self) -> Result<()> {
        self.meta.poison().check()
    }
}
