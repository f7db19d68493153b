//! The metrics of `/metrics`: values that the store, the mounts and the process report at each scrape, and counters of
//! S3 and the audit trail.
//!
//! - Names follow Prometheus: the prefix `amphora_` for all but `process_…`, base units, `_total` after counters.
//!   `docs/operations.md` lists them; a test compares that table with the served metrics.
//! - Series whose number grows with the stored data are bounded: see `buckets`.

mod buckets;
mod links;
mod mounts;
mod process;
mod store;
mod text;
mod volumes;

use std::fmt;
use std::sync::Arc;

use objstore::Store;
use objstore::clock::{Clock as _, SystemClock, Timestamp};
use objstore::latency::{BOUNDS_US, Latency};
use objstore::lifecycle::Worker;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::audit::Audit;
use crate::backups::Backups;
use crate::mounts::Table;
use crate::volumes::Volumes;
pub use buckets::Buckets;
pub use text::{Format, encode};

/// The sources of the metrics.
pub struct Sources<'a> {
    /// The store.
    pub store: &'a Store,
    /// The mounts of this process.
    pub mounts: &'a Arc<Table>,
    /// The lifecycle worker.
    pub lifecycle: &'a Arc<Worker>,
    /// The scrub worker.
    pub scrub: &'a Arc<objstore::scrub::Worker>,
    /// The times of the last backups.
    pub backups: &'a Arc<Backups>,
    /// The volume listener, if there is one.
    pub volumes: Option<&'a Volumes>,
}

/// The metrics of a server.
pub struct Metrics {
    /// All metrics.
    pub registry: Registry,
    /// The metrics that S3 counts.
    pub s3: s3::Metrics,
    /// The audit trail, which counts its lines and calls.
    pub audit: Audit,
    /// The metrics of each bucket.
    pub buckets: Buckets,
}

impl Metrics {
    /// Creates all metrics of a server.
    pub fn new(sources: &Sources<'_>) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(process::ProcessCollector::new()));
        let ours = registry.sub_registry_with_prefix("amphora");
        ours.register("build", "The program", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        ours.register_collector(Box::new(store::StoreStats(sources.store.clone())));
        ours.register_collector(Box::new(mounts::MountFigures(sources.mounts.clone())));
        ours.register_collector(Box::new(mounts::HolderCollector(sources.mounts.clone())));
        ours.register_collector(Box::new(links::LinkFigures(sources.mounts.clone())));
        ours.register_collector(Box::new(store::LifecycleStats(sources.lifecycle.clone())));
        ours.register_collector(Box::new(store::ScrubStats(sources.store.clone(), sources.scrub.clone())));
        ours.register_collector(Box::new(volumes::VolumeStats(sources.volumes.cloned())));
        let s3 = s3::Metrics::new(ours);
        let buckets = Buckets::new(sources.store, &s3, sources.backups);
        ours.register_collector(Box::new(buckets.clone()));
        let audit = Audit::new(ours, &format!("{:x}", SystemClock.now().millis()));
        Self { registry, s3, audit, buckets }
    }
}

/// The metrics of a node, which has no store, and its audit trail.
pub fn of_node(mounts: &Arc<Table>) -> (Registry, Audit) {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(process::ProcessCollector::new()));
    let ours = registry.sub_registry_with_prefix("amphora");
    ours.register("build", "The program", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
    ours.register_collector(Box::new(mounts::MountFigures(mounts.clone())));
    ours.register_collector(Box::new(mounts::HolderCollector(mounts.clone())));
    ours.register_collector(Box::new(links::LinkFigures(mounts.clone())));
    let audit = Audit::new(ours, &format!("{:x}", SystemClock.now().millis()));
    (registry, audit)
}

/// Seconds since 1970; 0 if there is no time.
fn seconds(at: Option<Timestamp>) -> u64 {
    at.and_then(|at| u64::try_from(at.parts().0).ok()).unwrap_or(0)
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let metric = ConstCounter::new(value);
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let metric = ConstGauge::new(whole(value));
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

/// A number in the type of gauges.
fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Encodes a latency of the store in seconds.
fn latency(mut encoder: MetricEncoder<'_>, latency: &Latency) -> fmt::Result {
    #[expect(clippy::cast_precision_loss, reason = "microseconds of some centuries are exact")]
    let seconds = |us: u64| us as f64 / 1e6;
    let bounds = BOUNDS_US.iter().map(|bound| seconds(*bound)).chain([f64::MAX]);
    let buckets: Vec<_> = bounds.zip(latency.buckets).collect();
    encoder.encode_histogram::<NoLabelSet>(seconds(latency.total_us), latency.count(), &buckets, None)
}
