//! Validating the requested use of a volume. CSI v1.12, ValidateVolumeCapabilities.

use objstore::store::Bucket;
use proto::csi::v1::validate_volume_capabilities_response::Confirmed;
use proto::csi::v1::{ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse};
use tonic::Status;

use super::Controller;
use super::parameters::Parameters;
use crate::capability::Capability;
use crate::{disk, size_limit, status};

impl Controller {
    pub(super) async fn validate(
        self,
        request: ValidateVolumeCapabilitiesRequest,
    ) -> Result<ValidateVolumeCapabilitiesResponse, Status> {
        status::required("volume_id", &request.volume_id)?;
        if request.volume_capabilities.is_empty() {
            return Err(Status::invalid_argument("volume_capabilities is missing"));
        }
        let bucket = self.existing(&request.volume_id).await?;
        Ok(match refusal(&request, &bucket, &self.config.driver_name) {
            Some(why) => ValidateVolumeCapabilitiesResponse { confirmed: None, message: size_limit::message(why) },
            None => ValidateVolumeCapabilitiesResponse { confirmed: Some(confirm(request)), message: String::new() },
        })
    }
}

fn refusal(request: &ValidateVolumeCapabilitiesRequest, bucket: &Bucket, driver_name: &str) -> Option<String> {
    let capabilities = match Capability::parse_all(&request.volume_capabilities) {
        Err(status) => return Some(status.message().to_owned()),
        Ok(capabilities) => capabilities,
    };
    if let Some(why) = capabilities.iter().find_map(|asked| disk::other_kind(bucket, driver_name, asked.kind)) {
        return Some(why);
    }
    if let Err(error) = Parameters::with_mutable(&request.parameters, &request.mutable_parameters) {
        return Some(error.to_string());
    }
    bucket.snapshot.then(|| "the volume is a snapshot; use a volume made from it".into())
}

fn confirm(request: ValidateVolumeCapabilitiesRequest) -> Confirmed {
    Confirmed {
        volume_context: request.volume_context,
        volume_capabilities: request.volume_capabilities,
        parameters: request.parameters,
        mutable_parameters: request.mutable_parameters,
    }
}
