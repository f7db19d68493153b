//! Bucket policy operations: PutBucketPolicy, GetBucketPolicy, DeleteBucketPolicy, GetBucketPolicyStatus.
//!
//! - A policy is stored byte for byte as received, after all of it was parsed.

use std::cell::RefCell;
use std::collections::BTreeMap;

use objstore::Error;
use objstore::name::is_account_name;
use objstore::store::Settings;
use s3_policy::Policy;
use s3s::dto::{
    DeleteBucketPolicyInput, DeleteBucketPolicyOutput, GetBucketPolicyInput, GetBucketPolicyOutput,
    GetBucketPolicyStatusInput, GetBucketPolicyStatusOutput, PolicyStatus, PutBucketPolicyInput, PutBucketPolicyOutput,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use crate::error::{Detail as _, OrRefuse as _, plain, says};
use crate::service::{Call, Service};
use crate::{names, public_access};

/// Sets the policy of a bucket (S3 API, PutBucketPolicy).
///
/// `x-amz-confirm-remove-self-bucket-access` is not needed: the owner can always change the policy.
pub(crate) async fn put(
    call: &Call,
    request: S3Request<PutBucketPolicyInput>,
) -> S3Result<S3Response<PutBucketPolicyOutput>> {
    call.request.prove(&request.headers)?;
    let (bucket, text) = (names::bucket(&request.input.bucket)?, request.input.policy);
    let (name, given) = (bucket.clone(), text.clone());
    let (public, accounts) = call
        .blocking(move |store| {
            let accounts = RefCell::new(BTreeMap::new());
            let exists = |account: &str| {
                let found = store.account(account).ok().filter(|found| is_account_name(&found.name));
                found.map(|found| accounts.borrow_mut().insert(found.name, found.id)).is_some()
            };
            let policy = Policy::parse(&given, name.as_str(), &exists);
            let policy = policy.map_err(|why| malformed(&why.0))?;
            Ok((policy.is_public(), accounts.take()))
        })
        .await?;
    let default = call.bucket_access.default_block();
    let check = move |settings: &Settings| {
        if public && public_access::in_force(settings, default).block_policy {
            let why = "the policy is public, and the bucket's public access block forbids public policies";
            return Err(Error::Denied { why: why.into() });
        }
        Ok(())
    };
    call.store.put_policy(&bucket, text, accounts, check).await.or_refuse()?;
    Ok(S3Response::new(PutBucketPolicyOutput::default()))
}

/// The error for a malformed policy: AWS's sentence, and after a colon what is wrong.
fn malformed(why: &str) -> S3Error {
    match why.split_once(": ") {
        Some((sentence, _)) => says(S3ErrorCode::MalformedPolicy, sentence).hint(why),
        None => says(S3ErrorCode::MalformedPolicy, why.trim_end_matches('.')),
    }
}

/// Answers the policy of a bucket (S3 API, GetBucketPolicy).
pub(crate) async fn get(
    service: &Service,
    request: S3Request<GetBucketPolicyInput>,
) -> S3Result<S3Response<GetBucketPolicyOutput>> {
    let bucket = names::bucket(&request.input.bucket)?;
    let settings = service.blocking(move |store| store.settings(&bucket).or_refuse()).await?.settings;
    match &settings.policy {
        Some(policy) => Ok(S3Response::new(GetBucketPolicyOutput { policy: Some(policy.clone()) })),
        None => Err(plain(S3ErrorCode::NoSuchBucketPolicy)),
    }
}

/// Removes the policy of a bucket, if it has one (S3 API, DeleteBucketPolicy).
pub(crate) async fn delete(
    service: &Service,
    request: S3Request<DeleteBucketPolicyInput>,
) -> S3Result<S3Response<DeleteBucketPolicyOutput>> {
    let bucket = names::bucket(&request.input.bucket)?;
    let change = |settings: &mut Settings| {
        (settings.policy, settings.policy_since) = (None, 0);
        settings.policy_accounts.clear();
        Ok(())
    };
    service.store.change_settings(&bucket, change).await.or_refuse()?;
    Ok(S3Response::new(DeleteBucketPolicyOutput::default()))
}

/// Answers whether the policy of a bucket is public; a missing policy is not (S3 API, GetBucketPolicyStatus).
pub(crate) async fn status(
    service: &Service,
    request: S3Request<GetBucketPolicyStatusInput>,
) -> S3Result<S3Response<GetBucketPolicyStatusOutput>> {
    let (bucket, reader) = (names::bucket(&request.input.bucket)?, service.bucket_access.clone());
    let bucket_access = service.blocking(move |store| reader.read(store, (None, None), &bucket).or_refuse()).await?;
    let policy_status = Some(PolicyStatus { is_public: Some(bucket_access.is_public()) });
    Ok(S3Response::new(GetBucketPolicyStatusOutput { policy_status }))
}
