//! The XML document of an error response (S3 API, "REST error responses").
//!
//! - Elements are in AWS's order: code, message, particulars, our hint, the resource, and the ids of the request.
//! - Every error document is written here; the one that `s3s` made is replaced.

use http::Method;
use s3s::S3Error;

use super::foreign;
use super::particulars::{Particulars, bounded};
use super::sent::Sent;
use super::table::{self, Asked};
use crate::xml::legible;

/// An error as the client receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The code (S3 API, "List of error codes").
    pub(crate) code: String,
    /// AWS's sentence.
    pub(crate) message: String,
    pub(super) particulars: Particulars,
}

impl Failure {
    /// From an [`S3Error`]. If this crate did not make it, its message is taken from the table.
    pub(crate) fn of(error: &S3Error) -> Self {
        let (code, message) = (error.code().as_str().to_owned(), error.message().unwrap_or_default());
        match Particulars::find(error) {
            Some(own) => Self { code, message: message.to_owned(), particulars: own.clone() },
            None => foreign::worded(code, message),
        }
    }

    /// The value of an element.
    pub(crate) fn element(&self, name: &str) -> Option<&str> {
        self.particulars.element(name)
    }

    /// Our advice on what to do.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.particulars.hint.as_deref()
    }

    /// Adds the elements that AWS includes for this code, of the request that named this bucket and key.
    pub(crate) fn complete(&mut self, (bucket, key): (&str, Option<&str>), sent: &Sent) {
        for asked in table::asked(&self.code) {
            match asked {
                Asked::Bucket => self.particulars.add("BucketName", bucket),
                Asked::Key => self.particulars.add("Key", key.unwrap_or_default()),
                Asked::Version => self.particulars.add("VersionId", &sent.parameter("versionId")),
                Asked::Upload => self.particulars.add("UploadId", &sent.parameter("uploadId")),
                Asked::Uri => self.particulars.add("URI", sent.uri.path()),
                Asked::Method => {
                    self.particulars.add("Method", sent.method.as_str());
                    self.particulars.add("ResourceType", resource_type(bucket, key));
                }
            }
        }
    }

    /// The whole document. `tail` are elements after those of the failure.
    pub(crate) fn document(&self, tail: &[(&'static str, &str)]) -> String {
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        self.write(&mut xml, tail);
        xml
    }

    /// Writes the element `Error`, without the XML declaration.
    pub(crate) fn write(&self, xml: &mut String, tail: &[(&'static str, &str)]) {
        xml.push_str("<Error>");
        element(xml, "Code", &self.code);
        element(xml, "Message", &bounded(&self.message));
        for (name, value) in &self.particulars.elements {
            element(xml, name, value);
        }
        if let Some(hint) = self.hint() {
            element(xml, "Hint", hint);
        }
        for (name, value) in tail {
            element(xml, name, &bounded(value));
        }
        xml.push_str("</Error>");
    }
}

/// AWS's name for the kind of resource that the path addresses.
fn resource_type(bucket: &str, key: Option<&str>) -> &'static str {
    match (bucket.is_empty(), key.is_some()) {
        (true, _) => "SERVICE",
        (false, false) => "BUCKET",
        (false, true) => "OBJECT",
    }
}

/// Writes an element. Characters that XML cannot carry become U+FFFD; an element without a value is omitted, as on AWS.
fn element(xml: &mut String, name: &str, value: &str) {
    if value.is_empty() {
        return;
    }
    xml.push('<');
    xml.push_str(name);
    xml.push('>');
    for one in legible(value).chars() {
        match one {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            other => xml.push(other),
        }
    }
    xml.push_str("</");
    xml.push_str(name);
    xml.push('>');
}

/// Whether an error response to this method has a document: a response to HEAD has no body.
pub(crate) fn has_document(method: &Method) -> bool {
    *method != Method::HEAD
}

#[cfg(test)]
mod tests {
    use s3s::S3ErrorCode;

    use super::*;
    use crate::error::{Detail as _, refuse};

    #[test]
    fn an_error_is_written_in_the_order_of_aws() {
        let error = refuse(S3ErrorCode::NoSuchKey, "Look <again>.").with("Key", "a&b\u{1}\r");
        let xml = Failure::of(&error).document(&[("Resource", "/b/a&b"), ("RequestId", "7"), ("HostId", "")]);
        assert_eq!(
            xml,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>NoSuchKey</Code>\
             <Message>The specified key does not exist.</Message><Key>a&amp;b\u{fffd}\u{fffd}</Key>\
             <Hint>Look &lt;again&gt;.</Hint><Resource>/b/a&amp;b</Resource><RequestId>7</RequestId></Error>"
        );
    }

    #[test]
    fn no_text_of_a_client_makes_a_document_large() {
        let long = "&\u{0}".repeat(1 << 16);
        let error = refuse(S3ErrorCode::InvalidArgument, long.clone()).with("ArgumentValue", &long);
        let xml = Failure::of(&error).document(&[("Resource", &long)]);
        assert!(xml.len() < 32 << 10, "{}", xml.len());
        assert!(!xml.contains('\0') && !xml.contains("&&"));
    }
}
