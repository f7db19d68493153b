//! Removing a volume. CSI v1.12, DeleteVolume.
//!
//! - Only what this driver made goes: a handle may name any bucket, and its data is not ours to delete.
//! - Snapshots of the volume stay.

use objstore::Error;
use objstore::store::Deletion;
use proto::csi::v1::{DeleteVolumeRequest, DeleteVolumeResponse};
use tonic::Status;

use super::Controller;
use crate::{is_provisioned, status};

impl Controller {
    pub(super) async fn delete(self, request: DeleteVolumeRequest) -> Result<DeleteVolumeResponse, Status> {
        let id = status::required("volume_id", &request.volume_id)?;
        let gone = Ok(DeleteVolumeResponse {});
        let Ok(name) = id.parse() else { return gone };
        let _guard = self.locks.hold(id)?;
        let Some(bucket) = self.find(&name).await? else { return gone };
        if !is_provisioned(&bucket, &self.config.driver_name) {
            return Err(Status::failed_precondition(format!(
                "\"{id}\" was not made by this driver; delete it with `amphora bucket delete`, or keep it with the \
                 reclaim policy Retain"
            )));
        }
        if let Some(publication) = self.publications(&name).await?.first() {
            return Err(Status::failed_precondition(format!(
                "volume \"{id}\" is published to node \"{}\"; unpublish it first",
                publication.node
            )));
        }
        match self.store.delete_bucket(&name, Deletion::Force).await {
            Ok(()) | Err(Error::NotFound { .. }) => gone,
            Err(error) => Err(status::of(error)),
        }
    }
}
