//! The head of a request as the client sent it, kept for error documents.
//!
//! - It is the head before any header is rewritten for `s3s`, so a signature that `rewrite` substituted is never shown.
//! - Only errors of signed requests quote headers; for other requests they are not kept.

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Method, Uri, Version};

use crate::query::Query;

/// The head of a request.
pub(crate) struct Sent {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) version: Version,
    pub(super) headers: HeaderMap,
}

impl Sent {
    /// Keeps the head of a request.
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

    /// The path as sent, which error documents call the resource.
    pub(crate) fn resource(&self) -> &str {
        self.uri.path()
    }

    /// The value of a query parameter; an absent one is empty.
    pub(super) fn parameter(&self, name: &str) -> String {
        Query::of(&self.uri).get(name).unwrap_or_default().to_owned()
    }

    /// The value of a header that occurs once.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?;
        if values.next().is_some() { None } else { std::str::from_utf8(value.as_bytes()).ok() }
    }
}
