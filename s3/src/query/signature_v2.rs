//! The query parameters of a presigned URL of Signature Version 2 (S3 User Guide, "Signing and authenticating REST
//! requests", query string request authentication).

use super::{Query, SUBRESOURCES};

/// The parameters: access key id, expiry and signature.
pub(crate) const PARAMETERS: [&str; 3] = ["AWSAccessKeyId", "Expires", "Signature"];
/// Parameters that select no operation but are signed, besides those that begin with [`RESPONSE`].
const SIGNED_BESIDE: [&str; 5] = ["defaultObjectAcl", "partNumber", "select-type", "storageClass", "versionId"];
/// The prefix of parameters that override headers of a response.
const RESPONSE: &str = "response-";

/// Whether a query claims such a signature. `s3s` decides by the parameter `Signature`, others by the key.
pub(crate) fn is_claimed(query: &Query) -> bool {
    query.has_in_any_case("AWSAccessKeyId") || query.has("Signature")
}

/// Whether a parameter belongs to the signature.
pub(crate) fn is_parameter(name: &str) -> bool {
    PARAMETERS.contains(&name)
}

/// Whether the signature covers a parameter. Signers leave out `list-type`, which every current listing has, so
/// it is not covered: both ways of listing need the same right.
pub(crate) fn covers(name: &str) -> bool {
    SUBRESOURCES.contains(&name) || SIGNED_BESIDE.contains(&name) || name.starts_with(RESPONSE)
}
