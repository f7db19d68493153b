//! What a request's headers may ask for.
//!
//! - A header that asks for something Amphora does not do is refused, never ignored: an object stored without the
//!   encryption that was asked for would be a lie.

use http::header::{IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use http::{HeaderMap, HeaderName, HeaderValue};
use s3s::{S3ErrorCode, S3Result};

use crate::conditions;
use crate::error::{not_offered, refuse};

/// Headers that are refused, by how they begin, and what they ask for.
const REFUSED: [(&str, &str); 6] = [
    ("x-amz-server-side-encryption", "Server-side encryption by request"),
    ("x-amz-copy-source-server-side-encryption", "Server-side encryption by request"),
    ("x-amz-website-redirect-location", "Website redirection"),
    ("x-amz-write-offset-bytes", "Appending"),
    ("x-amz-mfa", "MFA delete"),
    ("x-amz-bucket-namespace", "A bucket namespace"),
];

/// Operations that may say `private`, which is what holds: making a bucket, as on AWS, and forms, which people wrote long
/// ago. To all others AWS answers that there are no ACLs.
const MAY_SAY_PRIVATE: [&str; 2] = ["CreateBucket", "PostObject"];

/// Operations on an object that take no version: they make one, or are about an upload.
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
/// Operations that make or delete an object, in one request.
const WRITES: [&str; 4] = ["CompleteMultipartUpload", "CopyObject", "DeleteObject", "PutObject"];

/// Refuses a version where none can be meant (S3 API, PutObject): the request would be done to the current object.
pub(crate) fn check_version(operation: &str) -> S3Result<()> {
    if !WITHOUT_VERSION.contains(&operation) {
        return Ok(());
    }
    Err(refuse(S3ErrorCode::InvalidArgument, "This operation does not accept a version-id."))
}

/// Refuses headers that ask for what is not offered.
pub(crate) fn check(operation: &str, headers: &HeaderMap) -> S3Result<()> {
    for (name, value) in headers {
        if name.as_str().starts_with("x-amz-") {
            check_one(operation, name, value)?;
        }
    }
    check_conditions(operation, headers)
}

/// Refuses conditions that the operation would not look at.
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

fn check_one(operation: &str, name: &HeaderName, value: &HeaderValue) -> S3Result<()> {
    let (name, value) = (name.as_str(), value.as_bytes());
    if let Some((_, what)) = REFUSED.iter().find(|(start, _)| name.starts_with(start)) {
        // `false` asks for nothing.
        return if value.eq_ignore_ascii_case(b"false") { Ok(()) } else { Err(not_offered(what)) };
    }
    match name {
        "x-amz-storage-class" if value != b"STANDARD" => {
            Err(refuse(S3ErrorCode::InvalidStorageClass, "The one storage class is STANDARD."))
        }
        "x-amz-acl" if value == b"private" && MAY_SAY_PRIVATE.contains(&operation) => Ok(()),
        "x-amz-acl" if value != b"bucket-owner-full-control" => Err(no_lists()),
        "x-amz-object-ownership" if value != b"BucketOwnerEnforced" => Err(no_lists()),
        _ if name.starts_with("x-amz-grant-") => Err(no_lists()),
        _ => Ok(()),
    }
}

/// As AWS answers where the bucket owner is enforced.
fn no_lists() -> s3s::S3Error {
    refuse(S3ErrorCode::AccessControlListNotSupported, "The bucket does not allow ACLs; use grants.")
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
            ("x-amz-acl", "public-read", "AccessControlListNotSupported"),
            ("x-amz-acl", "private", "AccessControlListNotSupported"),
            ("x-amz-acl", "bucket-owner-full-control", ""),
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
    fn a_bucket_is_made_private_as_it_is_anyway() {
        let headers =
            [(HeaderName::from_static("x-amz-acl"), HeaderValue::from_static("private"))].into_iter().collect();
        assert!(check("CreateBucket", &headers).is_ok());
        assert!(check("PutBucketAcl", &headers).is_err());
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
