//! Subresources: the query parameters that select the operation.

use super::Query;

/// Every parameter by which S3 selects an operation, supported here or not.
pub(crate) const SUBRESOURCES: [&str; 42] = [
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
/// The subresource that a query names, or `""`.
pub(crate) fn chosen(query: &Query) -> &'static str {
    let known = |name: &str| SUBRESOURCES.iter().find(|known| **known == name).copied();
    query.pairs().iter().find_map(|(name, _)| known(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subresource_stands_once_in_order() {
        assert!(SUBRESOURCES.is_sorted());
    }
}
