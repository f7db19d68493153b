//! Deleting a volume. CSI v1.12, DeleteVolume.
//!
//! - Only volumes that this driver created are deleted: a handle may name any bucket, and others' data must stay.
//! - A volume that is published to a node or mounted by anyone is in use and stays.
//! - Snapshots of the volume stay.

use objstore::Error;
use proto::csi::v1::{DeleteVolumeRequest, DeleteVolumeResponse};
use tonic::Status;

use super::Controller;
use crate::{is_made_here, status};

impl Controller {
    pub(super) async fn delete(self, request: DeleteVolumeRequest) -> Result<DeleteVolumeResponse, Status> {
        let id = status::required("volume_id", &request.volume_id)?;
        let gone = Ok(DeleteVolumeResponse {});
        let Ok(name) = id.parse() else { return gone };
        let _guard = self.locks.hold(id)?;
        let Some(bucket) = self.find(&name).await? else { return gone };
        if !is_made_here(&bucket, &self.config.driver_name) {
            return Err(Status::failed_precondition(format!(
                "\"{id}\" was not made by this driver; delete it with `amphora bucket delete`, or keep it with the \
                 reclaim policy Retain"
            )));
        }
        match self.store.delete_unused_bucket(&name, bucket.id, Vec::new()).await {
            Ok(()) | Err(Error::NotFound { .. }) => gone,
            Err(error) => Err(status::of(error)),
        }
    }
}
