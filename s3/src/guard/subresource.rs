//! Requests that name two subresources, or one in the wrong case.
//!
//! - A request may name one at most; which of two was meant would depend on the reader. AWS refuses two as well.
//! - A subresource in the wrong case (`?ACL`) is refused: it selects nothing, so the request would act on the object
//!   itself.

use s3s::{S3ErrorCode, S3Result};

use crate::error::{bad_argument, refuse};
use crate::query::{Query, SUBRESOURCES};

/// Parameters that modify an operation, with a subresource or alone.
const BESIDE: [&str; 3] = ["list-type", "partNumber", "versionId"];

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
    fn each_parameter_beside_stands_once_in_order() {
        assert!(BESIDE.is_sorted());
    }
}
