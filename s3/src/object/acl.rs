//! Access control lists of objects: those of new objects, GetObjectAcl and PutObjectAcl.

use objstore::store::{AccessList, ObjectAccess};
use objstore::{Error, Store};
use s3s::dto::{GetObjectAclInput, GetObjectAclOutput, PutObjectAclInput, PutObjectAclOutput};
use s3s::{S3Request, S3Response, S3Result};

use crate::acl::{BLOCKED, ListHeaders, ListInput, Of, Setting, Shown, refuse_other_owner, refuse_public};
use crate::error::OrRefuse as _;
use crate::names;
use crate::service::Call;

/// The owner and the list of an object that a request creates (S3 API, PutObject, CopyObject and CreateMultipartUpload).
/// Nothing is looked up where ACLs are disabled.
pub(crate) async fn of_new(call: &Call, asked: ListHeaders) -> S3Result<ObjectAccess> {
    let authority = call.request.authority()?;
    let Some(lists) = authority.lists() else { return Ok(ObjectAccess::default()) };
    // The object of an anonymous request belongs to the owner of the bucket.
    let writer = authority.account().map_or(lists.bucket_owner, |account| account.id);
    let given_up = lists.ownership == Setting::Preferred && asked.gives_to_bucket_owner();
    let owner = if given_up { lists.bucket_owner } else { writer };
    let acl = match asked.look_up(&call.store).await? {
        Some(wanted) => wanted.list(owner, lists.bucket_owner),
        None => AccessList::private(),
    };
    refuse_public(lists.block, &acl)?;
    Ok(ObjectAccess { owner: if owner == lists.bucket_owner { 0 } else { owner }, acl: acl.kept() })
}

/// Answers the ACL of an object, or of one of its versions (S3 API, GetObjectAcl).
pub(crate) async fn get(
    call: &Call,
    request: S3Request<GetObjectAclInput>,
) -> S3Result<S3Response<GetObjectAclOutput>> {
    let input = request.input;
    let (bucket, key) = (names::bucket(&input.bucket)?, names::key(&input.key)?);
    let authority = call.request.authority()?;
    let shown = call
        .blocking(move |store| {
            let object = store.head_object(&bucket, &key, input.version_id.as_deref()).or_refuse()?;
            authority.confirm(store, &object)?;
            let Some(lists) = authority.lists() else {
                return Shown::of(store, store.bucket(&bucket).or_refuse()?.owner, None);
            };
            let owner = store.account_name(lists.owner(&object.access)).or_refuse()?;
            Shown::of(store, owner, object.access.acl.as_ref())
        })
        .await?;
    Ok(shown.answer(GetObjectAclOutput::default()))
}

/// Sets the ACL of an object, or of one of its versions (S3 API, PutObjectAcl).
pub(crate) async fn put(
    call: &Call,
    request: S3Request<PutObjectAclInput>,
) -> S3Result<S3Response<PutObjectAclOutput>> {
    call.request.prove(&request.headers)?;
    let input = request.input;
    let (bucket, key) = (names::bucket(&input.bucket)?, names::key(&input.key)?);
    let version = input.version_id;
    let asked = ListInput::of(&request.headers, input.access_control_policy, Of::Object)?;
    let authority = call.request.authority()?;
    let Some(lists) = authority.lists() else {
        let find = move |store: &Store| {
            store.head_object(&bucket, &key, version.as_deref()).or_refuse()?;
            Ok(store.bucket(&bucket).or_refuse()?.owner)
        };
        asked.check_disabled(&call.blocking(find).await?)?;
        return Ok(S3Response::new(PutObjectAclOutput::default()));
    };
    let (owner, wanted) = asked.look_up(&call.store).await?;
    let (lists, listed) = (lists.clone(), authority.listed());
    let change = move |access: &mut ObjectAccess| {
        if listed.is_some_and(|listed| listed != *access) {
            return Err(Error::Denied { why: "the object was replaced meanwhile; try again".into() });
        }
        let owned_by = lists.owner(access);
        refuse_other_owner(owner, owned_by)?;
        let acl = wanted.list(owned_by, lists.bucket_owner);
        if lists.block.block_acls && acl.is_public() {
            return Err(Error::Denied { why: BLOCKED.into() });
        }
        access.acl = acl.kept();
        Ok(())
    };
    call.store.change_acl(&bucket, &key, version.as_deref(), change).await.or_refuse()?;
    Ok(S3Response::new(PutObjectAclOutput::default()))
}
