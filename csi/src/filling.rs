//! The mark of a volume whose first content is still being copied.
//!
//! - A marked volume is not used: it is neither published, staged, copied nor changed. CreateVolume is not answered before
//!   the mark is gone.

use objstore::store::Bucket;
use tonic::Status;

/// The bucket attribute that marks it; the store keeps its value (`objstore::store::Fill`).
pub(crate) const MARK: &str = "csi.filling";

/// Refuses a volume with the mark.
pub(crate) fn refuse(bucket: &Bucket) -> Result<(), Status> {
    match bucket.attributes.contains_key(MARK) {
        false => Ok(()),
        true => Err(Status::failed_precondition(format!(
            "the first content of volume \"{}\" is still being copied; repeat its CreateVolume until that succeeds, or delete it",
            bucket.name
        ))),
    }
}
