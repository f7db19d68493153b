//! The table of supported operations and what each requires.
//!
//! - An operation that is not listed is refused for every caller.
//! - Each row names the action for bucket policies and the right that a grant must give.

use crate::authorization::Right;
use crate::body::Kind;

/// The requirement of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Any valid access key.
    Key,
    /// An account that may create buckets.
    Create,
    /// This action on the bucket.
    Bucket(&'static str, Right),
    /// This action on the object; the second name applies if a version is given.
    Object(&'static str, &'static str, Right),
    /// An action on each key in the body: the operation checks each, and refuses single keys in its answer.
    Keys(&'static str, Right),
}

use Need::{Bucket, Create, Key, Keys, Object};
use Right::{Any, Own, Read, Write};

/// Every supported operation.
const OPERATIONS: &[(&str, Need)] = &[
    ("ListBuckets", Key),
    ("CreateBucket", Create),
    ("HeadBucket", Bucket("s3:ListBucket", Any)),
    ("GetBucketLocation", Bucket("s3:GetBucketLocation", Any)),
    ("DeleteBucket", Bucket("s3:DeleteBucket", Own)),
    ("GetBucketVersioning", Bucket("s3:GetBucketVersioning", Any)),
    ("PutBucketVersioning", Bucket("s3:PutBucketVersioning", Own)),
    ("GetBucketTagging", Bucket("s3:GetBucketTagging", Any)),
    ("PutBucketTagging", Bucket("s3:PutBucketTagging", Own)),
    ("DeleteBucketTagging", Bucket("s3:PutBucketTagging", Own)),
    ("GetBucketCors", Bucket("s3:GetBucketCORS", Any)),
    ("PutBucketCors", Bucket("s3:PutBucketCORS", Own)),
    ("DeleteBucketCors", Bucket("s3:PutBucketCORS", Own)),
    ("GetBucketLifecycleConfiguration", Bucket("s3:GetLifecycleConfiguration", Any)),
    ("PutBucketLifecycleConfiguration", Bucket("s3:PutLifecycleConfiguration", Own)),
    ("DeleteBucketLifecycle", Bucket("s3:PutLifecycleConfiguration", Own)),
    ("GetObjectLockConfiguration", Bucket("s3:GetBucketObjectLockConfiguration", Any)),
    ("PutObjectLockConfiguration", Bucket("s3:PutBucketObjectLockConfiguration", Own)),
    ("GetBucketRequestPayment", Bucket("s3:GetBucketRequestPayment", Any)),
    // Unsupported settings, which read as unset.
    ("GetBucketEncryption", Bucket("s3:GetEncryptionConfiguration", Any)),
    ("DeleteBucketEncryption", Bucket("s3:PutEncryptionConfiguration", Own)),
    ("GetBucketReplication", Bucket("s3:GetReplicationConfiguration", Any)),
    ("DeleteBucketReplication", Bucket("s3:PutReplicationConfiguration", Own)),
    ("GetBucketWebsite", Bucket("s3:GetBucketWebsite", Any)),
    ("PutBucketWebsite", Bucket("s3:PutBucketWebsite", Own)),
    ("DeleteBucketWebsite", Bucket("s3:DeleteBucketWebsite", Own)),
    ("GetBucketMetadataConfiguration", Bucket("s3:GetBucketMetadataTableConfiguration", Any)),
    ("DeleteBucketMetadataConfiguration", Bucket("s3:DeleteBucketMetadataTableConfiguration", Own)),
    ("GetBucketMetadataTableConfiguration", Bucket("s3:GetBucketMetadataTableConfiguration", Any)),
    ("DeleteBucketMetadataTableConfiguration", Bucket("s3:DeleteBucketMetadataTableConfiguration", Own)),
    ("GetBucketAnalyticsConfiguration", Bucket("s3:GetAnalyticsConfiguration", Any)),
    ("ListBucketAnalyticsConfigurations", Bucket("s3:GetAnalyticsConfiguration", Any)),
    ("DeleteBucketAnalyticsConfiguration", Bucket("s3:PutAnalyticsConfiguration", Own)),
    ("GetBucketIntelligentTieringConfiguration", Bucket("s3:GetIntelligentTieringConfiguration", Any)),
    ("ListBucketIntelligentTieringConfigurations", Bucket("s3:GetIntelligentTieringConfiguration", Any)),
    ("DeleteBucketIntelligentTieringConfiguration", Bucket("s3:PutIntelligentTieringConfiguration", Own)),
    ("GetBucketInventoryConfiguration", Bucket("s3:GetInventoryConfiguration", Any)),
    ("ListBucketInventoryConfigurations", Bucket("s3:GetInventoryConfiguration", Any)),
    ("DeleteBucketInventoryConfiguration", Bucket("s3:PutInventoryConfiguration", Own)),
    ("GetBucketMetricsConfiguration", Bucket("s3:GetMetricsConfiguration", Any)),
    ("ListBucketMetricsConfigurations", Bucket("s3:GetMetricsConfiguration", Any)),
    ("DeleteBucketMetricsConfiguration", Bucket("s3:PutMetricsConfiguration", Own)),
    ("GetBucketNotificationConfiguration", Bucket("s3:GetBucketNotification", Any)),
    ("PutBucketNotificationConfiguration", Bucket("s3:PutBucketNotification", Own)),
    ("GetBucketLogging", Bucket("s3:GetBucketLogging", Any)),
    ("PutBucketLogging", Bucket("s3:PutBucketLogging", Own)),
    ("GetBucketAccelerateConfiguration", Bucket("s3:GetAccelerateConfiguration", Any)),
    ("PutBucketAccelerateConfiguration", Bucket("s3:PutAccelerateConfiguration", Own)),
    ("PutBucketRequestPayment", Bucket("s3:PutBucketRequestPayment", Own)),
    ("GetBucketAbac", Bucket("s3:GetBucketAbac", Any)),
    ("PutBucketAbac", Bucket("s3:PutBucketAbac", Own)),
    ("GetObjectTorrent", Object("s3:GetObjectTorrent", "s3:GetObjectVersionTorrent", Read)),
    // Access configuration of the bucket.
    ("GetBucketPolicy", Bucket("s3:GetBucketPolicy", Own)),
    ("PutBucketPolicy", Bucket("s3:PutBucketPolicy", Own)),
    ("DeleteBucketPolicy", Bucket("s3:DeleteBucketPolicy", Own)),
    ("GetBucketPolicyStatus", Bucket("s3:GetBucketPolicyStatus", Own)),
    ("GetPublicAccessBlock", Bucket("s3:GetBucketPublicAccessBlock", Own)),
    ("PutPublicAccessBlock", Bucket("s3:PutBucketPublicAccessBlock", Own)),
    ("DeletePublicAccessBlock", Bucket("s3:PutBucketPublicAccessBlock", Own)),
    ("GetBucketOwnershipControls", Bucket("s3:GetBucketOwnershipControls", Own)),
    ("PutBucketOwnershipControls", Bucket("s3:PutBucketOwnershipControls", Own)),
    ("DeleteBucketOwnershipControls", Bucket("s3:PutBucketOwnershipControls", Own)),
    ("GetBucketAcl", Bucket("s3:GetBucketAcl", Own)),
    ("PutBucketAcl", Bucket("s3:PutBucketAcl", Own)),
    ("GetObjectAcl", Object("s3:GetObjectAcl", "s3:GetObjectVersionAcl", Own)),
    ("PutObjectAcl", Object("s3:PutObjectAcl", "s3:PutObjectVersionAcl", Own)),
    // Keys.
    ("ListObjects", Bucket("s3:ListBucket", Read)),
    ("ListObjectsV2", Bucket("s3:ListBucket", Read)),
    ("ListObjectVersions", Bucket("s3:ListBucketVersions", Read)),
    ("GetObject", Object("s3:GetObject", "s3:GetObjectVersion", Read)),
    ("HeadObject", Object("s3:GetObject", "s3:GetObjectVersion", Read)),
    ("GetObjectAttributes", Object("s3:GetObject", "s3:GetObjectVersion", Read)),
    ("RestoreObject", Object("s3:RestoreObject", "s3:RestoreObject", Write)),
    ("PutObject", Object("s3:PutObject", "s3:PutObject", Write)),
    ("CopyObject", Object("s3:PutObject", "s3:PutObject", Write)),
    ("DeleteObject", Object("s3:DeleteObject", "s3:DeleteObjectVersion", Write)),
    ("DeleteObjects", Keys("s3:DeleteObject", Write)),
    ("GetObjectTagging", Object("s3:GetObjectTagging", "s3:GetObjectVersionTagging", Read)),
    ("PutObjectTagging", Object("s3:PutObjectTagging", "s3:PutObjectVersionTagging", Write)),
    ("DeleteObjectTagging", Object("s3:DeleteObjectTagging", "s3:DeleteObjectVersionTagging", Write)),
    // Locks restrict writers; a write that requests one by headers sets it on its own version only.
    ("GetObjectRetention", Object("s3:GetObjectRetention", "s3:GetObjectRetention", Read)),
    ("PutObjectRetention", Object("s3:PutObjectRetention", "s3:PutObjectRetention", Own)),
    ("GetObjectLegalHold", Object("s3:GetObjectLegalHold", "s3:GetObjectLegalHold", Read)),
    ("PutObjectLegalHold", Object("s3:PutObjectLegalHold", "s3:PutObjectLegalHold", Own)),
    // Uploads.
    ("CreateMultipartUpload", Object("s3:PutObject", "s3:PutObject", Write)),
    ("UploadPart", Object("s3:PutObject", "s3:PutObject", Write)),
    ("UploadPartCopy", Object("s3:PutObject", "s3:PutObject", Write)),
    ("CompleteMultipartUpload", Object("s3:PutObject", "s3:PutObject", Write)),
    ("AbortMultipartUpload", Object("s3:AbortMultipartUpload", "s3:AbortMultipartUpload", Write)),
    // A writer has to find its own uploads to continue or abort them.
    ("ListParts", Object("s3:ListMultipartUploadParts", "s3:ListMultipartUploadParts", Any)),
    ("ListMultipartUploads", Bucket("s3:ListBucketMultipartUploads", Any)),
];

/// The names of all supported operations.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    OPERATIONS.iter().map(|(name, _)| *name)
}

/// The row of an operation, by the name that `s3s` uses.
pub(super) fn find(operation: &str) -> Option<(&'static str, Need)> {
    OPERATIONS.iter().find(|(name, _)| *name == operation).copied()
}

/// Whether an operation takes a body of this kind. An operation that takes none ignores any body.
pub(super) fn takes(operation: &str, body: Kind) -> bool {
    match operation {
        "PutObject" | "UploadPart" => body != Kind::Document,
        "CreateBucket" | "DeleteObjects" | "CompleteMultipartUpload" => body == Kind::Document,
        // All other operations named Put take a document.
        _ => body == Kind::Document || !operation.starts_with("Put"),
    }
}

/// The action of setting an object's access control list: part of a write only where those are enabled.
pub(super) const PUT_ACL: &str = "s3:PutObjectAcl";
/// Headers of a write that request further actions, and those actions.
const BY_HEADER: [(&str, &str); 10] = [
    ("x-amz-acl", PUT_ACL),
    ("x-amz-grant-full-control", PUT_ACL),
    ("x-amz-grant-read", PUT_ACL),
    ("x-amz-grant-read-acp", PUT_ACL),
    ("x-amz-grant-write", PUT_ACL),
    ("x-amz-grant-write-acp", PUT_ACL),
    ("x-amz-tagging", "s3:PutObjectTagging"),
    ("x-amz-object-lock-mode", "s3:PutObjectRetention"),
    ("x-amz-object-lock-retain-until-date", "s3:PutObjectRetention"),
    ("x-amz-object-lock-legal-hold", "s3:PutObjectLegalHold"),
];

/// The further actions on the same object that an operation needs.
pub(super) fn besides(
    operation: &str,
    versioned: bool,
    has_header: impl Fn(&str) -> bool,
) -> impl Iterator<Item = &'static str> {
    let attributes = match (operation, versioned) {
        ("GetObjectAttributes", false) => Some("s3:GetObjectAttributes"),
        ("GetObjectAttributes", true) => Some("s3:GetObjectVersionAttributes"),
        _ => None,
    };
    let writes = matches!(operation, "PutObject" | "CopyObject" | "CreateMultipartUpload");
    let by_header = BY_HEADER.into_iter().filter(move |(name, _)| writes && has_header(name));
    attributes.into_iter().chain(by_header.map(|(_, action)| action))
}

/// Headers of CreateBucket that request further actions, and those actions (S3 API, CreateBucket).
const OF_CREATION: [(&str, &str); 9] = [
    ("x-amz-acl", "s3:PutBucketAcl"),
    ("x-amz-grant-full-control", "s3:PutBucketAcl"),
    ("x-amz-grant-read", "s3:PutBucketAcl"),
    ("x-amz-grant-read-acp", "s3:PutBucketAcl"),
    ("x-amz-grant-write", "s3:PutBucketAcl"),
    ("x-amz-grant-write-acp", "s3:PutBucketAcl"),
    ("x-amz-object-ownership", "s3:PutBucketOwnershipControls"),
    ("x-amz-bucket-object-lock-enabled", "s3:PutBucketObjectLockConfiguration"),
    ("x-amz-bucket-object-lock-enabled", "s3:PutBucketVersioning"),
];

/// The actions that creating a bucket needs.
pub(super) fn of_creation(has_header: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let further = OF_CREATION.iter().filter(|(name, _)| has_header(name)).map(|(_, action)| *action);
    std::iter::once("s3:CreateBucket").chain(further).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_stands_once_in_the_table() {
        let names: std::collections::BTreeSet<&str> = names().collect();
        assert_eq!(names.len(), OPERATIONS.len());
    }

    #[test]
    fn operations_take_documents_or_content() {
        for (operation, document, content) in [
            ("PutObject", false, true),
            ("UploadPart", false, true),
            ("PutObjectTagging", true, false),
            ("PutBucketPolicy", true, false),
            ("DeleteObjects", true, false),
            ("GetObject", true, true),
        ] {
            assert_eq!(takes(operation, Kind::Document), document, "{operation}");
            assert_eq!(takes(operation, Kind::Content), content, "{operation}");
        }
    }

    #[test]
    fn headers_of_a_write_ask_for_more() {
        let asked = |operation, name: &'static str| -> Vec<&str> {
            besides(operation, false, move |found| found == name).collect()
        };
        assert_eq!(asked("PutObject", "x-amz-tagging"), ["s3:PutObjectTagging"]);
        assert_eq!(asked("PutObject", "x-amz-acl"), ["s3:PutObjectAcl"]);
        assert_eq!(asked("CopyObject", "x-amz-object-lock-legal-hold"), ["s3:PutObjectLegalHold"]);
        assert_eq!(asked("GetObject", "x-amz-tagging"), Vec::<&str>::new());
        assert_eq!(asked("GetObjectAttributes", ""), ["s3:GetObjectAttributes"]);
    }
}
