//! Public access block of a bucket (S3 User Guide, Blocking public access).
//!
//! - A bucket whose block was never set has the server's default; one whose configuration was deleted has none.
//! - The settings for public ACLs take effect where Object Ownership enables ACLs (`acl`, `access::Lists`).

use objstore::store::{PublicAccess, Settings};
use s3s::dto::{
    DeletePublicAccessBlockInput, DeletePublicAccessBlockOutput, GetPublicAccessBlockInput, GetPublicAccessBlockOutput,
    PublicAccessBlockConfiguration, PutPublicAccessBlockInput, PutPublicAccessBlockOutput,
};
use s3s::{S3Request, S3Response, S3Result};

use crate::error::{OrRefuse as _, custom, plain};
use crate::service::Service;
use crate::{body, names};

/// The four settings of a block.
pub(crate) type Block = PublicAccess;

/// All four settings on, or all off.
pub(crate) fn all(on: bool) -> Block {
    Block { block_acls: on, ignore_acls: on, block_policy: on, restrict_buckets: on, deleted: false }
}

/// The block in force for a bucket with these settings.
pub(crate) fn in_force(settings: &Settings, default: Block) -> Block {
    match settings.public_access {
        None => default,
        Some(block) if block.deleted => all(false),
        Some(block) => block,
    }
}

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
    let block = in_force(&settings, service.standings.default_block());
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
    service: &Service,
    request: S3Request<PutPublicAccessBlockInput>,
) -> S3Result<S3Response<PutPublicAccessBlockOutput>> {
    body::prove(&request.headers)?;
    let given = request.input.public_access_block_configuration;
    let block = Block {
        block_acls: given.block_public_acls.unwrap_or_default(),
        ignore_acls: given.ignore_public_acls.unwrap_or_default(),
        block_policy: given.block_public_policy.unwrap_or_default(),
        restrict_buckets: given.restrict_public_buckets.unwrap_or_default(),
        deleted: false,
    };
    set(service, &request.input.bucket, block).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_that_was_never_told_has_the_default() {
        let settings = |public_access| Settings { public_access, ..Settings::default() };
        let some = Block { block_policy: true, ..all(false) };
        assert_eq!(in_force(&settings(None), all(true)), all(true));
        assert_eq!(in_force(&settings(Some(some)), all(true)), some);
        let deleted = Block { deleted: true, ..all(false) };
        assert_eq!(in_force(&settings(Some(deleted)), all(true)), all(false));
    }
}
