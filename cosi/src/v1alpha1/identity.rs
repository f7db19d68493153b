//! The Identity service: the name of the driver. COSI v1alpha1, Identity Service RPC.

use proto::cosi::v1alpha1::identity_server::Identity;
use proto::cosi::v1alpha1::{DriverGetInfoRequest, DriverGetInfoResponse};
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
        answer("DriverGetInfo", request, |_| async { Ok(DriverGetInfoResponse { name }) }).await
    }
}
