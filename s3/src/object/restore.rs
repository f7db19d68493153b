//! RestoreObject.
//!
//! - No object is archived here (decision 0063), so there is nothing to restore: AWS refuses a restore of an object that can
//!   be read at once, and so does this module.

use s3s::dto::{RestoreObjectInput, RestoreObjectOutput};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use crate::error::{Detail as _, OrRefuse as _, says};
use crate::names;
use crate::service::Call;

/// Refuses to restore an object that is not archived (S3 API, RestoreObject).
pub(crate) async fn restore(
    call: &Call,
    request: S3Request<RestoreObjectInput>,
) -> S3Result<S3Response<RestoreObjectOutput>> {
    call.request.prove(&request.headers)?;
    let input = request.input;
    let (bucket, key) = (names::bucket(&input.bucket)?, names::key(&input.key)?);
    let version = input.version_id;
    call.blocking(move |store| store.head_object(&bucket, &key, version.as_deref()).or_refuse()).await?;
    let refused =
        says(S3ErrorCode::InvalidObjectState, "Restore is not allowed for the object's current storage class");
    Err(refused.hint("The object can be read at once: no object is archived here."))
}
