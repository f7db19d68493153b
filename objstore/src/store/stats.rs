//! Figures for metrics.

use super::Store;

/// What the store did since it was opened, and how it is.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Batches committed.
    pub commits: u64,
    /// Operations run.
    pub operations: u64,
    /// Operations waiting.
    pub queue_depth: u64,
    /// Commits and syncs that waited for the disk.
    pub syncs: u64,
    /// The time those took together, in microseconds.
    pub sync_time_us: u64,
    /// Blobs and segments removed.
    pub collected: u64,
    /// Why the store refuses writes, if it does.
    pub poisoned: Option<String>,
    /// Whether the disk is too full for anything but changes and deletions.
    pub disk_full: bool,
    /// Bytes free on the disk under the data folder.
    pub free_bytes: u64,
    /// Bytes of the disk under the data folder.
    pub total_bytes: u64,
}

impl Store {
    /// Figures for metrics.
    pub fn stats(&self) -> Stats {
        let meta = self.core.meta.stats();
        let space = self.core.disk.space(&self.core.dir).ok();
        Stats {
            commits: meta.commits,
            operations: meta.operations,
            queue_depth: meta.queue_depth,
            syncs: meta.syncs,
            sync_time_us: meta.sync_time_us,
            collected: self.background.collected(),
            poisoned: self.core.meta.poisoned(),
            disk_full: space.is_some_and(|space| space.free_bytes == 0),
            free_bytes: space.map_or(0, |space| space.free_bytes),
            total_bytes: space.map_or(0, |space| space.total_bytes),
        }
    }
}
