//! The status report of the admin service.

use objstore::clock::Timestamp;
use objstore::lifecycle::Worker;
use proto::amphora::admin::v1 as api;
use tonic::Status;

use super::bucket::all;
use super::{Service, scrub};

/// The most damaged blobs that are listed.
const DAMAGED_MAX: usize = 100;

pub(super) async fn get(service: &Service) -> Result<api::StatusResponse, Status> {
    let asked = service.blocking(|store| Ok((all(store)?.len(), store.stats(), objstore::scrub::damage(store)?)));
    let (buckets, stats, damage) = asked.await?;
    Ok(api::StatusResponse {
        version: env!("CARGO_PKG_VERSION").into(),
        data_dir: service.data_dir.clone(),
        s3_address: service.s3_address.clone(),
        uptime_ms: u64::try_from(service.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        buckets: buckets as u64,
        mounts: service.mounts.list().iter().map(super::mount::shown).collect(),
        poisoned: stats.poisoned,
        disk_full: stats.disk_full,
        s3_url: service.s3_url.clone(),
        started_unix_ms: service.started_at.millis(),
        lifecycle: Some(lifecycle(&service.lifecycle)),
        scrub: Some(scrub::status(&service.scrub)),
        damaged_count: damage.len() as u64,
        unserved_mounts: service.mounts.unserved().into_iter().map(super::mount::unserved).collect(),
        lost_mounts: service.mounts.lost().into_iter().map(super::mount::lost).collect(),
        sessions: Some(super::session::summary(service)),
        damaged: damage.into_iter().take(DAMAGED_MAX).map(scrub::shown).collect(),
    })
}

fn lifecycle(worker: &Worker) -> api::LifecycleStatus {
    let stats = worker.stats();
    api::LifecycleStatus {
        completed_unix_ms: stats.completed.map(Timestamp::millis),
        bucket: stats.progress.map(|progress| progress.bucket.to_string()),
        looked_at: stats.looked_at,
        expired: stats.current + stats.noncurrent + stats.markers + stats.uploads,
        errors: stats.errors,
    }
}
