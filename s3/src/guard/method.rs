//! HTTP methods that the service, a bucket, an object and each of their subresources support (S3 API, "Actions").
//!
//! - For a method that a subresource does not have, `s3s` would ignore the subresource: `DELETE /bucket?versioning`
//!   would delete the bucket, and `PUT /bucket/key?uploads` would replace the object. Here such requests get 405
//!   MethodNotAllowed, as on AWS, with the supported methods in `Allow`.

use http::header::ALLOW;
use http::{HeaderMap, HeaderValue, Method};
use s3s::{S3ErrorCode, S3Result};

use crate::address::Resource::{self, Bucket, Object, Service};
use crate::error::{Detail as _, plain};

const READ: &str = "GET";
const READ_AND_PUT: &str = "GET, PUT";
const ALL: &str = "DELETE, GET, PUT";

/// The methods of each resource and subresource; `""` is the resource itself. Unlisted ones have none.
const METHODS: [(Resource, &str, &str); 48] = [
    (Service, "", READ),
    (Bucket, "", "HEAD, DELETE, GET, POST, PUT"),
    (Bucket, "abac", READ_AND_PUT),
    (Bucket, "accelerate", READ_AND_PUT),
    (Bucket, "acl", READ_AND_PUT),
    (Bucket, "analytics", ALL),
    (Bucket, "cors", ALL),
    (Bucket, "delete", "POST"),
    (Bucket, "encryption", ALL),
    (Bucket, "intelligent-tiering", ALL),
    (Bucket, "inventory", ALL),
    (Bucket, "lifecycle", ALL),
    (Bucket, "location", READ),
    (Bucket, "logging", READ_AND_PUT),
    (Bucket, "metadataAnnotationTable", "PUT"),
    (Bucket, "metadataConfiguration", "DELETE, GET, POST"),
    (Bucket, "metadataInventoryTable", "PUT"),
    (Bucket, "metadataJournalTable", "PUT"),
    (Bucket, "metadataTable", "DELETE, GET, POST"),
    (Bucket, "metrics", ALL),
    (Bucket, "notification", READ_AND_PUT),
    (Bucket, "object-lock", READ_AND_PUT),
    (Bucket, "ownershipControls", ALL),
    (Bucket, "policy", ALL),
    (Bucket, "policyStatus", READ),
    (Bucket, "publicAccessBlock", ALL),
    (Bucket, "replication", ALL),
    (Bucket, "requestPayment", READ_AND_PUT),
    (Bucket, "session", READ),
    (Bucket, "tagging", ALL),
    (Bucket, "uploads", READ),
    (Bucket, "versioning", READ_AND_PUT),
    (Bucket, "versions", READ),
    (Bucket, "website", ALL),
    (Object, "", "HEAD, DELETE, GET, PUT"),
    (Object, "acl", READ_AND_PUT),
    (Object, "annotation", ALL),
    (Object, "attributes", READ),
    (Object, "encryption", "PUT"),
    (Object, "legal-hold", READ_AND_PUT),
    (Object, "renameObject", "PUT"),
    (Object, "restore", "POST"),
    (Object, "retention", READ_AND_PUT),
    (Object, "select", "POST"),
    (Object, "tagging", ALL),
    (Object, "torrent", READ),
    (Object, "uploadId", "DELETE, GET, POST, PUT"),
    (Object, "uploads", "POST"),
];

/// Refuses a method that the resource or subresource does not support.
pub(super) fn check(method: &Method, resource: Resource, subresource: &str, is_form: bool) -> S3Result<()> {
    let row = METHODS.iter().find(|(of, named, _)| *of == resource && *named == subresource);
    let methods = row.map_or("", |(_, _, methods)| methods);
    if !methods.split(", ").any(|one| one == method.as_str()) {
        let mut error = plain(S3ErrorCode::MethodNotAllowed);
        error.set_headers(HeaderMap::from_iter([(ALLOW, HeaderValue::from_static(methods))]));
        return Err(error);
    }
    if *method == Method::POST && subresource.is_empty() && !is_form {
        let condition = "Bucket POST must be of the enclosure-type multipart/form-data";
        return Err(plain(S3ErrorCode::PreconditionFailed).with("Condition", condition));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::code;
    use super::*;
    use crate::query::SUBRESOURCES;

    #[test]
    fn each_row_is_of_a_subresource_and_stands_once() {
        let mut seen = std::collections::BTreeSet::new();
        for (resource, subresource, methods) in METHODS {
            assert!(subresource.is_empty() || SUBRESOURCES.contains(&subresource), "{subresource}");
            assert!(seen.insert(format!("{resource:?} {subresource}")), "{resource:?} {subresource}");
            assert!(!methods.is_empty(), "{subresource}");
        }
    }

    #[test]
    fn a_method_that_a_resource_does_not_have_is_refused() {
        let refused = "MethodNotAllowed";
        for (method, uri, expected) in [
            ("PATCH", "/abc/k", refused),
            ("TRACE", "/abc", refused),
            ("PUT", "/", refused),
            ("POST", "/abc/k", refused),
            ("POST", "/abc", "PreconditionFailed"),
            ("DELETE", "/abc?versioning", refused),
            ("DELETE", "/abc/k?acl", refused),
            ("PUT", "/abc/k?uploads", refused),
            ("PUT", "/abc/k?cors", refused),
            ("HEAD", "/abc?policy", refused),
            ("DELETE", "/abc?poli%63y", ""),
            ("POST", "/abc/k?uploads", ""),
            ("GET", "/abc?x-id=ListBuckets", ""),
        ] {
            assert_eq!(code(method, uri, &[]), expected, "{method} {uri}");
        }
    }
}
