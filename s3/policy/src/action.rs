//! Actions in bucket policies.
//!
//! - The list contains all actions of AWS on buckets and objects, not only supported ones, so that a policy written for
//!   AWS is accepted. An unknown name is refused, because it would never have the intended effect. (Service
//!   authorization reference, Amazon S3.)

use super::pattern::{Case, Pattern, Variables, Wildcards};
use super::syntax::Malformed;

/// The kinds of resource that an action or a policy resource concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds {
    pub(super) bucket: bool,
    pub(super) object: bool,
}

impl Kinds {
    /// The kinds that an action concerns.
    pub(super) fn of(action: &str) -> Self {
        let action = action.strip_prefix("s3:").unwrap_or(action);
        Self { bucket: BUCKET.contains(&action), object: OBJECT.contains(&action) }
    }

    /// Whether the two have a kind in common.
    pub(super) fn meets(self, other: Self) -> bool {
        self.bucket && other.bucket || self.object && other.object
    }

    /// The union of both.
    pub(super) fn with(self, other: Self) -> Self {
        Self { bucket: self.bucket || other.bucket, object: self.object || other.object }
    }
}

/// Actions with wildcards, compared without regard to case.
#[derive(Debug)]
pub(super) struct Actions(Vec<Pattern>);

impl Actions {
    /// Parses the names; each has to match at least one action. `any_service` accepts those of other services too, which
    /// match none here.
    pub(super) fn parse(names: &[String], any_service: bool) -> Result<Self, Malformed> {
        let mut patterns = Vec::with_capacity(names.len());
        for name in names {
            let pattern =
                Pattern::parse(name, Wildcards::Special, Variables::Unknown, Case::Folded).map_err(Malformed)?;
            let foreign = any_service && is_of_another_service(name);
            if !foreign && ![ACCOUNT, BUCKET, OBJECT].iter().any(|actions| means_one(&pattern, actions)) {
                return Err(Malformed(format!("Policy has invalid action: \"{name}\" matches no action of S3.")));
            }
            patterns.push(pattern);
        }
        Ok(Self(patterns))
    }

    /// Whether an action matches.
    pub(super) fn include(&self, action: &str) -> bool {
        self.0.iter().any(|pattern| pattern.may_match(action))
    }

    /// The kinds of each.
    pub(super) fn kinds(&self) -> impl Iterator<Item = Kinds> {
        self.0.iter().map(|pattern| Kinds { bucket: means_one(pattern, BUCKET), object: means_one(pattern, OBJECT) })
    }
}

/// Whether an action has the form of another service's, as in `kms:Decrypt`.
fn is_of_another_service(name: &str) -> bool {
    let word = |text: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"*?-".contains(&byte);
        !text.is_empty() && text.bytes().all(plain)
    };
    name.split_once(':').is_some_and(|(service, action)| {
        word(service) && word(action) && !service.contains(['*', '?']) && !service.eq_ignore_ascii_case("s3")
    })
}

/// Whether a pattern matches one of the actions, which are listed without their `s3:`.
fn means_one(pattern: &Pattern, actions: &[&str]) -> bool {
    actions.iter().any(|action| pattern.may_match(&format!("s3:{action}")))
}

const ACCOUNT: &[&str] = &["ListAllMyBuckets", "GetAccountPublicAccessBlock", "PutAccountPublicAccessBlock"];

const BUCKET: &[&str] = &[
    "CreateBucket",
    "CreateBucketMetadataTableConfiguration",
    "DeleteBucket",
    "DeleteBucketMetadataTableConfiguration",
    "DeleteBucketPolicy",
    "DeleteBucketWebsite",
    "GetAccelerateConfiguration",
    "GetAnalyticsConfiguration",
    "GetBucketAbac",
    "GetBucketAcl",
    "GetBucketCORS",
    "GetBucketLocation",
    "GetBucketLogging",
    "GetBucketMetadataTableConfiguration",
    "GetBucketNotification",
    "GetBucketObjectLockConfiguration",
    "GetBucketOwnershipControls",
    "GetBucketPolicy",
    "GetBucketPolicyStatus",
    "GetBucketPublicAccessBlock",
    "GetBucketRequestPayment",
    "GetBucketTagging",
    "GetBucketVersioning",
    "GetBucketWebsite",
    "GetEncryptionConfiguration",
    "GetIntelligentTieringConfiguration",
    "GetInventoryConfiguration",
    "GetLifecycleConfiguration",
    "GetMetricsConfiguration",
    "GetReplicationConfiguration",
    "ListBucket",
    "ListBucketMultipartUploads",
    "ListBucketVersions",
    "PutAccelerateConfiguration",
    "PutAnalyticsConfiguration",
    "PutBucketAbac",
    "PutBucketAcl",
    "PutBucketCORS",
    "PutBucketLogging",
    "PutBucketNotification",
    "PutBucketObjectLockConfiguration",
    "PutBucketOwnershipControls",
    "PutBucketPolicy",
    "PutBucketPublicAccessBlock",
    "PutBucketRequestPayment",
    "PutBucketTagging",
    "PutBucketVersioning",
    "PutBucketWebsite",
    "PutEncryptionConfiguration",
    "PutIntelligentTieringConfiguration",
    "PutInventoryConfiguration",
    "PutLifecycleConfiguration",
    "PutMetricsConfiguration",
    "PutReplicationConfiguration",
    "UpdateBucketMetadataInventoryTableConfiguration",
    "UpdateBucketMetadataJournalTableConfiguration",
];

const OBJECT: &[&str] = &[
    "AbortMultipartUpload",
    "BypassGovernanceRetention",
    "DeleteObject",
    "DeleteObjectTagging",
    "DeleteObjectVersion",
    "DeleteObjectVersionTagging",
    "GetObject",
    "GetObjectAcl",
    "GetObjectAttributes",
    "GetObjectLegalHold",
    "GetObjectRetention",
    "GetObjectTagging",
    "GetObjectTorrent",
    "GetObjectVersion",
    "GetObjectVersionAcl",
    "GetObjectVersionAttributes",
    "GetObjectVersionForReplication",
    "GetObjectVersionTagging",
    "GetObjectVersionTorrent",
    "InitiateReplication",
    "ListMultipartUploadParts",
    "ObjectOwnerOverrideToBucketOwner",
    "PutObject",
    "PutObjectAcl",
    "PutObjectLegalHold",
    "PutObjectRetention",
    "PutObjectTagging",
    "PutObjectVersionAcl",
    "PutObjectVersionTagging",
    "ReplicateDelete",
    "ReplicateObject",
    "ReplicateTags",
    "RestoreObject",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn actions(names: &[&str]) -> Result<Actions, Malformed> {
        Actions::parse(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), false)
    }

    #[test]
    fn names_are_known_and_case_does_not_matter() {
        let get = actions(&["S3:getobject*"]).unwrap();
        assert!(get.include("s3:getobject") && get.include("s3:getobjecttagging") && !get.include("s3:putobject"));
        assert!(actions(&["*"]).unwrap().include("s3:anything"));
        for name in ["s3:GetObjects", "GetObject", "ec2:*", "", "s3"] {
            assert!(actions(&[name]).is_err(), "{name}");
        }
    }

    #[test]
    fn actions_are_about_buckets_or_objects() {
        let kinds = |name: &str| actions(&[name]).unwrap().kinds().next().unwrap();
        assert_eq!(kinds("s3:ListBucket"), Kinds { bucket: true, object: false });
        assert_eq!(kinds("s3:Get?bject"), Kinds { bucket: false, object: true });
        assert_eq!(kinds("s3:Get*"), Kinds { bucket: true, object: true });
        assert_eq!(kinds("s3:ListAllMyBuckets"), Kinds::default());
    }
}
