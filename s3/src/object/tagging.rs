//! Tags of an object: GetObjectTagging, PutObjectTagging, DeleteObjectTagging.
//!
//! - An object without tags has an empty set.

use s3s::dto::{
    DeleteObjectTaggingInput, DeleteObjectTaggingOutput, GetObjectTaggingInput, GetObjectTaggingOutput,
    PutObjectTaggingInput, PutObjectTaggingOutput,
};
use s3s::{S3Request, S3Response, S3Result};

use crate::error::OrRefuse as _;
use crate::names;
use crate::service::{Call, Service};
use crate::tagging::{Of, Tags, from_set, to_set};

/// Answers the tags of an object or a version (S3 API, GetObjectTagging).
pub(crate) async fn get(
    call: &Call,
    request: S3Request<GetObjectTaggingInput>,
) -> S3Result<S3Response<GetObjectTaggingOutput>> {
    let input = request.input;
    let (bucket, key) = (names::bucket(&input.bucket)?, names::key(&input.key)?);
    let authority = call.request.authority()?;
    let object = call
        .blocking(move |store| {
            let object = store.head_object(&bucket, &key, input.version_id.as_deref()).or_refuse()?;
            authority.confirm(store, &object)?;
            Ok(object)
        })
        .await?;
    let (tag_set, version_id) = (to_set(object.tags), object.version);
    Ok(S3Response::new(GetObjectTaggingOutput { tag_set, version_id }))
}

/// Replaces the tags of an object or a version (S3 API, PutObjectTagging).
pub(crate) async fn put(
    call: &Call,
    request: S3Request<PutObjectTaggingInput>,
) -> S3Result<S3Response<PutObjectTaggingOutput>> {
    call.request.prove(&request.headers)?;
    let input = request.input;
    let tags = from_set(input.tagging.tag_set, Of::Object)?;
    let version_id = set(call, &input.bucket, &input.key, input.version_id, tags).await?;
    Ok(S3Response::new(PutObjectTaggingOutput { version_id }))
}

/// Removes the tags of an object or a version (S3 API, DeleteObjectTagging).
pub(crate) async fn delete(
    service: &Service,
    request: S3Request<DeleteObjectTaggingInput>,
) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
    let input = request.input;
    let version_id = set(service, &input.bucket, &input.key, input.version_id, Tags::new()).await?;
    Ok(S3Response::new(DeleteObjectTaggingOutput { version_id }))
}

async fn set(
    service: &Service,
    bucket: &str,
    key: &str,
    version: Option<String>,
    tags: Tags,
) -> S3Result<Option<String>> {
    let (bucket, key) = (names::bucket(bucket)?, names::key(key)?);
    service.store.set_tags(&bucket, &key, version.as_deref(), tags).await.or_refuse()
}
