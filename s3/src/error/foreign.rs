//! Errors of `s3s` itself, reworded as AWS words them.
//!
//! - Its default messages are prose from AWS's documentation, which AWS never sends: they are dropped.
//! - A specific message that says which value was wrong becomes the hint, and the value its own element.
//! - For a wrong signature, a skewed clock and an expired URL, AWS reports what it compared; `signature` recomputes
//!   that.

use http::StatusCode;
use objstore::clock::Timestamp;
use s3s::S3ErrorCode;

use super::document::Failure;
use super::particulars::Particulars;
use super::sent::Sent;
use super::{signature, table};
use crate::xml::shown;

/// An error of `s3s` from its code and message, in AWS's words.
pub(super) fn worded(code: String, message: &str) -> Failure {
    let mut failure = Failure { message: table::sentence(&code).to_owned(), code, particulars: Particulars::default() };
    let prose = S3ErrorCode::from_bytes(failure.code.as_bytes()).and_then(|code| code.default_message());
    if message.is_empty() || prose == Some(message) || message == failure.message {
        return failure;
    }
    match (failure.code.as_str(), message) {
        ("AccessDenied", signature::EXPIRED | signature::NOT_SIGNED) => failure.message = message.to_owned(),
        ("InvalidRequest", _) if message.starts_with(MISSING) => {
            failure.message = format!("Missing required header for this request: {}", &message[MISSING.len()..]);
        }
        ("InvalidArgument", _) if message.starts_with(QUERY) => {
            let (name, value) = message[QUERY.len()..].split_once(": ").unwrap_or_default();
            failure.message = format!("Provided {name} not an integer or within integer range");
            failure.particulars.add("ArgumentName", name);
            failure.particulars.add("ArgumentValue", value);
        }
        ("InvalidArgument", _) if message.starts_with(HEADER) => {
            let (name, value) = message[HEADER.len()..].split_once(": ").unwrap_or_default();
            failure.particulars.add("ArgumentName", name);
            failure.particulars.add("ArgumentValue", value.trim_matches('"'));
        }
        _ => {}
    }
    if failure.message != message {
        failure.particulars.hint = Some(shown(super::particulars::bounded(message).into_owned()));
    }
    failure
}

const MISSING: &str = "missing header: ";
const QUERY: &str = "invalid query: ";
const HEADER: &str = "invalid header: ";

/// The error in a body that `s3s` wrote, and its status; `None` if the body is not an error.
pub(crate) fn read(xml: &[u8], sent: &Sent, now: Timestamp) -> Option<(Failure, Option<StatusCode>)> {
    let xml = std::str::from_utf8(xml).ok()?;
    let mut failure = worded(inside(xml, "Code")?, &inside(xml, "Message").unwrap_or_default());
    signature::explain(&mut failure, sent, now);
    let status = table::status(&failure.code);
    Some((failure, status))
}

/// The text of an element as `s3s` writes it.
fn inside(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some(plain.into_iter().fold(text.to_owned(), |text, (escaped, one)| text.replace(escaped, one)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: &str, message: &str) -> (String, String, Option<String>) {
        let failure = worded(code.to_owned(), message);
        (failure.code, failure.message, failure.particulars.hint)
    }

    #[test]
    fn prose_of_a_documentation_reaches_no_client() {
        for code in ["NoSuchKey", "MalformedXML", "InvalidURI", "SignatureDoesNotMatch", "SlowDown", "AccessDenied"] {
            let prose = S3ErrorCode::from_bytes(code.as_bytes()).and_then(|code| code.default_message()).unwrap();
            let sentence = table::sentence(code).to_owned();
            assert_eq!(told(code, prose), (code.to_owned(), sentence, None));
        }
    }

    #[test]
    fn what_was_wrong_is_told_as_aws_tells_it() {
        let failure = worded("InvalidArgument".into(), "invalid query: max-keys: a: b");
        assert_eq!(failure.message, "Provided max-keys not an integer or within integer range");
        assert_eq!(failure.element("ArgumentName"), Some("max-keys"));
        assert_eq!(failure.element("ArgumentValue"), Some("a: b"));
        let (_, message, hint) = told("InvalidRequest", "missing header: x-amz-content-sha256");
        assert_eq!(message, "Missing required header for this request: x-amz-content-sha256");
        assert_eq!(hint.as_deref(), Some("missing header: x-amz-content-sha256"));
        let (_, message, hint) = told("NotImplemented", "Unknown operation");
        assert_eq!(message, "A header you provided implies functionality that is not implemented");
        assert_eq!(hint.as_deref(), Some("Unknown operation"));
        assert_eq!(told("AccessDenied", "Request has expired").1, "Request has expired");
    }

    #[test]
    fn what_s3s_wrote_is_read_back() {
        let xml =
            "<?xml version=\"1.0\"?><Error><Code>InvalidRequest</Code><Message>a &lt;b&gt; &amp;lt;</Message></Error>";
        assert_eq!(inside(xml, "Message").as_deref(), Some("a <b> &lt;"));
        assert_eq!(inside(xml, "Hint"), None);
    }
}
