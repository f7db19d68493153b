//! The S3 operations, each handed on to its family.

use std::sync::Arc;

use objstore::Store;
use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result};

use crate::error::lost;
use crate::{bucket, listing, multipart, object};

/// What every operation works with: a cheap handle.
#[derive(Clone)]
pub(crate) struct Service {
    /// The store.
    pub(crate) store: Store,
    /// The region buckets are in.
    pub(crate) region: Arc<str>,
}

impl Service {
    /// Runs a blocking piece of work on the store, off the async workers.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> S3Result<T> + Send + 'static,
    ) -> S3Result<T> {
        let store = self.store.clone();
        tokio::task::spawn_blocking(move || work(&store)).await.map_err(|error| lost(&error))?
    }
}

/// One delegating method for each operation that is offered; all others stay `NotImplemented`, which `access`
/// answers with the operation's name before they are reached.
macro_rules! operations {
    ($($method:ident: $input:ident -> $output:ident = $family:path;)*) => {
        #[async_trait::async_trait]
        impl S3 for Service {
            $(async fn $method(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                $family(self, request).await
            })*
        }
    };
}

operations! {
    list_buckets: ListBucketsInput -> ListBucketsOutput = bucket::list;
    create_bucket: CreateBucketInput -> CreateBucketOutput = bucket::create;
    head_bucket: HeadBucketInput -> HeadBucketOutput = bucket::head;
    delete_bucket: DeleteBucketInput -> DeleteBucketOutput = bucket::delete;
    get_bucket_location: GetBucketLocationInput -> GetBucketLocationOutput = bucket::location;
    get_bucket_versioning: GetBucketVersioningInput -> GetBucketVersioningOutput = bucket::versioning;
    put_bucket_versioning: PutBucketVersioningInput -> PutBucketVersioningOutput = bucket::set_versioning;

    put_object: PutObjectInput -> PutObjectOutput = object::put::put;
    get_object: GetObjectInput -> GetObjectOutput = object::get::get;
    head_object: HeadObjectInput -> HeadObjectOutput = object::get::head;
    delete_object: DeleteObjectInput -> DeleteObjectOutput = object::delete::one;
    delete_objects: DeleteObjectsInput -> DeleteObjectsOutput = object::delete::many;
    copy_object: CopyObjectInput -> CopyObjectOutput = object::copy::copy;

    list_objects: ListObjectsInput -> ListObjectsOutput = listing::objects;
    list_objects_v2: ListObjectsV2Input -> ListObjectsV2Output = listing::objects_v2;
    list_object_versions: ListObjectVersionsInput -> ListObjectVersionsOutput = listing::versions;

    create_multipart_upload: CreateMultipartUploadInput -> CreateMultipartUploadOutput = multipart::upload::create;
    abort_multipart_upload: AbortMultipartUploadInput -> AbortMultipartUploadOutput = multipart::upload::abort;
    list_multipart_uploads: ListMultipartUploadsInput -> ListMultipartUploadsOutput = multipart::upload::list;
    upload_part: UploadPartInput -> UploadPartOutput = multipart::part::put;
    upload_part_copy: UploadPartCopyInput -> UploadPartCopyOutput = multipart::part::copy;
    list_parts: ListPartsInput -> ListPartsOutput = multipart::part::list;
    complete_multipart_upload: CompleteMultipartUploadInput -> CompleteMultipartUploadOutput = multipart::complete::complete;
}
