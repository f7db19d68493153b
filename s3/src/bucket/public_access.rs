//! The public access block of a bucket: GetPublicAccessBlock, PutPublicAccessBlock, DeletePublicAccessBlock.

use objstore::store::Settings;
use s3s::dto::{
    DeletePublicAccessBlockInput, DeletePublicAccessBlockOutput, GetPublicAccessBlockInput, GetPublicAccessBlockOutput,
    PublicAccessBlockConfiguration, PutPublicAccessBlockInput, PutPublicAccessBlockOutput,
};
use s3s::{S3Request, S3Response, S3Result};

use crate::error::{OrRefuse as _, custom, plain};
use crate::names;
use crate::public_access::{Block, all, in_force};
use crate::service::{Call, Service};

/// Answers the block of a bucket (S3 API, GetPublicAccessBlock).
pub(crate) async fn get(
    service: &Service,
    request: S3Request<GetPublicAccessBlockInput>,
) -> S3Result<S3Response<GetPublicAccessBlockOutput>> {
    let bucket = names::bucket(&request.input.bucket)?;
    let settings = service.blocking(move |store| store.settings(&bucket).or_refuse()).await?.settings;
    if settings.public_access.is_some_and(|block| block.deleted) {
        return Err(plain(custom("NoSuchPublicAccessBlockConfiguration")));
    }
    let block = in_force(&settings, service.bucket_access.default_block());
    let configuration = PublicAccessBlockConfiguration {
        block_public_acls: Some(block.block_acls),
        ignore_public_acls: Some(block.ignore_acls),
        block_public_policy: Some(block.block_policy),
        restrict_public_buckets: Some(block.restrict_buckets),
    };
    Ok(S3Response::new(GetPublicAccessBlockOutput { public_access_block_configuration: Some(configuration) }))
}

/// Sets the block of a bucket; settings not given are off (S3 API, PutPublicAccessBlock).
pub(crate) async fn put(
    call: &Call,
    request: S3Request<PutPublicAccessBlockInput>,
) -> S3Result<S3Response<PutPublicAccessBlockOutput>> {
    call.request.prove(&request.headers)?;
    let given = request.input.public_access_block_configuration;
    let block = Block {
        block_acls: given.block_public_acls.unwrap_or_default(),
        ignore_acls: given.ignore_public_acls.unwrap_or_default(),
        block_policy: given.block_public_policy.unwrap_or_default(),
        restrict_buckets: given.restrict_public_buckets.unwrap_or_default(),
        deleted: false,
    };
    set(call, &request.input.bucket, block).await?;
    Ok(S3Response::new(PutPublicAccessBlockOutput::default()))
}

/// Removes the block of a bucket; nothing is blocked then (S3 API, DeletePublicAccessBlock).
pub(crate) async fn delete(
    service: &Service,
    request: S3Request<DeletePublicAccessBlockInput>,
) -> S3Result<S3Response<DeletePublicAccessBlockOutput>> {
    set(service, &request.input.bucket, Block { deleted: true, ..all(false) }).await?;
    Ok(S3Response::new(DeletePublicAccessBlockOutput::default()))
}

async fn set(service: &Service, bucket: &str, block: Block) -> S3Result<()> {
    let bucket = names::bucket(bucket)?;
    let change = move |settings: &mut Settings| {
        settings.public_access = Some(block);
        Ok(())
    };
    service.store.change_settings(&bucket, change).await.or_refuse()
}
