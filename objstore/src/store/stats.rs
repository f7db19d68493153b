//! Statistics of the store, for metrics.

use super::{Store, Usage};
use crate::blob::RemoteStats;
use crate::core::Named;
use crate::error::Result;
use crate::latency::Latency;
use crate::meta::LogStats;
use crate::name::BucketName;
use crate::record::bucket::Bucket as BucketRecord;
use crate::record::decode;
use crate::record::key::{self, tag};

/// Records read at a time.
const PAGE: usize = 1000;

/// Statistics of the store since it was opened, and its state.
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
    /// The total time of those in microseconds.
    pub sync_time_us: u64,
    /// Latency of commits, with the sync if one was requested.
    pub commit_latency: Latency,
    /// Latency of waits for metadata to be synced.
    pub metadata_sync_latency: Latency,
    /// Latency of each fsync, fdatasync and syncfs of `objstore::disk`: content, folders, and logs of metadata.
    pub disk_sync_latency: Latency,
    /// How long answers to changes waited until other mounts had dropped what they cache.
    pub mounts_wait_latency: Latency,
    /// The log of the metadata on other machines, if there is one.
    pub log: Option<LogStats>,
    /// Blobs and segments removed.
    pub collected: u64,
    /// Why the store refuses writes, if it does.
    pub poisoned: Option<String>,
    /// What content in a bucket does; `None` if it is in the data folder.
    pub content: Option<RemoteStats>,
    /// Whether the disk is too full for writes other than small changes and deletions.
    pub disk_full: bool,
    /// Free bytes on the disk of the data folder.
    pub free_bytes: u64,
    /// Size of the disk of the data folder in bytes.
    pub total_bytes: u64,
}

/// The usage of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketUsage {
    /// Its name.
    pub name: BucketName,
    /// Its id: a later bucket of the same name has another.
    pub id: u64,
    /// What it holds.
    pub usage: Usage,
}

impl Store {
    /// Statistics for metrics.
    pub fn stats(&self) -> Stats {
        let meta = self.core.meta.stats();
        let space = self.core.disk.space(&self.core.dir).ok();
        Stats {
            commits: meta.commits,
            operations: meta.operations,
            queue_depth: meta.queue_depth,
            syncs: meta.syncs,
            sync_time_us: meta.sync_time_us,
            commit_latency: meta.commit_latency,
            metadata_sync_latency: meta.sync_latency,
            disk_sync_latency: self.core.disk.sync_latency(),
            mounts_wait_latency: self.core.feeds.waited(),
            log: meta.log,
            collected: self.background.collected(),
            poisoned: self.core.meta.poisoned(),
            content: self.core.blobs.remote_stats(),
            disk_full: space.is_some_and(|space| space.free_bytes == 0),
            free_bytes: space.map_or(0, |space| space.free_bytes),
            total_bytes: space.map_or(0, |space| space.total_bytes),
        }
    }

    /// The usage of each bucket by name: two records each, all read at one moment except the growth of dirty files.
    pub fn usages(&self) -> Result<Vec<BucketUsage>> {
        let snapshot = self.core.meta.snapshot();
        let (mut from, to) = (vec![tag::BUCKET], key::after_prefix(&[tag::BUCKET]));
        let mut usages = Vec::new();
        loop {
            let pairs = snapshot.scan(&from, &to, PAGE)?;
            for pair in &pairs {
                let name: BucketName = String::from_utf8_lossy(&pair.key[1..]).parse()?;
                let record: BucketRecord = decode("a bucket", &pair.value)?;
                let (id, limit_bytes) = (record.id, record.quota_bytes);
                let ancestry = self.core.ancestry_of(&*snapshot, &Named::Bucket(record))?;
                let used = super::usage(&*snapshot, &ancestry)?;
                let ((), growth) = self.core.dirty.ledgers.with_growth(id, || ());
                let usage = Usage { bytes: used.bytes + growth, limit_bytes, ..used.into() };
                usages.push(BucketUsage { name, id, usage });
            }
            match pairs.last() {
                Some(last) if pairs.len() == PAGE => from = [&last.key[..], &[1]].concat(),
                _ => return Ok(usages),
            }
        }
    }
}
