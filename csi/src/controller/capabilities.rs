//! The controller's capabilities and capacity. CSI v1.12, ControllerGetCapabilities and GetCapacity.

use objstore::store::Versioning;
use proto::csi::v1::controller_service_capability::{Rpc, Type, rpc};
use proto::csi::v1::{
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse, ControllerServiceCapability,
    GetCapacityRequest, GetCapacityResponse,
};
use tonic::Status;

use super::Controller;
use super::parameters::Parameters;
use crate::capability::{Capability, Kind};
use crate::capacity::signed;
use crate::disk;

/// All capabilities that work.
const CAPABILITIES: [rpc::Type; 15] = [
    rpc::Type::CreateDeleteVolume,
    rpc::Type::PublishUnpublishVolume,
    rpc::Type::ListVolumes,
    rpc::Type::GetCapacity,
    rpc::Type::CreateDeleteSnapshot,
    rpc::Type::ListSnapshots,
    rpc::Type::CloneVolume,
    rpc::Type::PublishReadonly,
    rpc::Type::ExpandVolume,
    rpc::Type::ListVolumesPublishedNodes,
    rpc::Type::GetVolume,
    rpc::Type::SingleNodeMultiWriter,
    rpc::Type::GetSnapshot,
    rpc::Type::ModifyVolume,
    rpc::Type::VolumeCondition,
];

impl Controller {
    pub(super) async fn capabilities(
        self,
        _: ControllerGetCapabilitiesRequest,
    ) -> Result<ControllerGetCapabilitiesResponse, Status> {
        let capability = |capability: rpc::Type| ControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: capability.into() })),
        };
        Ok(ControllerGetCapabilitiesResponse { capabilities: CAPABILITIES.map(capability).into() })
    }

    /// The free space of the disk under the store; 0 for volumes that cannot be created here, or not for that place.
    pub(super) async fn capacity(self, request: GetCapacityRequest) -> Result<GetCapacityResponse, Status> {
        let capabilities = &request.volume_capabilities;
        let capabilities = match capabilities.is_empty() {
            true => Ok(Vec::new()),
            false => Capability::parse_all(capabilities),
        };
        let parameters = Parameters::parse(&request.parameters);
        let is_block = capabilities.as_ref().is_ok_and(|all| all.iter().any(|one| one.kind == Kind::Block));
        // A block volume keeps no versions.
        let fit = parameters.is_ok_and(|given| !is_block || given.versioning == Versioning::Disabled);
        let topology = &self.config.topology;
        let is_here = request.accessible_topology.as_ref().is_none_or(|place| topology.admits(place));
        let possible = capabilities.is_ok() && fit && is_here;
        let stats = self.read(|store| Ok(store.stats())).await?;
        let free_bytes = if possible && stats.poisoned.is_none() { stats.free_bytes } else { 0 };
        let bounds = is_block.then_some((disk::BYTES_MAX, disk::BLOCK_BYTES));
        Ok(GetCapacityResponse {
            available_capacity: signed(free_bytes),
            maximum_volume_size: bounds.map(|(most, _)| signed(most)),
            minimum_volume_size: bounds.map(|(_, least)| signed(least)),
        })
    }
}
