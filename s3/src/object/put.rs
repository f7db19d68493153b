//! PutObject.

use objstore::store::{Lock, PutObject};
use s3s::dto::{PutObjectInput, PutObjectOutput};
use s3s::{S3Request, S3Response, S3Result};

use super::etag;
use crate::body::{self, Body, receive};
use crate::checksum::{self, Claims};
use crate::error::OrRefuse as _;
use crate::service::Service;
use crate::{attributes, conditions, names};

/// Stores an object: on disk and visible to all when it answers (S3 API, PutObject).
pub(crate) async fn put(
    service: &Service,
    request: S3Request<PutObjectInput>,
) -> S3Result<S3Response<PutObjectOutput>> {
    let mut input = request.input;
    let (bucket, key) = (names::bucket(&input.bucket)?, names::key(&input.key)?);
    let condition = conditions::writing(input.if_match.take(), input.if_none_match.take())?;
    let attributes = attributes::take!(input)?;
    if body::is_large(input.content_length) {
        // That the bucket is gone is told before the body is sent, not after.
        let bucket = bucket.clone();
        service.blocking(move |store| store.bucket(&bucket).or_refuse()).await?;
    }
    let body = Body {
        stream: input.body.take(),
        length: input.content_length,
        claims: Claims::from_headers(&request.headers)?,
        trailers: request.trailing_headers,
    };
    let received = receive(&service.store, body).await?;
    let put = PutObject {
        bucket,
        key,
        content: received.content,
        etag: received.sums.etag(),
        headers: attributes.headers,
        metadata: attributes.metadata,
        tags: attributes.tags,
        checksums: received.sums.checksum.into_iter().collect(),
        lock: Lock::default(),
        condition,
    };
    let object = service.store.put_object(put).await.or_refuse()?;

    let mut output =
        PutObjectOutput { e_tag: Some(etag(&object.etag)), version_id: object.version, ..PutObjectOutput::default() };
    checksum::fill!(output, &object.checksums, typed);
    Ok(S3Response::new(output))
}
