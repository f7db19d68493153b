//! What was asked for, as a failure tells it: the head of a request, kept while the request is under way.
//!
//! - It is the head as its client signed it, before any header is rewritten for `s3s`: a signature that `rewrite` put in
//!   the place of the client's is never told.
//! - Only a signed request needs its headers told; of others they are not kept.

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Method, Uri, Version};

use crate::guard::Query;

/// The head of a request.
pub(crate) struct Sent {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) version: Version,
    pub(super) headers: HeaderMap,
}

impl Sent {
    /// Of a request that is about to be answered.
    pub(crate) fn of(head: &Parts) -> Self {
        let signed = head.headers.contains_key(AUTHORIZATION)
            || head.uri.query().is_some_and(|query| query.contains("Signature"));
        Self {
            method: head.method.clone(),
            uri: head.uri.clone(),
            version: head.version,
            headers: if signed { head.headers.clone() } else { HeaderMap::new() },
        }
    }

    /// Whether it came over HTTP/1.1.
    pub(crate) fn is_http_11(&self) -> bool {
        self.version == Version::HTTP_11
    }

    /// The path as it came, which errors call the resource.
    pub(crate) fn resource(&self) -> &str {
        self.uri.path()
    }

    /// The value of a parameter of the URL; none is empty.
    pub(super) fn parameter(&self, name: &str) -> String {
        Query::of(&self.uri).get(name).unwrap_or_default().to_owned()
    }

    /// The value of a header that came once.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?;
        if values.next().is_some() { None } else { std::str::from_utf8(value.as_bytes()).ok() }
    }
}
