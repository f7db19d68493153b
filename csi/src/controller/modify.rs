//! Changing a volume's mutable parameters. CSI v1.12, ControllerModifyVolume.
//!
//! - The store makes all changes in one transaction, so a refused value changes nothing.
//! - Only the keys of the request are changed, and only of volumes that this driver created.

use objstore::store::Versioning;
use proto::csi::v1::{ControllerModifyVolumeRequest, ControllerModifyVolumeResponse};
use tonic::Status;

use super::Controller;
use super::parameters;
use crate::{disk, is_made_here, status};

impl Controller {
    pub(super) async fn modify(
        self,
        request: ControllerModifyVolumeRequest,
    ) -> Result<ControllerModifyVolumeResponse, Status> {
        let id = status::required("volume_id", &request.volume_id)?;
        if request.mutable_parameters.is_empty() {
            return Err(Status::invalid_argument("mutable_parameters is missing: name what to change"));
        }
        let _guard = self.locks.hold(id)?;
        let bucket = self.whole(id).await?;
        let modification = parameters::modification(&request.mutable_parameters).map_err(status::of)?;
        if !is_made_here(&bucket, &self.config.driver_name) {
            return Err(Status::failed_precondition(format!(
                "\"{id}\" was not made by this driver; change it with `amphora bucket set`"
            )));
        }
        let keeps_versions = modification.versioning.is_some_and(|wanted| wanted != Versioning::Disabled);
        if disk::is_block(&bucket) && keeps_versions {
            return Err(Status::invalid_argument(format!(
                "\"{id}\" is a block volume, which keeps no versions; leave out the parameter versioning"
            )));
        }
        self.store.modify_bucket(&bucket.name, bucket.id, modification).await.map_err(status::of)?;
        Ok(ControllerModifyVolumeResponse {})
    }
}
