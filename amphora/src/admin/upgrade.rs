//! Upgrade of the running server in place, for the admin service.

use std::sync::Arc;

use proto::amphora::admin::v1 as api;
use tokio::sync::Notify;
use tonic::Status;

use super::{Service, finished};
use crate::process::Program;

/// The running program, and the trigger of an upgrade.
#[derive(Clone)]
pub struct Upgrade {
    /// The program that was started.
    pub program: Program,
    /// Notifies the server that an upgrade is wanted.
    pub wanted: Arc<Notify>,
}

/// Answers with the version that will run. The server then drains and starts that program in its place.
pub(super) async fn begin(service: &Service) -> Result<api::UpgradeResponse, Status> {
    let (mounts, program) = (service.mounts.clone(), service.upgrade.program.clone());
    let checked = tokio::task::spawn_blocking(move || {
        let ending = mounts.ending();
        if !ending.is_empty() {
            let dirs: Vec<_> = ending.iter().map(|dir| dir.display().to_string()).collect();
            return Err(format!(
                "no holder keeps the mounts {}: an upgrade would end them; stop and start the server if that is acceptable",
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
