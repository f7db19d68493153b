//! Entity tags in conditions (RFC 9110, section 8.8.3).
//!
//! - A tag is opaque: any text in a condition is a tag, and simply matches nothing if no object can have it. Like S3,
//!   this module accepts tags without quotes.
//! - A header with an empty value names no tag, so nothing matches it. It never counts as an absent header.

use http::{HeaderMap, HeaderName, HeaderValue};
use objstore::store::EntityTags;
use s3s::dto::ETagCondition;

/// The tags that a condition names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tags {
    /// `*`
    Any,
    /// A list of tags.
    List(Vec<Tag>),
}

/// One entity tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    weak: bool,
    /// The value without quotes.
    value: String,
}

impl Tags {
    /// The tags of all lines of a header; `None` without the header.
    pub(crate) fn of(headers: &HeaderMap, name: &HeaderName) -> Option<Self> {
        let mut lines = headers.get_all(name).iter();
        let first = lines.next()?;
        let mut whole = first.as_bytes().to_vec();
        for line in lines {
            whole.push(b',');
            whole.extend_from_slice(line.as_bytes());
        }
        Some(Self::parse(&whole))
    }

    /// Parses a header value.
    pub(crate) fn parse(value: &[u8]) -> Self {
        if value.trim_ascii() == b"*" {
            return Self::Any;
        }
        let (mut tags, mut rest) = (Vec::new(), value);
        while let Some((one, after)) = next(rest) {
            let one = one.trim_ascii();
            if !one.is_empty() {
                tags.push(Tag::parse(one));
            }
            rest = after;
        }
        Self::List(tags)
    }

    /// Whether the condition names no tag.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::List(tags) if tags.is_empty())
    }

    /// The tags that an object can have under strong comparison, as If-Match requires.
    pub(crate) fn into_strong(self) -> EntityTags {
        match self {
            Self::Any => EntityTags::Any,
            Self::List(tags) => {
                EntityTags::OneOf(tags.into_iter().filter(|tag| !tag.weak).map(|tag| tag.value).collect())
            }
        }
    }

    /// The tags that an object can have under weak comparison, as If-None-Match requires.
    pub(crate) fn into_weak(self) -> EntityTags {
        match self {
            Self::Any => EntityTags::Any,
            Self::List(tags) => EntityTags::OneOf(tags.into_iter().map(|tag| tag.value).collect()),
        }
    }

    /// An equivalent header value in the quoted form that `s3s` accepts. Characters that a quoted tag cannot hold
    /// become `?`, which no object's tag contains.
    pub(crate) fn to_header(&self) -> HeaderValue {
        let written = match self {
            Self::Any => "*".to_owned(),
            Self::List(tags) if tags.is_empty() => "\"\"".to_owned(),
            Self::List(tags) => tags.iter().map(Tag::written).collect::<Vec<_>>().join(", "),
        };
        HeaderValue::try_from(written).unwrap_or(HeaderValue::from_static("\"?\""))
    }
}

impl Tag {
    /// Parses one tag, which is not empty.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let (weak, opaque) = match text.strip_prefix(b"W/") {
            Some(opaque) if opaque.starts_with(b"\"") => (true, opaque),
            _ => (false, text),
        };
        let inner = opaque.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        Self { weak, value: String::from_utf8_lossy(inner.unwrap_or(opaque)).into_owned() }
    }

    /// The strong comparison (RFC 9110, section 8.8.3.2): a weak tag never matches.
    pub(crate) fn matches_strongly(&self, etag: &str) -> bool {
        !self.weak && self.value == etag
    }

    fn written(&self) -> String {
        let quotable = |one: char| if matches!(one, ' '..='~') && one != '"' { one } else { '?' };
        let value: String = self.value.chars().map(quotable).collect();
        if self.weak { format!("W/\"{value}\"") } else { format!("\"{value}\"") }
    }
}

/// Whether `s3s` cannot read the tags of a header: it has several lines, or a value that is not a single quoted tag.
/// `s3s` treats an empty value as absent.
pub(crate) fn is_unread(headers: &HeaderMap, name: &HeaderName) -> bool {
    let mut lines = headers.get_all(name).iter();
    let Some(first) = lines.next() else { return false };
    lines.next().is_some() || (!first.is_empty() && ETagCondition::parse_http_header(first.as_bytes()).is_err())
}

/// The text up to the next comma outside quotes, and the rest; `None` at the end.
fn next(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if text.is_empty() {
        return None;
    }
    let mut quoted = false;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b',' if !quoted => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    Some((text, &[]))
}

#[cfg(test)]
mod tests {
    use http::header::IF_MATCH;

    use super::*;

    /// Whether a value names the tag `abc`, under strong and under weak comparison.
    fn names(value: &[u8]) -> (bool, bool) {
        let tags = Tags::parse(value);
        (tags.clone().into_strong().name("abc"), tags.into_weak().name("abc"))
    }

    #[test]
    fn every_value_is_a_list_of_opaque_tags() {
        for value in ["*", " * ", "\"abc\"", "abc", "\"x\", \"abc\"", "x,abc", "a_b, abc", "W/\"x\" , \"abc\"", ",abc,"]
        {
            assert_eq!(names(value.as_bytes()), (true, true), "{value}");
        }
        for value in ["W/\"abc\"", "\"x\",W/\"abc\""] {
            assert_eq!(names(value.as_bytes()), (false, true), "{value}");
        }
        let others =
            ["", " ", ",", "a_b", "a b", "ab c", "abc d", "\"abc", "abc\"", "W/abc", "\"*\"", "\"x,abc\"", "\"a\"bc"];
        for value in others {
            assert_eq!(names(value.as_bytes()), (false, false), "{value}");
        }
        assert_eq!(names(b"\xffabc"), (false, false));
        assert!(Tags::parse(b" ,").is_empty() && !Tags::parse(b"*").is_empty() && !Tags::parse(b"\"\"").is_empty());
    }

    #[test]
    fn the_lines_of_a_header_are_one_list() {
        let lines = ["x", "\"abc\""].map(|line| (IF_MATCH, HeaderValue::from_static(line)));
        let tags = Tags::of(&HeaderMap::from_iter(lines), &IF_MATCH).unwrap();
        let tags = tags.into_strong();
        assert!(tags.name("x") && tags.name("abc"));
        assert_eq!(Tags::of(&HeaderMap::new(), &IF_MATCH), None);
    }

    #[test]
    fn the_written_header_is_taken_by_s3s_and_means_the_same() {
        let values: [&[u8]; 12] =
            [b"*", b"", b",", b"a_b", b"a b", b"a,b", b"W/\"abc\", abc", b"\"a", b"a\"", b"\"a\"b", b"\xff", b"\"*\""];
        for value in values {
            let (tags, written) = (Tags::parse(value), Tags::parse(value).to_header());
            assert!(ETagCondition::parse_http_header(written.as_bytes()).is_ok(), "{value:?}: {written:?}");
            let again = Tags::parse(written.as_bytes());
            for etag in ["a", "b", "a b", "a_b", "abc", "*"] {
                let strong = |tags: &Tags| tags.clone().into_strong().name(etag);
                let weak = |tags: &Tags| tags.clone().into_weak().name(etag);
                assert_eq!(strong(&again), strong(&tags), "{value:?} {etag}");
                assert_eq!(weak(&again), weak(&tags), "{value:?} {etag}");
            }
        }
    }
}
