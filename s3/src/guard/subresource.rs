//! Subresources: the query parameters that select the operation.
//!
//! - A request may name one at most; which of two was meant would depend on the reader. AWS refuses two as well.
//! - A subresource in the wrong case (`?ACL`) is refused: it selects nothing, so the request would act on the object
//!   itself.

use s3s::{S3ErrorCode, S3Result};

use super::query::Query;
use crate::error::{bad_argument, refuse};

/// Every parameter by which S3 selects an operation, supported here or not.
pub(super) const SUBRESOURCES: [&str; 42] = [
    "abac",
    "accelerate",
    "acl",
    "analytics",
    "annotation",
    "attributes",
    "cors",
    "delete",
    "encryption",
    "events",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "location",
    "logging",
    "metadataAnnotationTable",
    "metadataConfiguration",
    "metadataInventoryTable",
    "metadataJournalTable",
    "metadataTable",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "renameObject",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "select",
    "session",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versioning",
    "versions",
    "website",
];
/// Parameters that modify an operation, with a subresource or alone.
const BESIDE: [&str; 3] = ["list-type", "partNumber", "versionId"];

/// Parameters that select no operation but that Signature Version 2 signs, besides those that begin with [`RESPONSE`].
const SIGNED_IN_V2: [&str; 5] = ["defaultObjectAcl", "partNumber", "select-type", "storageClass", "versionId"];
/// The prefix of parameters that override headers of a response.
const RESPONSE: &str = "response-";

/// Whether Signature Version 2 covers a parameter. Signers leave out `list-type`, which every current listing has, so
/// it is not covered: both ways of listing need the same right.
pub(crate) fn is_signed_in_v2(name: &str) -> bool {
    SUBRESOURCES.contains(&name) || SIGNED_IN_V2.contains(&name) || name.starts_with(RESPONSE)
}

/// The subresource that a query names, or `""`.
pub(crate) fn chosen(query: &Query) -> &'static str {
    let known = |name: &str| SUBRESOURCES.iter().find(|known| **known == name).copied();
    query.pairs().iter().find_map(|(name, _)| known(name)).unwrap_or_default()
}

/// Refuses a query with two subresources, or one in the wrong case.
pub(super) fn check(query: &Query) -> S3Result<()> {
    let mut chosen: Option<&str> = None;
    for (name, _) in query.pairs() {
        let Some(known) = SUBRESOURCES.iter().chain(&BESIDE).find(|known| known.eq_ignore_ascii_case(name)) else {
            continue;
        };
        if known != name {
            let words = format!("The URL parameter \"{name}\" has the wrong case; write it \"{known}\".");
            return Err(refuse(S3ErrorCode::InvalidArgument, words));
        }
        if !SUBRESOURCES.contains(known) {
            continue;
        }
        if let Some(other) = chosen.replace(known).filter(|other| other != known) {
            let words = format!("Conflicting query string parameters: {other}, {known}");
            return Err(bad_argument(words, "ResourceType", known));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::code;
    use super::*;

    #[test]
    fn a_request_names_one_subresource_as_it_is_written() {
        let refused = "InvalidArgument";
        for (query, expected) in [
            ("acl&tagging", refused),
            ("tagging&uploadId=u", refused),
            ("tagging&%75ploadId=u&partNumber=1", refused),
            ("ACL", refused),
            ("versionid=1", refused),
            ("PartNumber=1&uploadId=u", refused),
            ("tagging&tagging=x&versionId=1", ""),
            ("partNumber=1&uploadId=u", ""),
            ("x-id=PutObjectAcl&tagging", ""),
            ("list-type=2&prefix=acl", ""),
        ] {
            assert_eq!(code("PUT", &format!("/abc/k?{query}"), &[]), expected, "{query}");
        }
    }

    #[test]
    fn each_subresource_stands_once_in_order() {
        assert!(SUBRESOURCES.is_sorted() && BESIDE.is_sorted());
    }
}
