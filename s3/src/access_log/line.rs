//! One line of an access log (S3 User Guide, "Amazon S3 server access log format").
//!
//! - 26 fields, one space between them. A field without a value is `-`.
//! - What a client sent is percent-encoded where it could end its field or the line: a space outside quotes, a quote, a
//!   control character, and what is not ASCII. Each is cut at a bound first.
//! - Signatures and session tokens of a presigned URL are left out: a reader of the log could use them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use http::HeaderValue;
use objstore::name::BucketName;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_encode};
use time::macros::format_description;
use time::{Date, OffsetDateTime};

use super::head::Head;
use super::operation::Asked;

/// The characters that are encoded between quotes.
const QUOTED: &AsciiSet = &CONTROLS.add(b'"');
/// The characters that are encoded in a field without quotes.
const BARE: &AsciiSet = &QUOTED.add(b' ');
/// The characters that are encoded in a key.
const KEY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The most bytes of a URL, before it is encoded.
const URI_BYTES_MAX: usize = 4096;
/// The most bytes of a header, before it is encoded.
const HEADER_BYTES_MAX: usize = 1024;
/// The most bytes of a short text, before it is encoded.
const TEXT_BYTES_MAX: usize = 256;

/// Parameters of a URL whose values are secret, in lower case.
const SECRET: [&str; 3] = ["signature", "x-amz-security-token", "x-amz-signature"];

/// A request that has ended.
pub(crate) struct Entry<'a> {
    /// The head of the request.
    pub(crate) head: &'a Head,
    /// The operation that it asked for.
    pub(crate) asked: Asked<'a>,
    /// `x-amz-request-id` and `x-amz-id-2`
    pub(crate) ids: (&'a str, &'a str),
    /// The account, once the signature was verified.
    pub(crate) account: Option<&'a str>,
    /// The client that sent it.
    pub(crate) client: Client,
    /// The key that its path names.
    pub(crate) key: Option<&'a str>,
    /// The version that the URL names, or else the answer.
    pub(crate) version: Option<&'a str>,
    /// The size of the object that the answer is about.
    pub(crate) object_bytes: Option<u64>,
    pub(crate) status: u16,
    pub(crate) error_code: Option<&'a str>,
    /// Bytes of the answer's body that were sent.
    pub(crate) bytes_out: u64,
    /// From the head of the request to its end.
    pub(crate) took: Duration,
    /// From the end of its body to the first bytes of the answer.
    pub(crate) turnaround: Duration,
    /// When its head was read.
    pub(crate) received: OffsetDateTime,
}

/// The client of a request, and the encryption of its connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Client {
    /// The address of the client.
    pub(crate) address: Option<IpAddr>,
    /// The version of TLS, as policies write it.
    pub(crate) tls_version: Option<&'static str>,
    /// The cipher suite of TLS, as OpenSSL calls it.
    pub(crate) cipher_suite: Option<&'static str>,
}

impl Entry<'_> {
    /// The day of the request.
    pub(super) fn day(&self) -> Date {
        self.received.date()
    }

    /// The line from behind the name of the bucket's owner, without a line end.
    pub(super) fn written(&self, bucket: &BucketName) -> String {
        let Self { head, client, ids: (id, host_id), .. } = *self;
        let mut line = Line(format!("{bucket} [{}]", time_text(self.received)));
        line.plain(client.address.map(|address| address.to_canonical()));
        line.bare(self.account);
        line.bare(Some(id));
        line.bare(Some(self.asked.name()));
        line.plain(self.key.map(|key| percent_encode(key.as_bytes(), KEY)));
        line.quoted(Some(self.request_uri().as_bytes()), URI_BYTES_MAX);
        line.plain(Some(self.status));
        line.bare(self.error_code);
        line.plain(Some(self.bytes_out).filter(|bytes| *bytes > 0));
        line.plain(self.size());
        line.plain(Some(self.took.as_millis()));
        line.plain(Some(self.turnaround.as_millis()));
        line.quoted(head.referer.as_ref().map(HeaderValue::as_bytes), HEADER_BYTES_MAX);
        line.quoted(head.user_agent.as_ref().map(HeaderValue::as_bytes), HEADER_BYTES_MAX);
        line.bare(self.version);
        line.bare(Some(host_id));
        let signature = head.signature();
        line.plain(signature.map(|signature| signature.version));
        line.plain(client.cipher_suite);
        line.plain(signature.map(|signature| signature.place));
        line.bare(self.host());
        line.plain(client.tls_version.map(|version| format!("TLSv{version}")));
        // There are no access points, and no access that only an ACL gives.
        line.0.push_str(" - -");
        line.0
    }

    /// The first line of the request, without secrets.
    fn request_uri(&self) -> String {
        let head = self.head;
        let mut text = format!("{} {}", self.asked.method, head.uri.path());
        for (at, (name, pair)) in head.parameters().enumerate() {
            text.push(if at == 0 { '?' } else { '&' });
            text.push_str(&without_secret(&name, pair));
        }
        text.truncate(text.floor_char_boundary(URI_BYTES_MAX));
        text + &format!(" {:?}", head.version)
    }

    fn host(&self) -> Option<Cow<'_, str>> {
        let head = self.head;
        let header = head.host.as_ref().map(|host| String::from_utf8_lossy(host.as_bytes()));
        header.or_else(|| head.uri.authority().map(|authority| authority.as_str().into()))
    }

    /// The size of the object that was read or written.
    fn size(&self) -> Option<u64> {
        match self.asked.operation {
            "PutObject" | "UploadPart" if self.status == 200 => self.head.content_bytes,
            _ => self.object_bytes,
        }
    }
}

/// A parameter of a URL as received, without its value if that is secret.
fn without_secret<'a>(name: &str, pair: &'a str) -> Cow<'a, str> {
    if SECRET.contains(&name.to_ascii_lowercase().as_str()) { format!("{name}=REDACTED").into() } else { pair.into() }
}

fn time_text(time: OffsetDateTime) -> String {
    let format = format_description!("[day]/[month repr:short]/[year]:[hour]:[minute]:[second] +0000");
    time.format(format).unwrap_or_default()
}

/// A line under construction.
struct Line(String);

impl Line {
    /// Adds a value that needs no encoding.
    fn plain(&mut self, value: Option<impl std::fmt::Display>) {
        let _ = match value {
            Some(value) => write!(self.0, " {value}"),
            None => write!(self.0, " -"),
        };
    }

    /// Adds a value that may contain any character.
    fn bare(&mut self, value: Option<impl AsRef<str>>) {
        let text = value.map(|value| percent_encode(cut(value.as_ref().as_bytes(), TEXT_BYTES_MAX), BARE).to_string());
        self.plain(text.filter(|text| !text.is_empty()));
    }

    /// Adds a value in quotes.
    fn quoted(&mut self, value: Option<&[u8]>, bytes_max: usize) {
        // The method and the version of HTTP stand around a URL.
        let text = value.map_or(&b"-"[..], |value| cut(value, bytes_max + TEXT_BYTES_MAX));
        let _ = write!(self.0, " \"{}\"", percent_encode(text, QUOTED));
    }
}

fn cut(bytes: &[u8], most: usize) -> &[u8] {
    bytes.get(..most).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use http::Request;
    use percent_encoding::percent_decode_str;
    use time::macros::datetime;

    use super::*;

    /// The line of a request with these headers.
    fn line(method: &str, uri: &str, headers: &[(&str, &[u8])]) -> String {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let key = percent_decode_str(parts.uri.path().strip_prefix("/photos/").unwrap()).decode_utf8_lossy();
        let asked = Asked {
            method: &parts.method,
            operation: "GetObject",
            subresource: "",
            part: false,
            of_object: true,
            website: false,
        };
        let entry = Entry {
            head: &Head::of(&parts),
            asked,
            ids: ("3E57427F33A59F07", "host"),
            account: None,
            client: Client {
                address: Some("192.0.2.3".parse().unwrap()),
                tls_version: Some("1.3"),
                cipher_suite: Some("TLS_AES_128_GCM_SHA256"),
            },
            key: Some(&key),
            version: None,
            object_bytes: None,
            status: 404,
            error_code: None,
            bytes_out: 0,
            took: Duration::from_millis(17),
            turnaround: Duration::from_millis(9),
            received: datetime!(2026-02-06 00:00:38 UTC),
        };
        entry.written(&"photos".parse().unwrap())
    }

    #[test]
    fn a_line_has_the_fields_of_aws() {
        let headers: [(&str, &[u8]); 3] =
            [("host", b"s3.example.org"), ("user-agent", b"S3Console/0.4"), ("authorization", b"AWS4-HMAC-SHA256 x")];
        assert_eq!(
            line("GET", "/photos/a%20b/%C3%BC.jpg?versionId=7", &headers),
            "photos [06/Feb/2026:00:00:38 +0000] 192.0.2.3 - 3E57427F33A59F07 REST.GET.OBJECT a%20b/%C3%BC.jpg \
             \"GET /photos/a%20b/%C3%BC.jpg?versionId=7 HTTP/1.1\" 404 - - - 17 9 \"-\" \"S3Console/0.4\" - host SigV4 \
             TLS_AES_128_GCM_SHA256 AuthHeader s3.example.org TLSv1.3 - -"
        );
    }

    #[test]
    fn nothing_that_a_client_sends_forges_a_field_or_a_line() {
        let bad: &[u8] = b"x\" 200 - \"\tevil\xff\xc3\xa9";
        let line =
            line("GET", "/photos/k%22%0Ax?a=%22b", &[("referer", bad), ("user-agent", bad), ("host", b"a b\"c")]);
        assert!(line.bytes().all(|byte| (b' '..0x7f).contains(&byte)), "{line}");
        assert_eq!(line.matches('"').count(), 6, "{line}");
        let quoted = "x%22 200 - %22%09evil%FF%C3%A9";
        assert!(line.contains(&format!(" \"{quoted}\" \"{quoted}\" ")), "{line}");
        assert!(
            line.contains(" k%22%0Ax \"GET /photos/k%22%0Ax?a=%22b HTTP/1.1\" ") && line.contains(" a%20b%22c "),
            "{line}"
        );
        // Without what is quoted, the fields are as many as ever.
        let outside: String = line.split('"').step_by(2).collect();
        assert_eq!(outside.split_whitespace().count(), 25 - 3 + 1, "{line}");
    }

    #[test]
    fn what_a_client_sends_is_bounded_and_secrets_are_left_out() {
        let long = vec![b'"'; 100_000];
        let line_of = |uri: &str| line("GET", uri, &[("referer", &long), ("user-agent", &long), ("host", &long)]);
        let long_line = line_of(&format!("/photos/{}", "x".repeat(60_000)));
        assert!(long_line.len() < 80_000, "{}", long_line.len());
        let uri = "/photos/k?X-Amz-Credential=id&x-amz-%73ignature=5ecre7&X-Amz-Security-Token=5ecre7&Signature=5ecre7";
        let signed = line("GET", uri, &[]);
        assert!(!signed.contains("5ecre7") && signed.contains("X-Amz-Credential=id"), "{signed}");
        assert!(signed.contains(" SigV2 ") && signed.contains(" QueryString "), "{signed}");
    }
}
