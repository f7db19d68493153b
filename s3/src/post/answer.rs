//! The response to a form once its file is stored.

use http::header::{CONTENT_TYPE, ETAG, LOCATION};
use http::{HeaderName, HeaderValue, StatusCode, Uri};
use objstore::store::ObjectInfo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::PostResponse;
use s3s::xml::{Serialize as _, Serializer};
use s3s::{HttpResponse, S3ErrorCode, S3Result};

use super::form::Fields;
use crate::checksum::Algorithm;
use crate::error::refuse;
use crate::xml;

/// Characters that are percent-encoded in a query value.
pub(super) const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Characters that are percent-encoded in the path of an object's URL.
pub(super) const PATH: &AsciiSet = &QUERY.remove(b'/');

const VERSION_ID: HeaderName = HeaderName::from_static("x-amz-version-id");

/// The response that a form asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Success {
    /// With this status and no body.
    Status(StatusCode),
    /// With XML that describes the object.
    Created,
    /// By redirecting the browser to this address.
    Redirect(Uri),
}

impl Success {
    /// Reads the form's request. As on AWS, an unsupported status becomes 204, and an invalid address is ignored.
    pub(super) fn of(fields: &Fields) -> S3Result<Self> {
        let address = fields.get("success_action_redirect").or(fields.get("redirect"));
        if let Some(uri) = address.and_then(parse_address) {
            return Ok(Self::Redirect(uri));
        }
        match fields.get("success_action_status") {
            Some("200") => Ok(Self::Status(StatusCode::OK)),
            Some("201") if !xml::carries(fields.require("key")?) => {
                let words = "The key has characters that XML cannot carry: use another success_action_status.";
                Err(refuse(S3ErrorCode::InvalidArgument, words))
            }
            Some("201") => Ok(Self::Created),
            _ => Ok(Self::Status(StatusCode::NO_CONTENT)),
        }
    }

    /// The response. `url` is the object's.
    pub(super) fn answer(&self, bucket: &str, object: &ObjectInfo, url: &str) -> HttpResponse {
        let etag = format!("\"{}\"", object.etag);
        let mut answer = HttpResponse::new(s3s::Body::empty());
        match self {
            Self::Status(status) => *answer.status_mut() = *status,
            Self::Created => {
                *answer.status_mut() = StatusCode::CREATED;
                *answer.body_mut() = created(bucket, &object.key, &etag, url).into();
                set(&mut answer, CONTENT_TYPE, "application/xml");
            }
            Self::Redirect(_) => *answer.status_mut() = StatusCode::SEE_OTHER,
        }
        set(&mut answer, ETAG, &etag);
        match self {
            Self::Redirect(uri) => set(&mut answer, LOCATION, &redirect(uri, bucket, &object.key, &etag)),
            _ => set(&mut answer, LOCATION, url),
        }
        if let Some(version) = &object.version {
            set(&mut answer, VERSION_ID, version);
        }
        for checksum in &object.checksums {
            if let Ok(algorithm) = Algorithm::from_name(&checksum.algorithm) {
                set(&mut answer, HeaderName::from_static(algorithm.header()), &checksum.value);
            }
        }
        answer
    }
}

fn set(answer: &mut HttpResponse, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

fn parse_address(text: &str) -> Option<Uri> {
    let uri: Uri = text.parse().ok()?;
    (matches!(uri.scheme_str(), Some("http" | "https")) && uri.authority().is_some()).then_some(uri)
}

/// The redirect address with the object's names appended.
fn redirect(uri: &Uri, bucket: &str, key: &str, etag: &str) -> String {
    let mark = if uri.query().is_some() { '&' } else { '?' };
    let encode = |text| utf8_percent_encode(text, QUERY);
    format!("{uri}{mark}bucket={}&key={}&etag={}", encode(bucket), encode(key), encode(etag))
}

fn created(bucket: &str, key: &str, etag: &str, url: &str) -> Vec<u8> {
    let mut xml = Vec::new();
    let mut writer = Serializer::new(&mut xml);
    let written = writer.decl().and_then(|()| PostResponse { location: url, bucket, key, etag }.serialize(&mut writer));
    // Writing to a string, of text that XML carries, cannot fail.
    if written.is_err() {
        xml.clear();
    }
    xml
}

#[cfg(test)]
mod tests {
    use super::*;

    fn success<const N: usize>(pairs: [(&str, &str); N]) -> Success {
        Success::of(&Fields::from(pairs)).unwrap()
    }

    #[test]
    fn forms_choose_their_answer() {
        let empty = Success::Status(StatusCode::NO_CONTENT);
        assert_eq!(success([]), empty);
        assert_eq!(success([("success_action_status", "404")]), empty);
        assert_eq!(success([("success_action_status", "200")]), Success::Status(StatusCode::OK));
        assert_eq!(success([("success_action_status", "201"), ("key", "k")]), Success::Created);
        let odd = Fields::from([("success_action_status", "201"), ("key", "a\u{1}")]);
        assert!(Success::of(&odd).is_err());
        for address in ["javascript:alert(1)", "/relative", "http://", "a b"] {
            assert_eq!(success([("success_action_redirect", address)]), empty, "{address}");
        }
        assert!(matches!(success([("redirect", "https://a/b")]), Success::Redirect(_)));
    }

    #[test]
    fn redirects_carry_the_names_of_the_object() {
        let to = |address: &str| redirect(&address.parse().unwrap(), "abc", "a b/c.txt", "\"1\"");
        assert_eq!(to("http://host/done"), "http://host/done?bucket=abc&key=a%20b%2Fc.txt&etag=%221%22");
        assert_eq!(to("http://host/?a=1"), "http://host/?a=1&bucket=abc&key=a%20b%2Fc.txt&etag=%221%22");
    }

    #[test]
    fn the_answer_in_xml_escapes_names() {
        let xml = String::from_utf8(created("abc", "a<b>", "\"1\"", "http://h/abc/a%3Cb%3E")).unwrap();
        assert!(xml.contains("<Key>a&lt;b&gt;</Key>"), "{xml}");
        assert!(xml.contains("<Location>http://h/abc/a%3Cb%3E</Location><Bucket>abc</Bucket>"), "{xml}");
    }
}
