//! The parts of a request's head that its log line shows: shared handles to the received bytes, not copies.

use http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, REFERER, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, Version};
use percent_encoding::percent_decode_str;

const DECODED_LENGTH: HeaderName = HeaderName::from_static("x-amz-decoded-content-length");

/// The signature of a request, as a line shows it: its version, and its place in the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) version: &'static str,
    pub(super) place: &'static str,
}

/// The head of a request.
#[derive(Debug)]
pub(crate) struct Head {
    pub(super) uri: Uri,
    pub(super) version: Version,
    pub(super) host: Option<HeaderValue>,
    pub(super) referer: Option<HeaderValue>,
    pub(super) user_agent: Option<HeaderValue>,
    /// The declared size of the content that the request sends.
    pub(super) content_bytes: Option<u64>,
    /// The version of the signature in the Authorization header.
    authorization: Option<&'static str>,
}

impl Head {
    /// The parts of this head.
    pub(crate) fn of(head: &Parts) -> Self {
        let headers = &head.headers;
        Self {
            uri: head.uri.clone(),
            version: head.version,
            host: headers.get(HOST).cloned(),
            referer: headers.get(REFERER).cloned(),
            user_agent: headers.get(USER_AGENT).cloned(),
            content_bytes: number(headers, &DECODED_LENGTH).or_else(|| number(headers, &CONTENT_LENGTH)),
            authorization: headers.get(AUTHORIZATION).and_then(|value| match value.as_bytes() {
                [b'A', b'W', b'S', b'4', b'-', ..] => Some("SigV4"),
                [b'A', b'W', b'S', b' ', ..] => Some("SigV2"),
                _ => None,
            }),
        }
    }

    /// The URL of the request.
    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The signature of the request, if it has one.
    pub(super) fn signature(&self) -> Option<Signature> {
        if let Some(version) = self.authorization {
            return Some(Signature { version, place: "AuthHeader" });
        }
        let has = |wanted: &str| self.parameters().any(|(name, _)| name == wanted);
        let version = [("X-Amz-Signature", "SigV4"), ("Signature", "SigV2")].into_iter().find(|(name, _)| has(name));
        version.map(|(_, version)| Signature { version, place: "QueryString" })
    }

    /// The parameters of the URL: for each the decoded name, and the whole parameter as received.
    pub(super) fn parameters(&self) -> impl Iterator<Item = (String, &str)> {
        let pairs = self.uri.query().into_iter().flat_map(|query| query.split('&'));
        pairs.map(|pair| {
            let name = pair.split('=').next().unwrap_or_default();
            (percent_decode_str(name).decode_utf8_lossy().into_owned(), pair)
        })
    }
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}
