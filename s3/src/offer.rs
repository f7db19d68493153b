//! Unsupported request headers: those that ask for a feature which Amphora does not have.
//!
//! - Such a header is refused, never ignored: storing an object without the encryption that its client asked for would
//!   be a silent failure.

use http::header::{IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use http::{HeaderMap, HeaderName, HeaderValue};
use s3s::{S3Error, S3ErrorCode, S3Result};

use crate::error::{Detail as _, bad_argument, not_offered, refuse};
use crate::{conditions, storage_class};

/// Prefixes of refused headers, and the feature that each asks for.
const REFUSED: [(&str, &str); 5] = [
    ("x-amz-server-side-encryption", "Server-side encryption by request"),
    ("x-amz-copy-source-server-side-encryption", "Server-side encryption by request"),
    ("x-amz-write-offset-bytes", "Appending"),
    ("x-amz-mfa", "MFA delete"),
    ("x-amz-bucket-namespace", "A bucket namespace"),
];

/// Canned ACLs that match what always holds: the bucket's owner owns all objects in it, and ACLs give nobody else
/// access.
pub(crate) const ACLS_IN_FORCE: [&str; 3] = ["bucket-owner-full-control", "bucket-owner-read", "private"];
/// Canned ACLs that would give others access (S3 User Guide, "Canned ACL").
const OTHER_ACLS: [&str; 5] =
    ["authenticated-read", "aws-exec-read", "log-delivery-write", "public-read", "public-read-write"];

/// Operations on an object that take no version id: they create a version, or concern an upload.
const WITHOUT_VERSION: [&str; 8] = [
    "AbortMultipartUpload",
    "CompleteMultipartUpload",
    "CopyObject",
    "CreateMultipartUpload",
    "ListParts",
    "PutObject",
    "UploadPart",
    "UploadPartCopy",
];
/// Operations that create or delete an object in one request.
const WRITES: [&str; 4] = ["CompleteMultipartUpload", "CopyObject", "DeleteObject", "PutObject"];

/// Refuses a version id for operations that take none (S3 API, PutObject), because they would act on the current
/// object.
pub(crate) fn check_version(operation: &str) -> S3Result<()> {
    if !WITHOUT_VERSION.contains(&operation) {
        return Ok(());
    }
    Err(bad_argument("This operation does not accept a version-id.", "versionId", ""))
}

/// Refuses headers that ask for unsupported features.
pub(crate) fn check(operation: &str, headers: &HeaderMap) -> S3Result<()> {
    for (name, value) in headers {
        if name.as_str().starts_with("x-amz-") {
            check_one(name, value)?;
        }
    }
    check_conditions(operation, headers)
}

/// Refuses conditions that the operation would not evaluate.
fn check_conditions(operation: &str, headers: &HeaderMap) -> S3Result<()> {
    if !WRITES.contains(&operation) {
        return Ok(());
    }
    let refused = [(IF_UNMODIFIED_SINCE, true), (IF_NONE_MATCH, operation == "DeleteObject")];
    match refused.iter().find(|(name, refused)| *refused && headers.contains_key(name)) {
        Some((name, _)) => Err(not_offered(&format!("The condition {name} of {operation}"))),
        None => conditions::check_unread(headers),
    }
}

fn check_one(name: &HeaderName, value: &HeaderValue) -> S3Result<()> {
    let (name, value) = (name.as_str(), value.as_bytes());
    if let Some((_, what)) = REFUSED.iter().find(|(start, _)| name.starts_with(start)) {
        // `false` asks for nothing.
        return if value.eq_ignore_ascii_case(b"false") { Ok(()) } else { Err(not_offered(what).with("Header", name)) };
    }
    match name {
        "x-amz-storage-class" => storage_class::check(value),
        "x-amz-acl" => check_acl(std::str::from_utf8(value).unwrap_or_default()),
        "x-amz-object-ownership" if value != b"BucketOwnerEnforced" => Err(no_lists()),
        _ if name.starts_with("x-amz-grant-") => Err(no_lists()),
        _ => Ok(()),
    }
}

/// Refuses a canned ACL that would change access.
pub(crate) fn check_acl(canned: &str) -> S3Result<()> {
    match canned {
        canned if ACLS_IN_FORCE.contains(&canned) => Ok(()),
        canned if OTHER_ACLS.contains(&canned) => Err(no_lists()),
        _ => Err(refuse(S3ErrorCode::InvalidArgument, "The value is not a canned ACL.")
            .with("ArgumentName", "x-amz-acl")
            .with("ArgumentValue", canned)),
    }
}

/// AWS's answer in a bucket with enforced bucket ownership.
pub(crate) fn no_lists() -> S3Error {
    refuse(S3ErrorCode::AccessControlListNotSupported, "Use grants, or the bucket's policy.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_offered_is_refused_by_name() {
        let table = [
            ("x-amz-server-side-encryption", "AES256", "NotImplemented"),
            ("x-amz-server-side-encryption-customer-key", "x", "NotImplemented"),
            ("x-amz-mfa", "20899872 301749", "NotImplemented"),
            ("x-amz-storage-class", "GLACIER", "InvalidStorageClass"),
            ("x-amz-storage-class", "STANDARD", ""),
            ("x-amz-storage-class", "STANDARD_IA", ""),
            ("x-amz-acl", "public-read", "AccessControlListNotSupported"),
            ("x-amz-acl", "public-read-write", "AccessControlListNotSupported"),
            ("x-amz-acl", "authenticated-read", "AccessControlListNotSupported"),
            ("x-amz-acl", "private", ""),
            ("x-amz-acl", "bucket-owner-full-control", ""),
            ("x-amz-acl", "bucket-owner-read", ""),
            ("x-amz-acl", "Private", "InvalidArgument"),
            ("x-amz-acl", "", "InvalidArgument"),
            ("x-amz-grant-read", "id=1", "AccessControlListNotSupported"),
            ("x-amz-meta-acl", "public-read", ""),
        ];
        for (name, value, code) in table {
            let headers = [(HeaderName::from_static(name), HeaderValue::from_static(value))].into_iter().collect();
            let found = check("PutObject", &headers)
                .map_err(|error| error.code().as_str().to_owned())
                .err()
                .unwrap_or_default();
            assert_eq!(found, code, "{name}: {value}");
        }
    }

    #[test]
    fn an_acl_that_changes_nothing_is_taken_by_every_write() {
        for operation in [
            "CreateBucket",
            "PutBucketAcl",
            "PutObject",
            "CopyObject",
            "CreateMultipartUpload",
            "PutObjectAcl",
            "PostObject",
        ] {
            for acl in ACLS_IN_FORCE {
                let header = (HeaderName::from_static("x-amz-acl"), HeaderValue::from_static(acl));
                assert!(check(operation, &[header].into_iter().collect()).is_ok(), "{operation} {acl}");
            }
        }
        assert!(ACLS_IN_FORCE.is_sorted() && OTHER_ACLS.is_sorted());
    }

    #[test]
    fn conditions_that_would_be_passed_over_are_refused() {
        let code = |operation: &str, name: &'static str| {
            let headers = [(HeaderName::from_static(name), HeaderValue::from_static("\"abc\""))].into_iter().collect();
            check(operation, &headers).map_err(|error| error.code().as_str().to_owned()).err().unwrap_or_default()
        };
        assert_eq!(code("PutObject", "if-unmodified-since"), "NotImplemented");
        assert_eq!(code("DeleteObject", "if-none-match"), "NotImplemented");
        assert_eq!(code("PutObject", "if-none-match"), "");
        assert_eq!(code("DeleteObject", "if-match"), "");
        assert_eq!(code("GetObject", "if-unmodified-since"), "");
    }

    #[test]
    fn a_version_is_named_only_where_there_is_one() {
        assert_eq!(check_version("PutObject").unwrap_err().code().as_str(), "InvalidArgument");
        assert!(check_version("GetObject").is_ok() && check_version("PutObjectTagging").is_ok());
        assert!(WITHOUT_VERSION.is_sorted() && WRITES.is_sorted());
    }
}
