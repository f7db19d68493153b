//! Tags of a bucket: GetBucketTagging, PutBucketTagging, DeleteBucketTagging.
//!
//! - A bucket without tags has no set of tags, and reading it is an error.

use objstore::store::Settings;
use s3s::dto::{
    DeleteBucketTaggingInput, DeleteBucketTaggingOutput, GetBucketTaggingInput, GetBucketTaggingOutput,
    PutBucketTaggingInput, PutBucketTaggingOutput,
};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use crate::error::{OrRefuse as _, plain};
use crate::names;
use crate::service::{Call, Service};
use crate::tagging::{Of, Tags, from_set, to_set};

/// Answers the tags of a bucket (S3 API, GetBucketTagging).
pub(crate) async fn get(
    service: &Service,
    request: S3Request<GetBucketTaggingInput>,
) -> S3Result<S3Response<GetBucketTaggingOutput>> {
    let bucket = names::bucket(&request.input.bucket)?;
    let settings = service.blocking(move |store| store.settings(&bucket).or_refuse()).await?.settings;
    if settings.tags.is_empty() {
        return Err(plain(S3ErrorCode::NoSuchTagSet));
    }
    Ok(S3Response::new(GetBucketTaggingOutput { tag_set: to_set(settings.tags.clone()) }))
}

/// Replaces the tags of a bucket (S3 API, PutBucketTagging).
pub(crate) async fn put(
    call: &Call,
    request: S3Request<PutBucketTaggingInput>,
) -> S3Result<S3Response<PutBucketTaggingOutput>> {
    call.request.prove(&request.headers)?;
    let tags = from_set(request.input.tagging.tag_set, Of::Bucket)?;
    set(call, &request.input.bucket, tags).await?;
    Ok(S3Response::new(PutBucketTaggingOutput::default()))
}

/// Removes the tags of a bucket (S3 API, DeleteBucketTagging).
pub(crate) async fn delete(
    service: &Service,
    request: S3Request<DeleteBucketTaggingInput>,
) -> S3Result<S3Response<DeleteBucketTaggingOutput>> {
    set(service, &request.input.bucket, Tags::new()).await?;
    Ok(S3Response::new(DeleteBucketTaggingOutput::default()))
}

async fn set(service: &Service, bucket: &str, tags: Tags) -> S3Result<()> {
    let bucket = names::bucket(bucket)?;
    let change = move |settings: &mut Settings| {
        settings.tags = tags;
        Ok(())
    };
    service.store.change_settings(&bucket, change).await.or_refuse()
}
