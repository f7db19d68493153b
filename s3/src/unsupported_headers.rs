//! Unsupported request headers: those that ask for a feature which Amphora does not have.
//!
//! - Such a header is refused, never ignored: storing an object without the encryption that its client asked for would
//!   be a silent failure.
//! - `acl` reads the headers of access control lists, which depend on the bucket.

use http::header::{IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use http::{HeaderMap, HeaderName, HeaderValue};
use s3s::S3Result;

use crate::error::{Detail as _, bad_argument, not_offered};
use crate::{conditions, storage_class};

/// Prefixes of refused headers, and the feature that each asks for.
const REFUSED: [(&str, &str); 5] = [
    ("x-amz-server-side-encryption", "Server-side encryption by request"),
    ("x-amz-copy-source-server-side-encryption", "Server-side encryption by request"),
    ("x-amz-write-offset-bytes", "Appending"),
    ("x-amz-mfa", "MFA delete"),
    ("x-amz-bucket-namespace", "A bucket namespace"),
];

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
    if name == "x-amz-storage-class" { storage_class::check(value) } else { Ok(()) }
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
