//! The `Location` header of a redirect.
//!
//! - What the owner of the bucket wrote keeps the characters of a URL (`#!/`, `?a=b`); of what a client sent, all but
//!   plain characters are percent-encoded.
//! - A `Location` never begins with two slashes: browsers would read the key as a host.

use std::fmt::Write as _;

use http::HeaderValue;
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

/// The characters that no header and no URL may contain unencoded.
const URL: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'{').add(b'|').add(b'}');
/// Those, and the characters with a meaning in a URL.
const KEY: &AsciiSet = &URL.add(b'%').add(b'?').add(b'#');

/// The value of `Location` for a redirect that is kept with an object.
pub(super) fn kept(location: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&percent_encode(location.as_bytes(), URL).to_string()).ok()
}

/// The value of `Location` for a folder in the same website.
pub(super) fn folder(key: &str) -> Option<HeaderValue> {
    let encoded = percent_encode(key.as_bytes(), KEY).to_string();
    let text = match encoded.strip_prefix('/') {
        Some(rest) => format!("/%2F{rest}/"),
        None => format!("/{encoded}/"),
    };
    HeaderValue::from_str(&text).ok()
}

/// The value of `Location` for a key of a host: a beginning that the owner wrote, and a rest that a client sent.
pub(super) fn elsewhere(protocol: &str, host: &str, (start, rest): (&str, &str), query: &str) -> Option<HeaderValue> {
    let mut text = format!("{protocol}://{}/", percent_encode(host.as_bytes(), KEY));
    let _ = write!(text, "{}{}", percent_encode(start.as_bytes(), URL), percent_encode(rest.as_bytes(), KEY));
    if !query.is_empty() {
        let _ = write!(text, "?{}", percent_encode(query.as_bytes(), URL));
    }
    HeaderValue::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_location_ends_a_header_or_leads_to_another_host() {
        let text = |value: Option<HeaderValue>| value.unwrap().to_str().unwrap().to_owned();
        assert_eq!(text(folder("docs")), "/docs/");
        assert_eq!(text(folder("/evil.example")), "/%2Fevil.example/");
        assert_eq!(text(folder("a\r\nb?c#d%2F")), "/a%0D%0Ab%3Fc%23d%252F/");
        assert_eq!(text(kept("/a\r\nb\"")), "/a%0D%0Ab%22");
        let led = elsewhere("https", "example.org", ("app#!/", "a?\r\nü#"), "b=\"c\"");
        assert_eq!(text(led), "https://example.org/app#!/a%3F%0D%0A%C3%BC%23?b=%22c%22");
    }
}
