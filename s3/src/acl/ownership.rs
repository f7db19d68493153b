//! Object Ownership of a bucket: who owns what is written to it, and whether ACLs are in force there (S3 User Guide,
//! Controlling ownership of objects and disabling ACLs).
//!
//! - A bucket that was never told has `BucketOwnerEnforced`: its owner owns all in it, and ACLs are disabled.
//! - A bucket whose configuration was deleted has `ObjectWriter`, as on AWS (S3 API, GetBucketOwnershipControls).
//! - ACLs are disabled only while the bucket's own ACL lets in nobody but its owner; those of objects are kept, and in
//!   force again once ACLs are enabled.

use objstore::Error;
use objstore::store::{Grantee, Ownership, Settings};
use s3s::dto::{
    DeleteBucketOwnershipControlsInput, DeleteBucketOwnershipControlsOutput, GetBucketOwnershipControlsInput,
    GetBucketOwnershipControlsOutput, ObjectOwnership, OwnershipControls, OwnershipControlsRule,
    PutBucketOwnershipControlsInput, PutBucketOwnershipControlsOutput,
};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use crate::error::{OrRefuse as _, bad_argument, plain, refuse};
use crate::service::Service;
use crate::{body, names};

/// Who owns what is written to a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// The owner of the bucket; ACLs are disabled.
    Enforced,
    /// The writer, or the owner of the bucket if the writer says so (`bucket-owner-full-control`).
    Preferred,
    /// The writer.
    Writer,
}

impl Setting {
    /// The setting that a request names.
    fn parse(name: &str) -> Option<Self> {
        match name {
            ObjectOwnership::BUCKET_OWNER_ENFORCED => Some(Self::Enforced),
            ObjectOwnership::BUCKET_OWNER_PREFERRED => Some(Self::Preferred),
            ObjectOwnership::OBJECT_WRITER => Some(Self::Writer),
            _ => None,
        }
    }

    /// Its name.
    fn name(self) -> &'static str {
        match self {
            Self::Enforced => ObjectOwnership::BUCKET_OWNER_ENFORCED,
            Self::Preferred => ObjectOwnership::BUCKET_OWNER_PREFERRED,
            Self::Writer => ObjectOwnership::OBJECT_WRITER,
        }
    }

    /// The setting of a bucket.
    pub(crate) fn of(settings: &Settings) -> Self {
        settings.ownership.as_ref().and_then(|kept| Self::parse(&kept.rule)).unwrap_or(Self::Enforced)
    }

    /// Whether ACLs are in force.
    pub(crate) fn enables_acls(self) -> bool {
        self != Self::Enforced
    }

    /// The setting as it is kept.
    pub(crate) fn kept(self) -> Ownership {
        Ownership { rule: self.name().to_owned(), deleted: false }
    }
}

/// The setting that the header `x-amz-object-ownership` names (S3 API, CreateBucket).
pub(crate) fn of_header(value: &str) -> S3Result<Setting> {
    Setting::parse(value).ok_or_else(|| {
        let words = format!("Invalid x-amz-object-ownership header: {value}");
        bad_argument(words, "x-amz-object-ownership", value)
    })
}

/// Tells the Object Ownership of a bucket (S3 API, GetBucketOwnershipControls).
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
    service: &Service,
    request: S3Request<PutBucketOwnershipControlsInput>,
) -> S3Result<S3Response<PutBucketOwnershipControlsOutput>> {
    body::prove(&request.headers)?;
    let [rule] = request.input.ownership_controls.rules.as_slice() else {
        return Err(refuse(S3ErrorCode::MalformedXML, "Ownership controls have one rule."));
    };
    let name = rule.object_ownership.as_str();
    let setting = Setting::parse(name)
        .ok_or_else(|| refuse(S3ErrorCode::MalformedXML, format!("\"{name}\" is no object ownership.")))?;
    change(service, &request.input.bucket, move |settings| {
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

/// Refuses to disable ACLs while that of the bucket lets in others: they would be shut out without anybody saying so.
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
    fn acls_are_disabled_in_a_bucket_that_was_never_told_and_in_one_of_an_earlier_version() {
        let of = |ownership| Setting::of(&Settings { ownership, ..Settings::default() });
        assert_eq!(of(None), Setting::Enforced);
        assert_eq!(of(Some(Ownership::default())), Setting::Enforced);
        for setting in [Setting::Enforced, Setting::Preferred, Setting::Writer] {
            assert_eq!(of(Some(setting.kept())), setting);
            assert_eq!(of_header(setting.name()).unwrap(), setting);
        }
        assert_eq!(of_header("enforced").unwrap_err().code().as_str(), "InvalidArgument");
    }

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
