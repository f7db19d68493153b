//! The figures of `/metrics`: what the store and the mounts say at the moment of a scrape, and what S3 counts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fuse::LATENCY_BOUNDS_US;
use objstore::Store;
use objstore::clock::Timestamp;
use objstore::lifecycle::Worker;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::mounts::{OperationTotal, Table};

/// All figures of a server, each named `amphora_…`, and those S3 counts for itself.
pub fn registry(
    store: &Store,
    mounts: &Arc<Table>,
    lifecycle: &Arc<Worker>,
    scrub: &Arc<objstore::scrub::Worker>,
) -> (Registry, s3::Metrics) {
    let mut registry = Registry::with_prefix("amphora");
    registry.register("build", "The program", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
    registry.register_collector(Box::new(StoreFigures(store.clone())));
    registry.register_collector(Box::new(MountFigures(mounts.clone())));
    registry.register_collector(Box::new(LifecycleFigures(lifecycle.clone())));
    registry.register_collector(Box::new(ScrubFigures(store.clone(), scrub.clone())));
    let s3 = s3::Metrics::new(&mut registry);
    (registry, s3)
}

/// What the store says of itself.
struct StoreFigures(Store);

impl fmt::Debug for StoreFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreFigures")
    }
}

impl Collector for StoreFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.0.stats();
        counter(&mut encoder, "store_commits", "Batches committed", stats.commits)?;
        counter(&mut encoder, "store_operations", "Operations committed", stats.operations)?;
        let poisoned = u64::from(stats.poisoned.is_some());
        let full = u64::from(stats.disk_full);
        gauge(&mut encoder, "store_disk_full", "1 while the disk has no room but for deletions", full)?;
        gauge(&mut encoder, "store_poisoned", "1 while the store refuses writes after a failed sync", poisoned)?;
        gauge(&mut encoder, "store_disk_free_bytes", "Free on the disk of the data folder", stats.free_bytes)?;
        gauge(&mut encoder, "store_disk_size_bytes", "Size of the disk of the data folder", stats.total_bytes)
    }
}

/// What the mounts of this process do, all together.
struct MountFigures(Arc<Table>);

impl fmt::Debug for MountFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MountFigures")
    }
}

impl Collector for MountFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        gauge(&mut encoder, "mounts", "Directories that show a bucket", self.0.list().len() as u64)?;
        let totals = self.0.totals();
        counter(
            &mut encoder,
            "fuse_read_bytes",
            "Bytes read through mounts, past the kernel's cache",
            totals.read_bytes,
        )?;
        counter(&mut encoder, "fuse_written_bytes", "Bytes written through mounts", totals.written_bytes)?;
        let help = "Calls of the kernel answered with an error, by operation";
        let mut errors = encoder.encode_descriptor("fuse_errors", help, None, MetricType::Counter)?;
        for (operation, total) in &totals.operations {
            ConstCounter::new(total.errors).encode(errors.encode_family(&[("operation", *operation)])?)?;
        }
        let help = "How long calls of the kernel took, by operation";
        let unit = Unit::Seconds;
        let mut took = encoder.encode_descriptor("fuse_operation", help, Some(&unit), MetricType::Histogram)?;
        for (operation, total) in &totals.operations {
            let label = [("operation", *operation)];
            histogram(took.encode_family(&label)?, total)?;
        }
        Ok(())
    }
}

/// The latencies of one operation of the mounts.
fn histogram(mut encoder: MetricEncoder<'_>, total: &OperationTotal) -> fmt::Result {
    let bounds = LATENCY_BOUNDS_US.iter().map(|bound| Duration::from_micros(*bound).as_secs_f64()).chain([f64::MAX]);
    let buckets: Vec<_> = bounds.zip(total.buckets).collect();
    encoder.encode_histogram::<NoLabelSet>(total.took.as_secs_f64(), total.count, &buckets, None)
}

/// What the worker of lifecycle rules did.
struct LifecycleFigures(Arc<Worker>);

impl fmt::Debug for LifecycleFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LifecycleFigures")
    }
}

impl Collector for LifecycleFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let figures = self.0.figures();
        counter(&mut encoder, "lifecycle_passes", "Passes over all buckets with lifecycle rules", figures.passes)?;
        let help = "Keys, versions and uploads looked at by lifecycle rules";
        counter(&mut encoder, "lifecycle_looked_at", help, figures.looked_at)?;
        let help = "What lifecycle rules removed: current objects, noncurrent versions, delete markers, uploads";
        let mut expired = encoder.encode_descriptor("lifecycle_expired", help, None, MetricType::Counter)?;
        let kinds = [
            ("current", figures.current),
            ("noncurrent", figures.noncurrent),
            ("marker", figures.markers),
            ("upload", figures.uploads),
        ];
        for (kind, count) in kinds {
            ConstCounter::new(count).encode(expired.encode_family(&[("kind", kind)])?)?;
        }
        counter(&mut encoder, "lifecycle_errors", "Buckets or passes given up until the next pass", figures.errors)?;
        let help = "When the last whole pass ended, in seconds since 1970; 0: never";
        gauge(&mut encoder, "lifecycle_completed_timestamp_seconds", help, seconds(figures.completed))?;
        let help = "Keys, versions and uploads looked at so far in the bucket under way";
        let mut progress = encoder.encode_descriptor("lifecycle_progress", help, None, MetricType::Gauge)?;
        if let Some(now) = &figures.progress {
            let seen = ConstGauge::new(i64::try_from(now.looked_at).unwrap_or(i64::MAX));
            seen.encode(progress.encode_family(&[("bucket", now.bucket.as_str())])?)?;
        }
        Ok(())
    }
}

/// What the scrub did, and what is damaged.
struct ScrubFigures(Store, Arc<objstore::scrub::Worker>);

impl fmt::Debug for ScrubFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScrubFigures")
    }
}

impl Collector for ScrubFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let figures = self.1.figures();
        counter(&mut encoder, "scrub_passes", "Passes over all content", figures.passes)?;
        counter(&mut encoder, "scrub_blobs", "Blobs looked at by the scrub", figures.blobs)?;
        counter(&mut encoder, "scrub_bytes", "Bytes compared with their checksums by the scrub", figures.bytes)?;
        counter(&mut encoder, "scrub_found", "Damaged blobs found by the scrub", figures.found)?;
        counter(&mut encoder, "scrub_errors", "Passes of the scrub interrupted by an error", figures.errors)?;
        let help = "When the pass of the scrub under way, or the last one, began, in seconds since 1970; 0: never";
        gauge(&mut encoder, "scrub_started_timestamp_seconds", help, seconds(figures.started))?;
        let help = "When the last whole pass of the scrub ended, in seconds since 1970; 0: never";
        gauge(&mut encoder, "scrub_completed_timestamp_seconds", help, seconds(figures.completed))?;
        let (done, total) = figures.progress.unwrap_or_default();
        let help = "Bytes read in the pass of the scrub under way; 0: none is";
        gauge(&mut encoder, "scrub_progress_bytes", help, done)?;
        let help = "Bytes there are to read in the pass of the scrub under way; 0: none is";
        gauge(&mut encoder, "scrub_progress_total_bytes", help, total)?;
        let damaged = objstore::scrub::damage(&self.0).map_or(0, |damage| damage.len() as u64);
        gauge(&mut encoder, "damaged_blobs", "Blobs known to be damaged: reading them answers an error", damaged)
    }
}

/// Seconds since 1970; 0: never.
fn seconds(at: Option<Timestamp>) -> u64 {
    at.and_then(|at| u64::try_from(at.parts().0).ok()).unwrap_or(0)
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let metric = ConstCounter::new(value);
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let metric = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}
