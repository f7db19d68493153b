//! The Identity service: the driver's name and protocols. COSI v1alpha2, Identity Service RPC.

use proto::cosi::v1alpha2::identity_server::Identity;
use proto::cosi::v1alpha2::{DriverGetInfoRequest, DriverGetInfoResponse, ObjectProtocol, object_protocol};
use tonic::{Request, Response, Status};

use crate::rpc::answer;

/// The service; it answers from the configuration alone.
pub(super) struct Service {
    pub(super) name: String,
}

#[tonic::async_trait]
impl Identity for Service {
    async fn driver_get_info(
        &self,
        request: Request<DriverGetInfoRequest>,
    ) -> Result<Response<DriverGetInfoResponse>, Status> {
        let name = self.name.clone();
        let supported_protocols = vec![ObjectProtocol { r#type: object_protocol::Type::S3.into() }];
        answer("DriverGetInfo", request, |_| async { Ok(DriverGetInfoResponse { name, supported_protocols }) }).await
    }
}
