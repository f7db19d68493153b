//! PutObject.

use http::HeaderMap;
use objstore::name::{BucketName, Key};
use objstore::store::{Condition, Lock, ObjectAccess, ObjectInfo, PutObject};
use s3s::dto::{PutObjectInput, PutObjectOutput};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use super::acl;
use crate::acl::{ListHeaders, Of};
use crate::attributes::Attributes;
use crate::body::{self, Body, Received, receive};
use crate::checksum::{self, Claims};
use crate::error::{OrRefuse as _, says};
use crate::response::{etag, version_made};
use crate::service::{Call, Service};
use crate::{attributes, conditions, lifecycle, lock, names};

/// The object to store, without its content.
pub(crate) struct Upload {
    bucket: BucketName,
    key: Key,
    attributes: Attributes,
    lock: Lock,
    access: ObjectAccess,
    condition: Condition,
    /// The claims about the content.
    pub(crate) claims: Claims,
}

impl Upload {
    /// Validates the parameters of an authorized request.
    pub(crate) async fn new(call: &Call, input: &mut PutObjectInput, headers: &HeaderMap) -> S3Result<Self> {
        Ok(Self {
            access: acl::of_new(call, ListHeaders::of(headers, Of::Object)?).await?,
            bucket: names::bucket(&input.bucket)?,
            key: names::key(&input.key)?,
            condition: conditions::writing(headers)?,
            lock: lock::asked!(input)?,
            attributes: attributes::take!(input)?,
            claims: Claims::from_headers(headers)?.for_object(),
        })
    }

    /// Refuses a lock on content without a claim: content that is locked for years has to be verified.
    fn check_locked(&self) -> S3Result<()> {
        if self.lock == Lock::default() || !self.claims.is_empty() {
            return Ok(());
        }
        let words = "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters";
        Err(says(S3ErrorCode::InvalidRequest, words))
    }

    /// Creates the object: on disk and visible to all when it returns.
    pub(crate) async fn store(self, service: &Service, received: Received) -> S3Result<ObjectInfo> {
        let put = PutObject {
            bucket: self.bucket,
            key: self.key,
            content: received.content,
            etag: received.sums.etag(),
            headers: self.attributes.headers,
            metadata: self.attributes.metadata,
            tags: self.attributes.tags,
            checksums: received.sums.checksum.into_iter().collect(),
            lock: self.lock,
            access: self.access,
            condition: self.condition,
        };
        service.store.put_object(put).await.or_refuse()
    }
}

/// Stores an object: on disk and visible to all when the response is sent (S3 API, PutObject).
pub(crate) async fn put(call: &Call, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
    let mut input = request.input;
    let upload = Upload::new(call, &mut input, &request.headers).await?;
    upload.check_locked()?;
    if body::is_large(input.content_length) {
        // A missing bucket is reported before the body is received.
        let bucket = upload.bucket.clone();
        call.blocking(move |store| store.bucket(&bucket).or_refuse()).await?;
    }
    let body = Body {
        stream: input.body.take(),
        length: input.content_length,
        claims: upload.claims.clone(),
        trailers: request.trailing_headers,
    };
    let received = receive(&call.store, body).await?;
    let object = upload.store(call, received).await?;

    let mut output = PutObjectOutput {
        e_tag: Some(etag(&object.etag)),
        expiration: object.expiration.as_ref().and_then(lifecycle::header),
        version_id: version_made(object.version),
        ..PutObjectOutput::default()
    };
    checksum::fill!(output, &object.checksums, typed);
    Ok(S3Response::new(output))
}
