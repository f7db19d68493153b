//! The Controller, GroupController and SnapshotMetadata services: creating, finding, expanding and deleting volumes,
//! snapshots and group snapshots, and comparing snapshots. CSI v1.12, Controller Service RPC, Group Controller Service RPCs
//! and Snapshot Metadata Service RPCs.
//!
//! - This file only unpacks requests; each operation is in the file of its name.

mod capabilities;
mod create;
mod delete;
mod disk;
mod expand;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzed;
mod group;
mod list;
mod metadata;
mod modify;
mod parameters;
mod publish;
mod snapshot;
mod template;
mod validate;
mod volume;

pub(crate) use parameters::Parameters;

use std::sync::Arc;

use objstore::Store;
use proto::csi::v1::controller_server::Controller as Rpc;
use proto::csi::v1::group_controller_server::GroupController as GroupRpc;
use proto::csi::v1::snapshot_metadata_server::SnapshotMetadata as MetadataRpc;
use proto::csi::v1::*;
use tonic::{Request, Response, Status};

use crate::Config;
use crate::locks::Locks;
use crate::rpc::answer;
use crate::status;

/// The operations: a cheap handle, so that each call can run in its own task.
#[derive(Clone)]
struct Controller {
    store: Store,
    config: Arc<Config>,
    locks: Locks,
    streams: metadata::Streams,
}

impl Controller {
    /// Reads from the store on a thread that may block.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Store) -> objstore::Result<T> + Send + 'static,
    ) -> Result<T, Status> {
        let store = self.store.clone();
        let answer = tokio::task::spawn_blocking(move || read(&store)).await;
        answer.map_err(|_| Status::internal("a read of the store failed; see the log"))?.map_err(status::of)
    }
}

/// The gRPC service.
#[derive(Clone)]
pub(crate) struct Service(Controller);

impl Service {
    pub(crate) fn new(store: Store, config: Arc<Config>) -> Self {
        Self(Controller { store, config, locks: Locks::default(), streams: metadata::Streams::default() })
    }

    /// Keeps all calls for a volume, snapshot or group away, as one that is in progress does.
    #[cfg(test)]
    pub(crate) fn hold(&self, name: &str) -> crate::locks::Guard {
        self.0.locks.hold(name).unwrap()
    }
}

/// Defines each call: its name in the specification, and the method of [`Controller`] that answers it.
macro_rules! delegate {
    ($service:ident, $($rpc:ident, $name:literal, $request:ty, $response:ty, $method:ident;)*) => {
        #[tonic::async_trait]
        impl $service for Service {
            $(async fn $rpc(&self, request: Request<$request>) -> Result<Response<$response>, Status> {
                let controller = self.0.clone();
                answer($name, request, |request| async move { controller.$method(request).await }).await
            })*
        }
    };
}

delegate! {
    Rpc,
    create_volume, "CreateVolume", CreateVolumeRequest, CreateVolumeResponse, create;
    delete_volume, "DeleteVolume", DeleteVolumeRequest, DeleteVolumeResponse, delete;
    controller_publish_volume, "ControllerPublishVolume", ControllerPublishVolumeRequest,
        ControllerPublishVolumeResponse, publish;
    controller_unpublish_volume, "ControllerUnpublishVolume", ControllerUnpublishVolumeRequest,
        ControllerUnpublishVolumeResponse, unpublish;
    validate_volume_capabilities, "ValidateVolumeCapabilities", ValidateVolumeCapabilitiesRequest,
        ValidateVolumeCapabilitiesResponse, validate;
    list_volumes, "ListVolumes", ListVolumesRequest, ListVolumesResponse, list_volumes;
    get_capacity, "GetCapacity", GetCapacityRequest, GetCapacityResponse, capacity;
    controller_get_capabilities, "ControllerGetCapabilities", ControllerGetCapabilitiesRequest,
        ControllerGetCapabilitiesResponse, capabilities;
    create_snapshot, "CreateSnapshot", CreateSnapshotRequest, CreateSnapshotResponse, create_snapshot;
    delete_snapshot, "DeleteSnapshot", DeleteSnapshotRequest, DeleteSnapshotResponse, delete_snapshot;
    list_snapshots, "ListSnapshots", ListSnapshotsRequest, ListSnapshotsResponse, list_snapshots;
    get_snapshot, "GetSnapshot", GetSnapshotRequest, GetSnapshotResponse, get_snapshot;
    controller_expand_volume, "ControllerExpandVolume", ControllerExpandVolumeRequest,
        ControllerExpandVolumeResponse, expand;
    controller_get_volume, "ControllerGetVolume", ControllerGetVolumeRequest, ControllerGetVolumeResponse, get_volume;
    controller_modify_volume, "ControllerModifyVolume", ControllerModifyVolumeRequest,
        ControllerModifyVolumeResponse, modify;
}

delegate! {
    GroupRpc,
    group_controller_get_capabilities, "GroupControllerGetCapabilities", GroupControllerGetCapabilitiesRequest,
        GroupControllerGetCapabilitiesResponse, group_capabilities;
    create_volume_group_snapshot, "CreateVolumeGroupSnapshot", CreateVolumeGroupSnapshotRequest,
        CreateVolumeGroupSnapshotResponse, create_group;
    delete_volume_group_snapshot, "DeleteVolumeGroupSnapshot", DeleteVolumeGroupSnapshotRequest,
        DeleteVolumeGroupSnapshotResponse, delete_group;
    get_volume_group_snapshot, "GetVolumeGroupSnapshot", GetVolumeGroupSnapshotRequest,
        GetVolumeGroupSnapshotResponse, get_group;
}

#[tonic::async_trait]
impl MetadataRpc for Service {
    type GetMetadataAllocatedStream = metadata::Answers<GetMetadataAllocatedResponse>;
    type GetMetadataDeltaStream = metadata::Answers<GetMetadataDeltaResponse>;

    async fn get_metadata_allocated(
        &self,
        request: Request<GetMetadataAllocatedRequest>,
    ) -> Result<Response<Self::GetMetadataAllocatedStream>, Status> {
        let controller = self.0.clone();
        answer("GetMetadataAllocated", request, |request| async move { controller.allocated(request).await }).await
    }

    async fn get_metadata_delta(
        &self,
        request: Request<GetMetadataDeltaRequest>,
    ) -> Result<Response<Self::GetMetadataDeltaStream>, Status> {
        let controller = self.0.clone();
        answer("GetMetadataDelta", request, |request| async move { controller.delta(request).await }).await
    }
}
