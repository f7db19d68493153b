//! The documents that STS answers (AWS STS API).

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, StatusCode};
use objstore::clock::Timestamp;
use objstore::store::RoleCredentials;
use s3s::HttpResponse;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::xml::{element, legible};

/// The version of the API.
pub(super) const VERSION: &str = "2011-06-15";
const NAMESPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";
/// The header with the id of the request, as the SDKs read it.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");

/// The code of a refusal, which the layer around it notes. The document is written already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorCode(pub(crate) &'static str);

/// The result of an action: its name, and the elements of its result.
pub(super) struct Answer {
    action: &'static str,
    result: String,
}

impl Answer {
    pub(super) fn new(action: &'static str) -> Self {
        Self { action, result: String::new() }
    }

    /// Adds an element with a text.
    pub(super) fn with(mut self, name: &str, text: &str) -> Self {
        element(&mut self.result, name, &legible(text));
        self
    }

    /// Adds an element with elements.
    pub(super) fn with_all(mut self, name: &str, elements: &[(&str, &str)]) -> Self {
        self.result += &format!("<{name}>");
        for (name, text) in elements {
            element(&mut self.result, name, text);
        }
        self.result += &format!("</{name}>");
        self
    }

    /// Adds the credentials of a session.
    pub(super) fn with_credentials(self, credentials: &RoleCredentials) -> Self {
        let RoleCredentials { access_key_id, secret, token, expires } = credentials;
        self.with_all(
            "Credentials",
            &[
                ("AccessKeyId", access_key_id),
                ("SecretAccessKey", secret.reveal()),
                ("SessionToken", token.reveal()),
                ("Expiration", &written(*expires)),
            ],
        )
    }

    /// The response.
    pub(super) fn response(self, request_id: &str) -> HttpResponse {
        let Self { action, result } = self;
        let mut document = format!("<{action}Response xmlns=\"{NAMESPACE}\"><{action}Result>{result}</{action}Result>");
        document += "<ResponseMetadata>";
        element(&mut document, "RequestId", request_id);
        document += &format!("</ResponseMetadata></{action}Response>");
        response(StatusCode::OK, document, request_id)
    }
}

/// The document of a refusal.
pub(super) fn error_document(sender: &str, code: &str, message: &str, request_id: &str) -> String {
    let mut document = format!("<ErrorResponse xmlns=\"{NAMESPACE}\"><Error>");
    for (name, text) in [("Type", sender), ("Code", code), ("Message", &*legible(message))] {
        element(&mut document, name, text);
    }
    document += "</Error>";
    element(&mut document, "RequestId", request_id);
    document += "</ErrorResponse>";
    document
}

/// A response with a document, which no cache may keep.
pub(super) fn response(status: StatusCode, document: String, request_id: &str) -> HttpResponse {
    let mut response = HttpResponse::new(s3s::Body::from(document));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/xml"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert(REQUEST_ID, id);
    }
    response
}

/// A time in RFC 3339 format.
fn written(time: Timestamp) -> String {
    let date = OffsetDateTime::from_unix_timestamp(time.parts().0).ok().and_then(|time| time.format(&Rfc3339).ok());
    date.unwrap_or_default()
}
