//! Object Ownership of a bucket: GetBucketOwnershipControls, PutBucketOwnershipControls, DeleteBucketOwnershipControls.
//!
//! - ACLs are disabled only while the bucket's own ACL grants access to its owner alone. Those of objects are kept, and in
//!   force again once ACLs are enabled.

use objstore::Error;
use objstore::store::{Grantee, Ownership, Settings};
use s3s::dto::{
    DeleteBucketOwnershipControlsInput, DeleteBucketOwnershipControlsOutput, GetBucketOwnershipControlsInput,
    GetBucketOwnershipControlsOutput, ObjectOwnership, OwnershipControls, OwnershipControlsRule,
    PutBucketOwnershipControlsInput, PutBucketOwnershipControlsOutput,
};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use crate::acl::Setting;
use crate::error::{OrRefuse as _, plain, refuse};
use crate::names;
use crate::service::{Call, Service};

/// Answers the Object Ownership of a bucket (S3 API, GetBucketOwnershipControls).
pub(crate) async fn get(
    service: &Service,
    request: S3Request<GetBucketOwnershipControlsInput>,
) -> S3Result<S3Response<GetBucketOwnershipControlsOutput>> {
    let bucket = names::bucket(&request.input.bucket)?;
    let settings = service.blocking(move |store| store.settings(&bucket).or_refuse()).await?.settings;
    if settings.ownership.as_ref().is_some_and(|kept| kept.deleted || kept.rule.is_empty()) {
        return Err(plain(S3ErrorCode::OwnershipControlsNotFoundError));
    }
    let rule = ObjectOwnership::from_static(Setting::of(&settings).name());
    let controls = OwnershipControls { rules: vec![OwnershipControlsRule { object_ownership: rule }] };
    Ok(S3Response::new(GetBucketOwnershipControlsOutput { ownership_controls: Some(controls) }))
}

/// Sets the Object Ownership of a bucket (S3 API, PutBucketOwnershipControls).
pub(crate) async fn put(
    call: &Call,
    request: S3Request<PutBucketOwnershipControlsInput>,
) -> S3Result<S3Response<PutBucketOwnershipControlsOutput>> {
    call.request.prove(&request.headers)?;
    let [rule] = request.input.ownership_controls.rules.as_slice() else {
        return Err(refuse(S3ErrorCode::MalformedXML, "Ownership controls have one rule."));
    };
    let name = rule.object_ownership.as_str();
    let setting = Setting::parse(name)
        .ok_or_else(|| refuse(S3ErrorCode::MalformedXML, format!("\"{name}\" is no object ownership.")))?;
    change(call, &request.input.bucket, move |settings| {
        if setting == Setting::Enforced {
            refuse_others(settings)?;
        }
        settings.ownership = Some(setting.kept());
        Ok(())
    })
    .await?;
    Ok(S3Response::new(PutBucketOwnershipControlsOutput::default()))
}

/// Removes the configuration, which leaves each object to its writer (S3 API, DeleteBucketOwnershipControls).
pub(crate) async fn delete(
    service: &Service,
    request: S3Request<DeleteBucketOwnershipControlsInput>,
) -> S3Result<S3Response<DeleteBucketOwnershipControlsOutput>> {
    change(service, &request.input.bucket, |settings| {
        settings.ownership = Some(Ownership { deleted: true, ..Setting::Writer.kept() });
        Ok(())
    })
    .await?;
    Ok(S3Response::new(DeleteBucketOwnershipControlsOutput::default()))
}

/// Refuses to disable ACLs while that of the bucket grants access to others, who would lose it without notice.
fn refuse_others(settings: &Settings) -> objstore::Result<()> {
    let grants = settings.acl.as_ref().map(|acl| acl.grants.as_slice()).unwrap_or_default();
    if grants.iter().all(|grant| grant.grantee() == Some(Grantee::Owner)) {
        return Ok(());
    }
    let why = "it grants others access to the bucket: put the ACL private first (PutBucketAcl)";
    Err(Error::invalid("bucket ACL", "the ACL of the bucket", why))
}

async fn change(
    service: &Service,
    bucket: &str,
    change: impl FnOnce(&mut Settings) -> objstore::Result<()> + Send + 'static,
) -> S3Result<()> {
    let bucket = names::bucket(bucket)?;
    service.store.change_settings(&bucket, change).await.or_refuse()
}

#[cfg(test)]
mod tests {
    use objstore::store::{AccessGrant, AccessList, Permission};

    use super::*;

    #[test]
    fn acls_are_disabled_only_while_the_bucket_lets_in_nobody_else() {
        let refused = |acl| refuse_others(&Settings { acl, ..Settings::default() }).is_err();
        let to = |grantee| AccessList { grants: vec![AccessGrant::new(grantee, Permission::Read)] };
        assert!(!refused(None) && !refused(Some(to(Grantee::Owner))) && !refused(Some(AccessList::default())));
        for grantee in [Grantee::AllUsers, Grantee::AuthenticatedUsers, Grantee::Account(7), Grantee::LogDelivery] {
            assert!(refused(Some(to(grantee))), "{grantee:?}");
        }
    }
}
