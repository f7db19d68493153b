//! Characters in XML 1.0: a key may hold characters that XML cannot, and `s3s` fails a response that has one.

use std::borrow::Cow;

use bytes::Bytes;

/// The namespace of S3's documents.
pub(crate) const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// A response body that replaces the one `s3s` wrote, because `s3s` orders elements differently. An operation leaves it
/// in the extensions of its response, and the layer around `s3s` puts it in place.
#[derive(Clone, Debug)]
pub(crate) struct Document(pub(crate) Bytes);

/// Whether XML transports `text` unchanged. A carriage return would be read as a line feed.
pub(crate) fn carries(text: &str) -> bool {
    !text.contains(is_lost)
}

fn is_lost(one: char) -> bool {
    matches!(one, '\0'..='\x08' | '\x0b'..='\x1f' | '\u{fffe}' | '\u{ffff}')
}

/// `text` with U+FFFD, Unicode's replacement character, for each character that XML cannot transport.
pub(crate) fn legible(text: &str) -> Cow<'_, str> {
    if carries(text) { Cow::Borrowed(text) } else { Cow::Owned(text.replace(is_lost, "\u{fffd}")) }
}

/// Whether XML allows all characters of `text`: `s3s` fails a response with any other.
pub(crate) fn takes(text: &str) -> bool {
    !text.chars().any(|one| one < ' ' && !matches!(one, '\t' | '\n' | '\r'))
}

/// `text` with its control characters escaped, for messages that quote the request.
pub(crate) fn shown(text: String) -> String {
    let odd = |one: char| one.is_control() || matches!(one, '\u{fffe}' | '\u{ffff}');
    if !text.contains(odd) {
        return text;
    }
    let written = text.chars().map(|one| if odd(one) { one.escape_default().to_string() } else { one.to_string() });
    written.collect()
}

/// Writes an element with a text.
pub(crate) fn element(document: &mut String, name: &str, text: &str) {
    for part in ["<", name, ">"] {
        document.push_str(part);
    }
    escape(document, text);
    for part in ["</", name, ">"] {
        document.push_str(part);
    }
}

/// A text as XML writes it.
pub(crate) fn escaped(text: &str) -> String {
    let mut written = String::new();
    escape(&mut written, text);
    written
}

/// Writes a text.
pub(crate) fn escape(document: &mut String, text: &str) {
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let entity = match byte {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            b'\'' => "&apos;",
            _ => continue,
        };
        document.push_str(&text[from..at]);
        document.push_str(entity);
        from = at + 1;
    }
    document.push_str(&text[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_not_carried_but_written_out() {
        assert!(carries("a\tb\nc é\u{10ffff}"));
        assert!(takes("a\tb\r\nc é") && !takes("a\0") && !takes("\x19"));
        for bad in ["a\0", "\x01", "a\rb", "\x1f", "\u{ffff}"] {
            assert!(!carries(bad), "{bad:?}");
            assert!(carries(&shown(bad.to_owned())), "{bad:?}");
            assert!(carries(&legible(bad)), "{bad:?}");
        }
        assert_eq!(shown("a\u{1}b\nü".to_owned()), "a\\u{1}b\\nü");
        assert_eq!(legible("a\u{1}b\nü"), "a\u{fffd}b\nü");
    }
}
