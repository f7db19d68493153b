//! If-Range: a range is sent only if the object is still the one that the client began to read (RFC 9110, section
//! 13.1.5).
//!
//! - An entity tag is compared strongly, a date exactly. A value that is neither, or a repeated header, matches no
//!   object: then the whole object is sent, which is always correct.
//! - A date distinguishes only changes in different seconds; an entity tag distinguishes all changes.

use std::time::UNIX_EPOCH;

use http::HeaderMap;
use http::header::IF_RANGE;
use objstore::store::ObjectInfo;

use crate::entity_tag::Tag;

/// The validator that the object has to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IfRange {
    /// The object with this entity tag.
    Tag(Tag),
    /// The object last modified in this second since 1970.
    Second(i64),
    /// No object.
    Never,
}

impl IfRange {
    /// Parses the header, if present.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut lines = headers.get_all(IF_RANGE).iter();
        let value = lines.next()?.as_bytes().trim_ascii();
        if lines.next().is_some() || value.is_empty() {
            return Some(Self::Never);
        }
        let date = std::str::from_utf8(value).ok().and_then(|text| httpdate::parse_http_date(text).ok());
        let second = date.and_then(|date| i64::try_from(date.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok());
        Some(second.map_or_else(|| Self::Tag(Tag::parse(value)), Self::Second))
    }

    /// Whether the object matches.
    pub(crate) fn is_of(&self, object: &ObjectInfo) -> bool {
        match self {
            Self::Tag(tag) => tag.matches_strongly(&object.etag),
            Self::Second(second) => object.modified.parts().0 == *second,
            Self::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::response::tests::object;

    fn holds(lines: &[&'static str]) -> Option<bool> {
        let headers = lines.iter().map(|line| (IF_RANGE, HeaderValue::from_static(line))).collect();
        // The object has the tag "abc" and was modified half a second past second 784,111,777.
        IfRange::of(&headers).map(|validator| validator.is_of(&object("k", "abc", 784_111_777_500_000_000)))
    }

    #[test]
    fn a_range_is_sent_only_of_the_object_that_is_meant() {
        assert_eq!(holds(&[]), None);
        for same in [
            "\"abc\"",
            "abc",
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(holds(&[same]), Some(true), "{same}");
        }
        for other in [
            "\"abd\"",
            "W/\"abc\"",
            "\"abc\", \"x\"",
            "*",
            "",
            "\"abc",
            "Sun, 06 Nov 1994 08:49:36 GMT",
            "Sun, 06 Nov 1994 08:49:38 GMT",
            "yesterday",
        ] {
            assert_eq!(holds(&[other]), Some(false), "{other}");
        }
        assert_eq!(holds(&["\"abc\"", "\"abc\""]), Some(false));
    }
}
