//! Expanding a volume. CSI v1.12, ControllerExpandVolume.
//!
//! - The quota is the size, and every mount sees it at once, so no node expansion is needed. The disk of a block volume
//!   grows with the quota; then nodes have to give their devices its size.
//! - A volume that is large enough is not changed; volumes never shrink.

use objstore::store::{Bucket, SetBucket};
use proto::csi::v1::{ControllerExpandVolumeRequest, ControllerExpandVolumeResponse};
use tonic::Status;

use super::Controller;
use crate::capability::{Capability, Kind};
use crate::capacity::{Range, signed};
use crate::{disk, is_made_here, status};

impl Controller {
    pub(super) async fn expand(
        self,
        request: ControllerExpandVolumeRequest,
    ) -> Result<ControllerExpandVolumeResponse, Status> {
        let id = status::required("volume_id", &request.volume_id)?;
        let range = Range::parse(request.capacity_range.as_ref())?;
        let mut asked = range.quota().ok_or_else(|| Status::invalid_argument("capacity_range is missing"))?;
        let capability = request.volume_capability.as_ref();
        let kind =
            capability.map(|capability| Capability::parse(Some(capability))).transpose()?.map(|given| given.kind);
        let _guard = self.locks.hold(id)?;
        let bucket = self.whole(id).await?;
        let is_block = disk::is_block(&bucket);
        if let Some(why) = kind.and_then(|kind| disk::other_kind(&bucket, &self.config.driver_name, kind)) {
            return Err(Status::invalid_argument(why));
        }
        if kind == Some(Kind::Block) && !is_block {
            return Err(Status::invalid_argument(format!(
                "\"{id}\" was not made as a block volume by this driver; write a larger \"{}\" into it",
                disk::DISK
            )));
        }
        if is_block {
            asked = disk::size(range, None)?;
        }
        let size = match bucket.quota_bytes {
            // Without a quota any size fits already.
            None => asked,
            Some(quota) if quota >= asked => quota,
            Some(_) if !is_made_here(&bucket, &self.config.driver_name) => {
                return Err(Status::failed_precondition(format!(
                    "\"{id}\" was not made by this driver; change its quota with `amphora bucket set`"
                )));
            }
            Some(_) => {
                let set = SetBucket { quota_bytes: Some(Some(asked)), ..Default::default() };
                self.store.set_bucket(&bucket.name, set).await.map_err(status::of)?;
                asked
            }
        };
        if range.is_exceeded_by(Some(size)) {
            return Err(Status::out_of_range(format!("volume \"{id}\" already has {size} bytes, above the limit")));
        }
        self.ensure_disk(&Bucket { quota_bytes: Some(size), ..bucket }).await?;
        Ok(ControllerExpandVolumeResponse { capacity_bytes: signed(size), node_expansion_required: is_block })
    }
}
