//! Rotation of the master key for the admin service.

use proto::amphora::admin::v1 as api;
use tonic::Status;

use super::{Service, refused};

pub(super) async fn rotate(service: &Service) -> Result<api::RotateMasterKeyResponse, Status> {
    let resealed_keys = service.store.rotate_master_key().await.map_err(|error| refused(&error))?;
    tracing::info!(resealed_keys, "rotated the master key");
    Ok(api::RotateMasterKeyResponse { resealed_keys })
}
