//! ACLs, which are off: the owner of a bucket owns all in it, and grants and the bucket's policy say who else gets in
//! (S3 User Guide, Controlling ownership of objects and disabling ACLs).
//!
//! - To read one gives the owner full control, which is what holds.
//! - To set one is refused, but for those that say just this.

use objstore::Store;
use objstore::name::BucketName;
use s3s::dto::{
    AccessControlPolicy, BucketCannedACL, GetBucketAclInput, GetBucketAclOutput, GetObjectAclInput, GetObjectAclOutput,
    Grant, Grantee, ObjectCannedACL, Owner, Permission, PutBucketAclInput, PutBucketAclOutput, PutObjectAclInput,
    PutObjectAclOutput, Type,
};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use crate::bucket::person;
use crate::error::{Detail as _, OrRefuse as _, refuse};
use crate::service::Service;
use crate::{body, names, offer};

/// Tells the ACL of a bucket (S3 API, GetBucketAcl).
pub(crate) async fn of_bucket(
    service: &Service,
    request: S3Request<GetBucketAclInput>,
) -> S3Result<S3Response<GetBucketAclOutput>> {
    let bucket = names::bucket(&request.input.bucket)?;
    let owner = service.blocking(move |store| owner(store, &bucket)).await?;
    Ok(S3Response::new(GetBucketAclOutput { grants: Some(vec![full_control(&owner)]), owner: Some(owner) }))
}

/// Tells the ACL of an object (S3 API, GetObjectAcl).
pub(crate) async fn of_object(
    service: &Service,
    request: S3Request<GetObjectAclInput>,
) -> S3Result<S3Response<GetObjectAclOutput>> {
    let input = request.input;
    let owner = object_owner(service, &input.bucket, &input.key, input.version_id).await?;
    let grants = Some(vec![full_control(&owner)]);
    Ok(S3Response::new(GetObjectAclOutput { grants, owner: Some(owner), ..GetObjectAclOutput::default() }))
}

/// Sets the ACL of a bucket to what it is (S3 API, PutBucketAcl).
pub(crate) async fn set_bucket(
    service: &Service,
    request: S3Request<PutBucketAclInput>,
) -> S3Result<S3Response<PutBucketAclOutput>> {
    body::prove(&request.headers)?;
    let bucket = names::bucket(&request.input.bucket)?;
    let owner = service.blocking(move |store| owner(store, &bucket)).await?;
    let canned = request.input.acl.as_ref().map(BucketCannedACL::as_str);
    check(canned, request.input.access_control_policy.as_ref(), &owner)?;
    Ok(S3Response::new(PutBucketAclOutput::default()))
}

/// Sets the ACL of an object to what it is (S3 API, PutObjectAcl).
pub(crate) async fn set_object(
    service: &Service,
    request: S3Request<PutObjectAclInput>,
) -> S3Result<S3Response<PutObjectAclOutput>> {
    body::prove(&request.headers)?;
    let input = request.input;
    let owner = object_owner(service, &input.bucket, &input.key, input.version_id).await?;
    check(input.acl.as_ref().map(ObjectCannedACL::as_str), input.access_control_policy.as_ref(), &owner)?;
    Ok(S3Response::new(PutObjectAclOutput::default()))
}

/// Whether what is asked for holds already. Headers were checked before (`offer`).
fn check(canned: Option<&str>, list: Option<&AccessControlPolicy>, owner: &Owner) -> S3Result<()> {
    match (canned, list) {
        (Some(_), Some(_)) => Err(refuse(S3ErrorCode::UnexpectedContent, "Give an ACL by name or as XML, not both.")),
        (Some(canned), None) => offer::check_acl(canned),
        (None, Some(list)) if is_full_control(list, owner) => Ok(()),
        (None, Some(_)) => Err(offer::no_lists()),
        (None, None) => Err(refuse(S3ErrorCode::MissingSecurityHeader, "Give an ACL by x-amz-acl or as XML.")
            .with("MissingHeaderName", "x-amz-acl")),
    }
}

fn is_full_control(list: &AccessControlPolicy, owner: &Owner) -> bool {
    let [grant] = list.grants.as_deref().unwrap_or_default() else { return false };
    let named = list.owner.as_ref().is_none_or(|named| named.id == owner.id);
    let grantee = grant.grantee.as_ref().is_some_and(|grantee| grantee.id == owner.id);
    named && grantee && grant.permission.as_ref().is_some_and(|what| what.as_str() == Permission::FULL_CONTROL)
}

fn full_control(owner: &Owner) -> Grant {
    let grantee = Grantee {
        display_name: owner.display_name.clone(),
        email_address: None,
        id: owner.id.clone(),
        type_: Type::from_static(Type::CANONICAL_USER),
        uri: None,
    };
    Grant { grantee: Some(grantee), permission: Some(Permission::from_static(Permission::FULL_CONTROL)) }
}

fn owner(store: &Store, bucket: &BucketName) -> S3Result<Owner> {
    Ok(person(&store.bucket(bucket).or_refuse()?.owner))
}

/// The owner of an object that is there: that of its bucket.
async fn object_owner(service: &Service, bucket: &str, key: &str, version: Option<String>) -> S3Result<Owner> {
    let (bucket, key) = (names::bucket(bucket)?, names::key(key)?);
    service
        .blocking(move |store| {
            store.head_object(&bucket, &key, version.as_deref()).or_refuse()?;
            owner(store, &bucket)
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_holds_can_be_set() {
        let owner = person("alice");
        let list = |grants: Vec<Grant>| AccessControlPolicy { grants: Some(grants), owner: Some(person("alice")) };
        let read = Grant { permission: Some(Permission::from_static(Permission::READ)), ..full_control(&owner) };
        let other = full_control(&person("bob"));
        let table = [
            (Some("private"), None, ""),
            (Some("bucket-owner-read"), None, ""),
            (Some("bucket-owner-full-control"), None, ""),
            (Some("public-read"), None, "AccessControlListNotSupported"),
            (None, Some(list(vec![full_control(&owner)])), ""),
            (None, Some(list(vec![read])), "AccessControlListNotSupported"),
            (None, Some(list(vec![full_control(&owner), other])), "AccessControlListNotSupported"),
            (None, Some(list(Vec::new())), "AccessControlListNotSupported"),
            (None, None, "MissingSecurityHeader"),
            (Some("private"), Some(list(Vec::new())), "UnexpectedContent"),
        ];
        for (canned, list, code) in table {
            let found = check(canned, list.as_ref(), &owner).err();
            let found = found.map(|error| error.code().as_str().to_owned()).unwrap_or_default();
            assert_eq!(found, code, "{canned:?} {list:?}");
        }
    }
}
