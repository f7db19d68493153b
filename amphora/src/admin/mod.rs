//! The admin service: answers the command line's requests to a running server.
//!
//! - Its socket accepts root and the server's own user; `serve` checks that.
//! - Each noun has its file; this one only delegates.

mod account;
mod backup;
mod bucket;
mod grant;
mod handover;
mod hidden;
mod key;
mod link;
mod master;
mod mount;
mod mount_service;
mod role;
mod scrub;
mod session;
mod snapshot;
mod status;
mod upgrade;
mod volume;

use std::sync::Arc;
use std::time::Instant;

use objstore::Store;
use objstore::clock::Timestamp;
use proto::amphora::admin::v1 as api;
use proto::amphora::admin::v1::admin_server::{Admin, AdminServer};
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status};

use crate::backups::Backups;
use crate::mounts::Table;
use crate::volumes::Volumes;
pub use handover::Handover;
pub use mount_service::{MountService, mount_routes};
pub use upgrade::Upgrade;

/// The state that the admin service uses.
pub struct Service {
    /// The store.
    pub store: Store,
    /// The mounts of this process.
    pub mounts: Arc<Table>,
    /// Name of the root key's account.
    pub root_account: String,
    /// The data folder of the store.
    pub data_dir: String,
    /// The address of the S3 endpoint.
    pub s3_address: String,
    /// The URL of the S3 endpoint for clients.
    pub s3_url: String,
    /// When the server started, for durations.
    pub started: Instant,
    /// When the server started, as a date.
    pub started_at: Timestamp,
    /// The running program, and the trigger of an upgrade.
    pub upgrade: Upgrade,
    /// The log that other servers follow, if the metadata is in one.
    pub handover: Option<Handover>,
    /// The lifecycle worker.
    pub lifecycle: Arc<objstore::lifecycle::Worker>,
    /// The scrub worker.
    pub scrub: Arc<objstore::scrub::Worker>,
    /// The times of the last backups.
    pub backups: Arc<Backups>,
    /// The volume listener, if there is one, and its address.
    pub volumes: Option<(Volumes, String)>,
}

type Answer<T> = Result<Response<T>, Status>;

/// The routes of a server: all requests, and those about mounts.
pub fn routes(service: Service, mounts: MountService) -> Routes {
    mount_routes(mounts).add_service(AdminServer::new(service))
}

impl Service {
    /// Runs a blocking operation of the store.
    async fn blocking<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Store) -> objstore::Result<T> + Send + 'static,
    ) -> Result<T, Status> {
        let store = self.store.clone();
        finished(tokio::task::spawn_blocking(move || operation(&store)).await)?.map_err(|error| refused(&error))
    }
}

/// The result of a task that was not cancelled: a panic fails this request, not the server.
fn finished<T>(joined: Result<T, tokio::task::JoinError>) -> Result<T, Status> {
    joined.map_err(|error| Status::internal(format!("the server failed at this request: {error}")))
}

/// Maps errors of the store to gRPC codes (`admin.proto`): those of CSI and COSI, with exceptions for errors that a
/// person reads instead of a sidecar.
fn refused(error: &objstore::Error) -> Status {
    use objstore::Error as E;
    let code = match error {
        E::Posix(_) | E::Unusable { .. } => Code::FailedPrecondition,
        E::Indeterminate { .. } => Code::Unknown,
        error => rpc::status::code(error),
    };
    Status::new(code, crate::failure::with_causes(error))
}

#[tonic::async_trait]
impl Admin for Service {
    async fn create_bucket(&self, r: Request<api::CreateBucketRequest>) -> Answer<api::Bucket> {
        bucket::create(self, r.into_inner()).await.map(Response::new)
    }

    async fn list_buckets(&self, _: Request<api::ListBucketsRequest>) -> Answer<api::ListBucketsResponse> {
        bucket::list(self).await.map(Response::new)
    }

    async fn get_bucket(&self, r: Request<api::GetBucketRequest>) -> Answer<api::Bucket> {
        bucket::get(self, &r.into_inner().name).await.map(Response::new)
    }

    async fn set_bucket(&self, r: Request<api::SetBucketRequest>) -> Answer<api::Bucket> {
        bucket::set(self, &r.into_inner()).await.map(Response::new)
    }

    async fn list_hidden_keys(&self, r: Request<api::ListHiddenKeysRequest>) -> Answer<api::ListHiddenKeysResponse> {
        hidden::list(self, r.into_inner()).await.map(Response::new)
    }

    async fn delete_bucket(&self, r: Request<api::DeleteBucketRequest>) -> Answer<api::DeleteBucketResponse> {
        bucket::delete(self, &r.into_inner()).await.map(Response::new)
    }

    async fn create_account(&self, r: Request<api::CreateAccountRequest>) -> Answer<api::Account> {
        account::create(self, &r.into_inner()).await.map(Response::new)
    }

    async fn list_accounts(&self, _: Request<api::ListAccountsRequest>) -> Answer<api::ListAccountsResponse> {
        account::list(self).await.map(Response::new)
    }

    async fn delete_account(&self, r: Request<api::DeleteAccountRequest>) -> Answer<api::DeleteAccountResponse> {
        account::delete(self, &r.into_inner().name).await.map(Response::new)
    }

    async fn create_key(&self, r: Request<api::CreateKeyRequest>) -> Answer<api::Key> {
        key::create(self, &r.into_inner().account).await.map(Response::new)
    }

    async fn list_keys(&self, r: Request<api::ListKeysRequest>) -> Answer<api::ListKeysResponse> {
        key::list(self, r.into_inner().account).await.map(Response::new)
    }

    async fn delete_key(&self, r: Request<api::DeleteKeyRequest>) -> Answer<api::DeleteKeyResponse> {
        key::delete(self, &r.into_inner().access_key_id).await.map(Response::new)
    }

    async fn rotate_keys(&self, r: Request<api::RotateKeysRequest>) -> Answer<api::Key> {
        key::rotate(self, &r.into_inner().account).await.map(Response::new)
    }

    async fn rotate_master_key(&self, _: Request<api::RotateMasterKeyRequest>) -> Answer<api::RotateMasterKeyResponse> {
        master::rotate(self).await.map(Response::new)
    }

    async fn add_grant(&self, r: Request<api::AddGrantRequest>) -> Answer<api::Grant> {
        grant::add(self, &r.into_inner()).await.map(Response::new)
    }

    async fn list_grants(&self, r: Request<api::ListGrantsRequest>) -> Answer<api::ListGrantsResponse> {
        grant::list(self, r.into_inner()).await.map(Response::new)
    }

    async fn remove_grant(&self, r: Request<api::RemoveGrantRequest>) -> Answer<api::RemoveGrantResponse> {
        grant::remove(self, &r.into_inner()).await.map(Response::new)
    }

    async fn create_role(&self, r: Request<api::CreateRoleRequest>) -> Answer<api::Role> {
        role::create(self, r.into_inner()).await.map(Response::new)
    }

    async fn list_roles(&self, r: Request<api::ListRolesRequest>) -> Answer<api::ListRolesResponse> {
        role::list(self, r.into_inner().account).await.map(Response::new)
    }

    async fn delete_role(&self, r: Request<api::DeleteRoleRequest>) -> Answer<api::DeleteRoleResponse> {
        role::delete(self, &r.into_inner()).await.map(Response::new)
    }

    async fn create_snapshot(&self, r: Request<api::CreateSnapshotRequest>) -> Answer<api::Snapshot> {
        snapshot::create(self, &r.into_inner()).await.map(Response::new)
    }

    async fn list_snapshots(&self, r: Request<api::ListSnapshotsRequest>) -> Answer<api::ListSnapshotsResponse> {
        snapshot::list(self, r.into_inner().bucket).await.map(Response::new)
    }

    async fn delete_snapshot(&self, r: Request<api::DeleteSnapshotRequest>) -> Answer<api::DeleteSnapshotResponse> {
        snapshot::delete(self, &r.into_inner().name).await.map(Response::new)
    }

    async fn list_volumes(&self, _: Request<api::ListVolumesRequest>) -> Answer<api::ListVolumesResponse> {
        volume::list(self).await.map(Response::new)
    }

    async fn get_volume(&self, r: Request<api::GetVolumeRequest>) -> Answer<api::Volume> {
        volume::get(self, &r.into_inner().id).await.map(Response::new)
    }

    async fn list_sessions(&self, _: Request<api::ListSessionsRequest>) -> Answer<api::ListSessionsResponse> {
        session::list(self).await.map(Response::new)
    }

    async fn end_session(&self, r: Request<api::EndSessionRequest>) -> Answer<api::EndSessionResponse> {
        session::end(self, &r.into_inner().id).await.map(Response::new)
    }

    type ScrubStream = scrub::Scrubbed;

    async fn scrub(&self, r: Request<api::ScrubRequest>) -> Answer<scrub::Scrubbed> {
        Ok(Response::new(scrub::run(self, &r.into_inner())))
    }

    type BackupStream = backup::ProgressStream;

    async fn backup(&self, r: Request<api::BackupRequest>) -> Answer<backup::ProgressStream> {
        backup::create(self, r.into_inner()).await.map(Response::new)
    }

    type RestoreStream = backup::ProgressStream;

    async fn restore(&self, r: Request<api::RestoreRequest>) -> Answer<backup::ProgressStream> {
        backup::restore(self, r.into_inner()).await.map(Response::new)
    }

    async fn status(&self, _: Request<api::StatusRequest>) -> Answer<api::StatusResponse> {
        status::get(self).await.map(Response::new)
    }

    async fn upgrade(&self, _: Request<api::UpgradeRequest>) -> Answer<api::UpgradeResponse> {
        upgrade::begin(self).await.map(Response::new)
    }

    async fn handover(&self, r: Request<api::HandoverRequest>) -> Answer<api::HandoverResponse> {
        handover::begin(self, &r.into_inner()).await.map(Response::new)
    }
}
