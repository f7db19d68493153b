//! The Identity service: name and capabilities of the driver. CSI v1.12, Identity Service RPC.
//!
//! - It never asks the store, because a failing store must not make Kubernetes restart the process that serves the
//!   mounts.

use proto::csi::v1::identity_server::Identity;
use proto::csi::v1::plugin_capability::{
    Service as ServiceCapability, Type, VolumeExpansion, service, volume_expansion,
};
use proto::csi::v1::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    PluginCapability, ProbeRequest, ProbeResponse,
};
use tonic::{Request, Response, Status};

use crate::Config;
use crate::rpc::answer;

/// The service; it answers from the configuration alone.
pub(crate) struct Service {
    name: String,
    vendor_version: String,
    /// Whether volumes can be used in some places only.
    constrained: bool,
}

impl Service {
    pub(crate) fn new(config: &Config) -> Self {
        let (name, vendor_version) = (config.driver_name.clone(), config.vendor_version.clone());
        Self { name, vendor_version, constrained: !config.topology.is_empty() }
    }
}

#[tonic::async_trait]
impl Identity for Service {
    async fn get_plugin_info(
        &self,
        request: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        let info = GetPluginInfoResponse {
            name: self.name.clone(),
            vendor_version: self.vendor_version.clone(),
            ..Default::default()
        };
        answer("GetPluginInfo", request, |_| async { Ok(info) }).await
    }

    async fn get_plugin_capabilities(
        &self,
        request: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let controller = ServiceCapability { r#type: service::Type::ControllerService.into() };
        let groups = ServiceCapability { r#type: service::Type::GroupControllerService.into() };
        let ranges = ServiceCapability { r#type: service::Type::SnapshotMetadataService.into() };
        let online = VolumeExpansion { r#type: volume_expansion::Type::Online.into() };
        let places = ServiceCapability { r#type: service::Type::VolumeAccessibilityConstraints.into() };
        let places = self.constrained.then_some(places);
        let services = [controller, groups, ranges].into_iter().chain(places).map(Type::Service);
        let all = services.chain([Type::VolumeExpansion(online)]);
        let capabilities = all.map(|capability| PluginCapability { r#type: Some(capability) });
        let response = GetPluginCapabilitiesResponse { capabilities: capabilities.collect() };
        answer("GetPluginCapabilities", request, |_| async { Ok(response) }).await
    }

    async fn probe(&self, request: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        answer("Probe", request, |_| async { Ok(ProbeResponse { ready: Some(true) }) }).await
    }
}
