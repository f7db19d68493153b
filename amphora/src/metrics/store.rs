//! Metrics of the store and its background workers.

use std::fmt;
use std::sync::Arc;

use objstore::Store;
use objstore::blob::RemoteStats;
use objstore::bucket::Kind;
use objstore::lifecycle::Worker;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::{counter, gauge, latency, seconds, whole};

/// The metrics of the store.
pub(super) struct StoreStats(pub(super) Store);

impl fmt::Debug for StoreStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreFigures")
    }
}

impl Collector for StoreStats {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.0.stats();
        counter(&mut encoder, "store_commits", "Batches committed", stats.commits)?;
        counter(&mut encoder, "store_operations", "Operations committed", stats.operations)?;
        let poisoned = u64::from(stats.poisoned.is_some());
        gauge(&mut encoder, "store_poisoned", "1 while the store refuses writes after a failed sync", poisoned)?;
        let full = u64::from(stats.disk_full);
        gauge(&mut encoder, "store_disk_full", "1 while the disk is full and only deletions are accepted", full)?;
        gauge(&mut encoder, "store_disk_free_bytes", "Free bytes on the disk of the data folder", stats.free_bytes)?;
        gauge(
            &mut encoder,
            "store_disk_size_bytes",
            "Size of the disk of the data folder in bytes",
            stats.total_bytes,
        )?;
        let help = "Operations that wait to be committed";
        gauge(&mut encoder, "store_queued_operations", help, stats.queue_depth)?;
        let log = stats.log.unwrap_or_default();
        let help = "Last batch of metadata passed to the log; 0 without --metadata-url, like the other three";
        gauge(&mut encoder, "store_log_batch", help, log.last_batch)?;
        let help = "Last batch up to which the log in PostgreSQL has acknowledged all";
        gauge(&mut encoder, "store_log_acknowledged_batch", help, log.acknowledged_batch)?;
        let help = "Last batch of the newest checkpoint that this server made";
        gauge(&mut encoder, "store_log_checkpoint_batch", help, log.checkpoint_batch)?;
        let held = u64::from(!log.lease.is_zero());
        gauge(&mut encoder, "store_log_lease_held", "1 while the lease of the log is known to hold", held)?;
        counter(&mut encoder, "store_collected", "Blobs and segments removed by the collector", stats.collected)?;
        let seconds = Unit::Seconds;
        let mut histogram = |name: &str, help: &str, taken| {
            latency(encoder.encode_descriptor(name, help, Some(&seconds), MetricType::Histogram)?, taken)
        };
        let help = "Duration of metadata commits, including the sync of those that are synced";
        histogram("store_commit_duration", help, &stats.commit_latency)?;
        let help = "Time that callers waited for metadata to be synced, by commits or separate syncs";
        histogram("store_metadata_sync_duration", help, &stats.metadata_sync_latency)?;
        let help = "Duration of each fsync, fdatasync and syncfs of the store, except those of synced commits";
        histogram("store_fsync_duration", help, &stats.disk_sync_latency)?;
        let help = "Time that answers to changes waited until other mounts had dropped what they cache";
        histogram("mounts_acknowledgement_duration", help, &stats.mounts_wait_latency)?;
        stats.content.map_or(Ok(()), |content| encode_content(&mut encoder, &content))
    }
}

/// The metrics of content in a bucket.
fn encode_content(encoder: &mut DescriptorEncoder<'_>, stats: &RemoteStats) -> fmt::Result {
    let help = "Changed bytes of files that are not in the S3 store yet";
    gauge(encoder, "content_behind_bytes", help, stats.behind_bytes)?;
    let help = "Bytes of the S3 store's content that the data folder has";
    gauge(encoder, "content_cache_bytes", help, stats.cached_bytes)?;
    let help = "Reads of content that the data folder had";
    counter(encoder, "content_cache_hits", help, stats.hits)?;
    let help = "Reads of content that had to ask the S3 store";
    counter(encoder, "content_cache_misses", help, stats.misses)?;
    let help = "Requests to the S3 store that failed with all their retries, by kind";
    let mut errors = encoder.encode_descriptor("content_request_errors", help, None, MetricType::Counter)?;
    for (kind, count) in Kind::ALL.iter().zip(stats.requests.errors) {
        ConstCounter::new(count).encode(errors.encode_family(&[("kind", kind.name())])?)?;
    }
    let (help, seconds) = ("Duration of requests to the S3 store, with retries, by kind", Unit::Seconds);
    let name = "content_request_duration";
    let mut durations = encoder.encode_descriptor(name, help, Some(&seconds), MetricType::Histogram)?;
    for (kind, taken) in Kind::ALL.iter().zip(&stats.requests.latencies) {
        latency(durations.encode_family(&[("kind", kind.name())])?, taken)?;
    }
    Ok(())
}

/// The metrics of the lifecycle worker.
pub(super) struct LifecycleStats(pub(super) Arc<Worker>);

impl fmt::Debug for LifecycleStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LifecycleFigures")
    }
}

impl Collector for LifecycleStats {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.0.stats();
        counter(&mut encoder, "lifecycle_passes", "Passes over all buckets with lifecycle rules", stats.passes)?;
        let help = "Keys, versions and uploads examined by lifecycle rules";
        counter(&mut encoder, "lifecycle_examined", help, stats.looked_at)?;
        let help =
            "Current objects, noncurrent versions, delete markers and uploads that lifecycle rules removed, by kind";
        let mut expired = encoder.encode_descriptor("lifecycle_expired", help, None, MetricType::Counter)?;
        let kinds = [
            ("current", stats.current),
            ("noncurrent", stats.noncurrent),
            ("marker", stats.markers),
            ("upload", stats.uploads),
        ];
        for (kind, count) in kinds {
            ConstCounter::new(count).encode(expired.encode_family(&[("kind", kind)])?)?;
        }
        counter(&mut encoder, "lifecycle_errors", "Buckets or passes abandoned until the next pass", stats.errors)?;
        let help = "When the last complete pass ended, in seconds since 1970; 0: never";
        gauge(&mut encoder, "lifecycle_completed_timestamp_seconds", help, seconds(stats.completed))?;
        let help = "Keys, versions and uploads examined so far in the current bucket";
        let mut progress = encoder.encode_descriptor("lifecycle_bucket_examined", help, None, MetricType::Gauge)?;
        if let Some(now) = &stats.progress {
            let seen = ConstGauge::new(whole(now.looked_at));
            seen.encode(progress.encode_family(&[("bucket", now.bucket.as_str())])?)?;
        }
        Ok(())
    }
}

/// The metrics of the scrub, and the amount of damage.
pub(super) struct ScrubStats(pub(super) Store, pub(super) Arc<objstore::scrub::Worker>);

impl fmt::Debug for ScrubStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScrubFigures")
    }
}

impl Collector for ScrubStats {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.1.stats();
        counter(&mut encoder, "scrub_passes", "Passes over all content", stats.passes)?;
        counter(&mut encoder, "scrub_examined_blobs", "Blobs examined by the scrub", stats.blobs)?;
        counter(&mut encoder, "scrub_read_bytes", "Bytes compared with their checksums by the scrub", stats.bytes)?;
        counter(&mut encoder, "scrub_damaged_blobs", "Damaged blobs found by the scrub", stats.found)?;
        counter(&mut encoder, "scrub_errors", "Passes of the scrub interrupted by an error", stats.errors)?;
        let help = "When the current or last pass of the scrub began, in seconds since 1970; 0: never";
        gauge(&mut encoder, "scrub_started_timestamp_seconds", help, seconds(stats.started))?;
        let help = "When the last complete pass of the scrub ended, in seconds since 1970; 0: never";
        gauge(&mut encoder, "scrub_completed_timestamp_seconds", help, seconds(stats.completed))?;
        let (done, total) = stats.progress.unwrap_or_default();
        let help = "Bytes read in the current pass of the scrub; 0: none is running";
        gauge(&mut encoder, "scrub_pass_done_bytes", help, done)?;
        let help = "Bytes to read in the current pass of the scrub; 0: none is running";
        gauge(&mut encoder, "scrub_pass_size_bytes", help, total)?;
        let damaged = objstore::scrub::damage(&self.0).map_or(0, |damage| damage.len() as u64);
        gauge(&mut encoder, "damaged_blobs", "Blobs known to be damaged: reading them answers an error", damaged)
    }
}
