//! The controller's capabilities and capacity. CSI v1.12, ControllerGetCapabilities and GetCapacity.

use proto::csi::v1::controller_service_capability::{Rpc, Type, rpc};
use proto::csi::v1::{
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse, ControllerServiceCapability,
    GetCapacityRequest, GetCapacityResponse,
};
use tonic::Status;

use super::Controller;
use super::parameters::Parameters;
use crate::capability::Capability;
use crate::capacity::signed;

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

    /// The free space of the disk under the store; 0 for volumes that cannot be created here.
    pub(super) async fn capacity(self, request: GetCapacityRequest) -> Result<GetCapacityResponse, Status> {
        let capabilities = &request.volume_capabilities;
        let possible = (capabilities.is_empty() || Capability::parse_all(capabilities).is_ok())
            && Parameters::parse(&request.parameters).is_ok();
        let stats = self.read(|store| Ok(store.stats())).await?;
        let free_bytes = if possible && stats.poisoned.is_none() { stats.free_bytes } else { 0 };
        Ok(GetCapacityResponse { available_capacity: signed(free_bytes), ..Default::default() })
    }
}
