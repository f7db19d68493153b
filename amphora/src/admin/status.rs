//! How the server is, over the admin socket.

use proto::amphora::admin::v1 as api;
use tonic::Status;

use super::Service;
use super::bucket::all;

pub(super) async fn get(service: &Service) -> Result<api::StatusResponse, Status> {
    let (buckets, stats) = service.blocking(|store| Ok((all(store)?.len(), store.stats()))).await?;
    Ok(api::StatusResponse {
        version: env!("CARGO_PKG_VERSION").into(),
        data_dir: service.data_dir.clone(),
        s3_address: service.s3_address.clone(),
        uptime_ms: u64::try_from(service.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        buckets: buckets as u64,
        mounts: service.mounts.list().iter().map(super::mount::shown).collect(),
        poisoned: stats.poisoned,
        started_unix_ms: service.started_at.millis(),
    })
}
