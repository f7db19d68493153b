//! Grant operations of the admin service.

use objstore::store::{Grant, Mode};
use proto::amphora::admin::v1 as api;
use tonic::Status;

use super::bucket::name;
use super::{Service, refused};

pub(super) async fn add(service: &Service, request: &api::AddGrantRequest) -> Result<api::Grant, Status> {
    let (bucket, mode) = (name(&request.bucket)?, request.mode.parse::<Mode>().map_err(|error| refused(&error))?);
    let grant = service.store.add_grant(&bucket, &request.account, mode).await;
    grant.map(shown).map_err(|error| refused(&error))
}

pub(super) async fn list(
    service: &Service,
    request: api::ListGrantsRequest,
) -> Result<api::ListGrantsResponse, Status> {
    let bucket = request.bucket.as_deref().map(name).transpose()?;
    let grants = service.blocking(move |store| {
        if let Some(bucket) = &bucket {
            store.bucket(bucket)?;
        }
        if let Some(account) = &request.account {
            store.account(account)?;
        }
        store.grants(bucket.as_ref(), request.account.as_deref())
    });
    Ok(api::ListGrantsResponse { grants: grants.await?.into_iter().map(shown).collect() })
}

pub(super) async fn remove(
    service: &Service,
    request: &api::RemoveGrantRequest,
) -> Result<api::RemoveGrantResponse, Status> {
    let bucket = name(&request.bucket)?;
    service.store.remove_grant(&bucket, &request.account).await.map_err(|error| refused(&error))?;
    Ok(api::RemoveGrantResponse {})
}

fn shown(grant: Grant) -> api::Grant {
    api::Grant { bucket: grant.bucket.to_string(), account: grant.account, mode: grant.mode.name().into() }
}
