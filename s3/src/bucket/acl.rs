//! Access control lists of buckets: those of CreateBucket, GetBucketAcl and PutBucketAcl.

use objstore::Error;
use objstore::store::{AccessList, Settings};
use s3s::dto::{GetBucketAclInput, GetBucketAclOutput, PutBucketAclInput, PutBucketAclOutput};
use s3s::{S3Request, S3Response, S3Result};

use crate::acl::{ListHeaders, ListInput, Of, Setting, Shown, refuse_other_owner, refuse_public};
use crate::authorization::Lists;
use crate::error::{OrRefuse as _, custom, refuse};
use crate::names;
use crate::service::{Call, Service};

/// The list of a bucket that a request creates (S3 API, CreateBucket). `owner` is the id of its account.
pub(crate) async fn of_new(
    service: &Service,
    asked: ListHeaders,
    ownership: Setting,
    owner: u64,
) -> S3Result<Option<AccessList>> {
    let acl = match asked.look_up(&service.store).await? {
        Some(wanted) => wanted.list(owner, owner).kept(),
        None => None,
    };
    let Some(acl) = acl else { return Ok(None) };
    if !ownership.enables_acls() {
        let words = "Name another x-amz-object-ownership, or leave the ACL out.";
        return Err(refuse(custom("InvalidBucketAclWithObjectOwnership"), words));
    }
    if acl.is_public() && service.bucket_access.default_block().block_acls {
        return Err(refuse(
            custom("InvalidBucketAclWithBlockPublicAccessError"),
            "New buckets block public ACLs here: make the bucket, change its public access block, then put the ACL.",
        ));
    }
    Ok(Some(acl))
}

/// Answers the ACL of a bucket (S3 API, GetBucketAcl).
pub(crate) async fn get(
    call: &Call,
    request: S3Request<GetBucketAclInput>,
) -> S3Result<S3Response<GetBucketAclOutput>> {
    let bucket = names::bucket(&request.input.bucket)?;
    let authority = call.request.authority()?;
    let shown = call
        .blocking(move |store| {
            let owner = store.bucket(&bucket).or_refuse()?.owner;
            let list = authority.lists().and_then(Lists::of_bucket);
            Shown::of(store, owner, list)
        })
        .await?;
    Ok(shown.answer(GetBucketAclOutput::default()))
}

/// Sets the ACL of a bucket (S3 API, PutBucketAcl).
pub(crate) async fn put(
    call: &Call,
    request: S3Request<PutBucketAclInput>,
) -> S3Result<S3Response<PutBucketAclOutput>> {
    call.request.prove(&request.headers)?;
    let bucket = names::bucket(&request.input.bucket)?;
    let asked = ListInput::of(&request.headers, request.input.access_control_policy, Of::Bucket)?;
    let authority = call.request.authority()?;
    let Some(lists) = authority.lists() else {
        let owner = call.blocking(move |store| Ok(store.bucket(&bucket).or_refuse()?.owner)).await?;
        asked.check_disabled(&owner)?;
        return Ok(S3Response::new(PutBucketAclOutput::default()));
    };
    let (owner, wanted) = asked.look_up(&call.store).await?;
    let acl = wanted.list(lists.bucket_owner, lists.bucket_owner);
    refuse_other_owner(owner, lists.bucket_owner).or_refuse()?;
    refuse_public(lists.block, &acl)?;
    let (acl, default) = (acl.kept(), call.bucket_access.default_block());
    let change = move |settings: &mut Settings| {
        if !Lists::accept(settings, default, acl.as_ref()) {
            return Err(Error::Denied { why: "the bucket's settings changed meanwhile, and allow no such ACL".into() });
        }
        settings.acl = acl;
        Ok(())
    };
    call.store.change_settings(&bucket, change).await.or_refuse()?;
    Ok(S3Response::new(PutBucketAclOutput::default()))
}
