//! Object ownership of a bucket: the owner of the bucket owns all in it (S3 User Guide, Controlling ownership of
//! objects and disabling ACLs).
//!
//! - `BucketOwnerEnforced` holds in every bucket, also where its configuration was deleted.

use objstore::store::{Ownership, Settings};
use s3s::dto::{
    DeleteBucketOwnershipControlsInput, DeleteBucketOwnershipControlsOutput, GetBucketOwnershipControlsInput,
    GetBucketOwnershipControlsOutput, ObjectOwnership, OwnershipControls, OwnershipControlsRule,
    PutBucketOwnershipControlsInput, PutBucketOwnershipControlsOutput,
};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use crate::error::{OrRefuse as _, not_offered, plain, refuse};
use crate::service::Service;
use crate::{body, names};

/// Tells the object ownership of a bucket (S3 API, GetBucketOwnershipControls).
pub(crate) async fn get(
    service: &Service,
    request: S3Request<GetBucketOwnershipControlsInput>,
) -> S3Result<S3Response<GetBucketOwnershipControlsOutput>> {
    let bucket = names::bucket(&request.input.bucket)?;
    let settings = service.blocking(move |store| store.settings(&bucket).or_refuse()).await?.settings;
    if settings.ownership.as_ref().is_some_and(|ownership| ownership.rule.is_empty()) {
        return Err(plain(S3ErrorCode::OwnershipControlsNotFoundError));
    }
    let rule = ObjectOwnership::from_static(ObjectOwnership::BUCKET_OWNER_ENFORCED);
    let controls = OwnershipControls { rules: vec![OwnershipControlsRule { object_ownership: rule }] };
    Ok(S3Response::new(GetBucketOwnershipControlsOutput { ownership_controls: Some(controls) }))
}

/// Sets the object ownership of a bucket to the one there is (S3 API, PutBucketOwnershipControls).
pub(crate) async fn put(
    service: &Service,
    request: S3Request<PutBucketOwnershipControlsInput>,
) -> S3Result<S3Response<PutBucketOwnershipControlsOutput>> {
    body::prove(&request.headers)?;
    let [rule] = request.input.ownership_controls.rules.as_slice() else {
        return Err(refuse(S3ErrorCode::MalformedXML, "Ownership controls have one rule."));
    };
    match rule.object_ownership.as_str() {
        ObjectOwnership::BUCKET_OWNER_ENFORCED => {}
        other @ (ObjectOwnership::BUCKET_OWNER_PREFERRED | ObjectOwnership::OBJECT_WRITER) => {
            return Err(not_offered(&format!("The object ownership {other}")));
        }
        other => return Err(refuse(S3ErrorCode::MalformedXML, format!("\"{other}\" is no object ownership."))),
    }
    let rule = ObjectOwnership::BUCKET_OWNER_ENFORCED.to_owned();
    set(service, &request.input.bucket, rule).await?;
    Ok(S3Response::new(PutBucketOwnershipControlsOutput::default()))
}

/// Removes the configuration; what holds stays (S3 API, DeleteBucketOwnershipControls).
pub(crate) async fn delete(
    service: &Service,
    request: S3Request<DeleteBucketOwnershipControlsInput>,
) -> S3Result<S3Response<DeleteBucketOwnershipControlsOutput>> {
    set(service, &request.input.bucket, String::new()).await?;
    Ok(S3Response::new(DeleteBucketOwnershipControlsOutput::default()))
}

async fn set(service: &Service, bucket: &str, rule: String) -> S3Result<()> {
    let bucket = names::bucket(bucket)?;
    let change = move |settings: &mut Settings| {
        settings.ownership = Some(Ownership { rule });
        Ok(())
    };
    service.store.change_settings(&bucket, change).await.or_refuse()
}
