//! Changes of buckets and their settings, and sessions of roles, as events for an audit trail.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Uri};

use crate::query::{Query, signature_v2};
use crate::request::{NOT_OFFERED, Request};

/// The operations that change a bucket or its settings: method, the query parameter that selects the operation, and its
/// name (S3 API, "Actions"). Without a parameter the operation is on the bucket itself.
const CHANGES: [(Method, &str, &str); 32] = [
    (Method::PUT, "", "CreateBucket"),
    (Method::DELETE, "", "DeleteBucket"),
    (Method::PUT, "acl", "PutBucketAcl"),
    (Method::PUT, "cors", "PutBucketCors"),
    (Method::DELETE, "cors", "DeleteBucketCors"),
    (Method::PUT, "lifecycle", "PutBucketLifecycleConfiguration"),
    (Method::DELETE, "lifecycle", "DeleteBucketLifecycle"),
    (Method::PUT, "object-lock", "PutObjectLockConfiguration"),
    (Method::PUT, "ownershipControls", "PutBucketOwnershipControls"),
    (Method::DELETE, "ownershipControls", "DeleteBucketOwnershipControls"),
    (Method::PUT, "policy", "PutBucketPolicy"),
    (Method::DELETE, "policy", "DeleteBucketPolicy"),
    (Method::PUT, "publicAccessBlock", "PutPublicAccessBlock"),
    (Method::DELETE, "publicAccessBlock", "DeletePublicAccessBlock"),
    (Method::PUT, "tagging", "PutBucketTagging"),
    (Method::DELETE, "tagging", "DeleteBucketTagging"),
    (Method::PUT, "versioning", "PutBucketVersioning"),
    (Method::DELETE, "encryption", "DeleteBucketEncryption"),
    (Method::DELETE, "replication", "DeleteBucketReplication"),
    (Method::PUT, "website", "PutBucketWebsite"),
    (Method::DELETE, "website", "DeleteBucketWebsite"),
    (Method::DELETE, "metadataConfiguration", "DeleteBucketMetadataConfiguration"),
    (Method::DELETE, "metadataTable", "DeleteBucketMetadataTableConfiguration"),
    (Method::DELETE, "analytics", "DeleteBucketAnalyticsConfiguration"),
    (Method::DELETE, "intelligent-tiering", "DeleteBucketIntelligentTieringConfiguration"),
    (Method::DELETE, "inventory", "DeleteBucketInventoryConfiguration"),
    (Method::DELETE, "metrics", "DeleteBucketMetricsConfiguration"),
    (Method::PUT, "notification", "PutBucketNotificationConfiguration"),
    (Method::PUT, "logging", "PutBucketLogging"),
    (Method::PUT, "accelerate", "PutBucketAccelerateConfiguration"),
    (Method::PUT, "requestPayment", "PutBucketRequestPayment"),
    (Method::PUT, "abac", "PutBucketAbac"),
];

/// The operations that begin a session of a role (AWS STS API).
const SESSIONS: [&str; 2] = ["AssumeRole", "AssumeRoleWithWebIdentity"];

/// A requested change of a bucket or its settings, or a requested session of a role, successful or not.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The operation's name.
    pub operation: &'static str,
    /// The bucket, or `-` if the text in its place is not a bucket name.
    pub bucket: &'a str,
    /// What the change concerns, if not the bucket: the role and the session, as `field=value` separated by spaces.
    pub subject: Option<&'a str>,
    /// The account, once the signature was verified; `None` is anonymous.
    pub account: Option<&'a str>,
    /// The id of the access key, if the store knows it.
    pub key_id: Option<&'a str>,
    /// The client's socket address.
    pub peer: Option<SocketAddr>,
    /// The HTTP status of the response.
    pub status: u16,
    /// The S3 code of an error.
    pub code: Option<&'a str>,
    /// The time from the request's head to the end of the response.
    pub took: Duration,
    /// `x-amz-request-id`.
    pub request_id: &'a str,
}

/// A callback that receives each change.
#[derive(Clone)]
pub struct Auditor(Arc<dyn Fn(&Change<'_>) + Send + Sync>);

impl Auditor {
    /// Calls `write` for each change, on the thread that serves the request.
    pub fn new(write: impl Fn(&Change<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    pub(crate) fn record(&self, change: &Change<'_>) {
        (self.0)(change);
    }
}

impl Default for Auditor {
    /// Discards every change.
    fn default() -> Self {
        Self::new(|_| ())
    }
}

impl std::fmt::Debug for Auditor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Auditor")
    }
}

/// The change that a finished request asked for; `None` if it asked for none, or came to the website listener.
pub(crate) fn of(request: &Request) -> Option<&'static str> {
    if let Some(name) = SESSIONS.iter().find(|name| **name == request.operation()) {
        return Some(name);
    }
    let asked = asked_for(&request.method, request.head.uri(), request.key.is_some()).filter(|_| !request.website)?;
    match request.operation() {
        "-" | NOT_OFFERED => Some(asked),
        operation => Some(operation).filter(|operation| is_change(operation)),
    }
}

/// The change that a request asks for, determined from its URL, so that it is known even for a request refused before
/// routing (for its signature, for instance). [`NOT_OFFERED`] if the URL selects an unsupported operation.
fn asked_for(method: &Method, uri: &Uri, of_object: bool) -> Option<&'static str> {
    if of_object || !matches!(*method, Method::PUT | Method::DELETE) {
        return None;
    }
    let query = Query::of(uri);
    let mut names = query.pairs().iter().map(|(name, _)| name.as_str()).filter(|name| !is_beside(name));
    let Some(first) = names.next() else { return named(method, "") };
    std::iter::once(first).chain(names).find_map(|parameter| named(method, parameter)).or(Some(NOT_OFFERED))
}

/// Parameters that any request may carry: those of a signature, and those that SDKs add.
fn is_beside(parameter: &str) -> bool {
    parameter.is_empty()
        || parameter == "x-id"
        || parameter.to_ascii_lowercase().starts_with("x-amz-")
        || signature_v2::is_parameter(parameter)
}

fn named(method: &Method, selected_by: &str) -> Option<&'static str> {
    let row = CHANGES.iter().find(|(verb, parameter, _)| verb == method && *parameter == selected_by);
    row.map(|(_, _, name)| *name)
}

/// Whether an operation changes a bucket or its settings.
fn is_change(operation: &str) -> bool {
    CHANGES.iter().any(|(_, _, name)| *name == operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_offered_operation_that_changes_a_bucket_is_audited() {
        for name in crate::operations() {
            let changes = ["Create", "Put", "Delete"].iter().any(|verb| name.starts_with(verb));
            let of_bucket = ["Bucket", "PublicAccessBlock", "ObjectLockConfiguration"];
            let expected = changes && of_bucket.iter().any(|noun| name.contains(noun));
            assert_eq!(is_change(name), expected, "{name}: list it in CHANGES if and only if it changes a bucket");
        }
    }

    #[test]
    fn a_change_is_known_by_its_url() {
        let asked = |method, uri: &str, of_object| asked_for(&method, &uri.parse().unwrap(), of_object);
        assert_eq!(asked(Method::PUT, "/b?policy", false), Some("PutBucketPolicy"));
        assert_eq!(asked(Method::PUT, "/b?x-id=Whatever&poli%63y=", false), Some("PutBucketPolicy"));
        assert_eq!(asked(Method::DELETE, "/b", false), Some("DeleteBucket"));
        assert_eq!(asked(Method::PUT, "/b?X-Amz-Date=d&x-id=CreateBucket", false), Some("CreateBucket"));
        assert_eq!(asked(Method::PUT, "/b?AWSAccessKeyId=k&Expires=1&Signature=s", false), Some("CreateBucket"));
        assert_eq!(asked(Method::PUT, "/b?encryption", false), Some(NOT_OFFERED));
        assert_eq!(asked(Method::PUT, "/b/k?tagging", true), None);
        assert_eq!(asked(Method::GET, "/b?policy", false), None);
        let rows: std::collections::BTreeSet<_> =
            CHANGES.iter().map(|(method, parameter, _)| (method.as_str(), *parameter)).collect();
        assert_eq!(rows.len(), CHANGES.len());
    }
}
