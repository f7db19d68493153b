//! The kind of a request's body, derived from its head before any of the body is read.

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, Method, Uri};

use crate::query::Query;

/// Query parameters that make the body of a PUT or POST a document.
const DOCUMENTS: [&str; 12] = [
    "acl",
    "cors",
    "delete",
    "legal-hold",
    "lifecycle",
    "object-lock",
    "ownershipControls",
    "policy",
    "publicAccessBlock",
    "retention",
    "tagging",
    "versioning",
];

/// The media type of a form.
const FORM: &str = "multipart/form-data";

/// The kind of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// XML or JSON, which `s3s` reads whole.
    Document,
    /// Content in chunks that are signed one by one.
    Chunks,
    /// Content that is stored as sent; also a form, which contains it.
    Content,
}

impl Kind {
    /// The kind of the body behind this head. `of_object` says whether the path names an object.
    pub(crate) fn of(head: &Parts, of_object: bool) -> Self {
        let put = head.method == Method::PUT && (!of_object || is_named(&head.uri));
        if put || head.method == Method::POST && !is_form(head) && !is_query_form(head) {
            return Self::Document;
        }
        let payload = head.headers.get("x-amz-content-sha256").map(http::HeaderValue::as_bytes).unwrap_or_default();
        if payload.starts_with(b"STREAMING-AWS4-") { Self::Chunks } else { Self::Content }
    }
}

/// Whether a query parameter makes the body a document.
fn is_named(uri: &Uri) -> bool {
    let query = Query::of(uri);
    DOCUMENTS.iter().any(|name| query.has_in_any_case(name))
}

/// Whether a request is a form. A POST of another operation may have this Content-Type for the object that it creates.
pub(crate) fn is_form(head: &Parts) -> bool {
    head.method == Method::POST
        && !is_operation(&head.uri)
        && content_type(&head.headers).get(..FORM.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(FORM))
}

/// Whether a request has the form of one to STS: its body is no document.
fn is_query_form(head: &Parts) -> bool {
    const QUERY_FORM: &str = "application/x-www-form-urlencoded";
    let kind = content_type(&head.headers).get(..QUERY_FORM.len());
    head.uri.path() == "/" && !is_operation(&head.uri) && kind.is_some_and(|kind| kind.eq_ignore_ascii_case(QUERY_FORM))
}

fn is_operation(uri: &Uri) -> bool {
    const OPERATIONS: [&str; 5] = ["delete", "restore", "select", "uploadId", "uploads"];
    let query = Query::of(uri);
    OPERATIONS.iter().any(|name| query.has_in_any_case(name))
}

/// The media type that the headers name; empty if they name none.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_known_by_its_head() {
        let (payload, form) = ("x-amz-content-sha256", "content-type");
        let table = [
            ("PUT", "/b/k", (payload, "UNSIGNED-PAYLOAD"), Kind::Content),
            ("PUT", "/b/k", (payload, "STREAMING-UNSIGNED-PAYLOAD-TRAILER"), Kind::Content),
            ("PUT", "/b/k", (payload, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), Kind::Chunks),
            ("PUT", "/b/k?partNumber=1&uploadId=tagging", (payload, ""), Kind::Content),
            ("PUT", "/b/k?versionId=7&tagging=", (payload, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), Kind::Document),
            ("PUT", "/b/k?%74agging", (payload, ""), Kind::Document),
            ("PUT", "/b/k?ACL", (payload, ""), Kind::Document),
            ("PUT", "/b", (payload, ""), Kind::Document),
            ("POST", "/b?delete", (payload, ""), Kind::Document),
            ("POST", "/b/k?uploadId=u", (form, "application/xml"), Kind::Document),
            ("POST", "/b", (form, "multipart/form-data; boundary=x"), Kind::Content),
            ("GET", "/b?tagging", (payload, ""), Kind::Content),
            ("POST", "/", (form, "application/x-www-form-urlencoded; charset=utf-8"), Kind::Content),
            ("POST", "/?delete", (form, "application/x-www-form-urlencoded"), Kind::Document),
            ("POST", "/b", (form, "application/x-www-form-urlencoded"), Kind::Document),
        ];
        for (method, uri, (name, value), expected) in table {
            let request = http::Request::builder().method(method).uri(uri).header(name, value);
            let (head, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(Kind::of(&head, uri.contains("/k")), expected, "{method} {uri} {value}");
        }
    }
}
