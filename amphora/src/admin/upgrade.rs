//! Upgrading the server in its place, over the admin socket.

use std::sync::Arc;

use proto::amphora::admin::v1 as api;
use tokio::sync::Notify;
use tonic::Status;

use super::{Service, finished};
use crate::serve::Program;

/// This program, and what has the server go on as the next one.
#[derive(Clone)]
pub struct Upgrade {
    /// What was started.
    pub program: Program,
    /// Tells the server.
    pub wanted: Arc<Notify>,
}

/// Answers what will run; the server then drains, and starts it in its place.
pub(super) async fn begin(service: &Service) -> Result<api::UpgradeResponse, Status> {
    let (mounts, program) = (service.mounts.clone(), service.upgrade.program.clone());
    let checked = tokio::task::spawn_blocking(move || {
        let ending = mounts.ending();
        if !ending.is_empty() {
            let dirs: Vec<_> = ending.iter().map(|dir| dir.display().to_string()).collect();
            return Err(format!(
                "no holder keeps the mounts {}: they would end; stop the server and start it anew, if they may",
                dirs.join(", ")
            ));
        }
        let version = program.version()?;
        program.check().map(|()| version)
    });
    let to_version = finished(checked.await)?.map_err(Status::failed_precondition)?;
    tracing::info!(to_version, "upgrading");
    service.upgrade.wanted.notify_one();
    Ok(api::UpgradeResponse { from_version: env!("CARGO_PKG_VERSION").into(), to_version })
}
