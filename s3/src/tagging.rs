//! Tags of objects and buckets, validated.
//!
//! - The same limits apply to tags in XML, in `x-amz-tagging` and in a form (S3 User Guide, "Categorizing your storage
//!   using tags").

use std::collections::BTreeMap;

use objstore::store::words;
use percent_encoding::percent_decode_str;
use s3s::dto::{Tag, TagSet, Tagging};
use s3s::xml::{Deserialize as _, Deserializer};
use s3s::{S3Error, S3ErrorCode, S3Result};

use crate::document;
use crate::error::{Detail as _, bad_argument, refuse, says};

/// Tags by name.
pub(crate) type Tags = BTreeMap<String, String>;

/// The resource that is tagged, which determines how many tags it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Object,
    Bucket,
}

impl Of {
    fn most(self) -> usize {
        match self {
            Self::Object => words::OBJECT_TAGS_MAX,
            Self::Bucket => 50,
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Object => "Object tags",
            Self::Bucket => "Bucket tag count",
        }
    }

    /// Validates tags.
    fn check(self, pairs: impl IntoIterator<Item = S3Result<(String, String)>>) -> S3Result<Tags> {
        let mut tags = Tags::new();
        for pair in pairs {
            let (name, value) = pair?;
            check_name(&name)?;
            check_value(&value)?;
            if tags.insert(name, value).is_some() {
                return Err(bad("Cannot provide multiple Tags with the same key"));
            }
        }
        if tags.len() > self.most() {
            return Err(bad(format!("{} cannot be greater than {}", self.noun(), self.most())));
        }
        Ok(tags)
    }
}

fn check_name(name: &str) -> S3Result<()> {
    if words::is_reserved_tag(name) {
        return Err(bad("System tags cannot be added/updated by requester").with("TagKey", name));
    }
    if words::is_tag_name(name) {
        return Ok(());
    }
    let hint = not_of_tags("key has 1", words::TAG_NAME_CHARS_MAX);
    Err(bad("The TagKey you have provided is invalid").with("TagKey", name).hint(hint))
}

fn check_value(value: &str) -> S3Result<()> {
    if words::is_tag_value(value) {
        return Ok(());
    }
    let hint = not_of_tags("value has up", words::TAG_VALUE_CHARS_MAX);
    Err(bad("The TagValue you have provided is invalid").with("TagValue", value).hint(hint))
}

fn not_of_tags(has: &str, most: usize) -> String {
    format!("A tag's {has} to {most} letters, digits, spaces or _.:/=+-@.")
}

/// Parses `x-amz-tagging`: a query string.
pub(crate) fn from_query(query: &str) -> S3Result<Tags> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    Of::Object.check(pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decode(name)?, decode(value)?))
    }))
}

/// Parses the XML of a form's `tagging` field.
pub(crate) fn from_xml(xml: &str) -> S3Result<Tags> {
    let malformed = || refuse(S3ErrorCode::MalformedXML, "The field tagging is not the XML of a Tagging.");
    document::check(xml.as_bytes()).map_err(|why| refuse(S3ErrorCode::MalformedXML, why.to_string()))?;
    let mut reader = Deserializer::new(xml.as_bytes());
    let tagging = Tagging::deserialize(&mut reader).map_err(|_| malformed())?;
    reader.expect_eof().map_err(|_| malformed())?;
    from_set(tagging.tag_set, Of::Object)
}

/// Checks the tags that a request gives in XML.
pub(crate) fn from_set(set: TagSet, of: Of) -> S3Result<Tags> {
    of.check(set.into_iter().map(|tag| Ok((tag.key.unwrap_or_default(), tag.value.unwrap_or_default()))))
}

/// Tags in the form of a response.
pub(crate) fn to_set(tags: Tags) -> TagSet {
    tags.into_iter().map(|(key, value)| Tag { key: Some(key), value: Some(value) }).collect()
}

fn decode(part: &str) -> S3Result<String> {
    let spaced = part.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    decoded.map(std::borrow::Cow::into_owned).map_err(|_| {
        let words = "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag \
                     name duplicates.";
        bad_argument(words, "x-amz-tagging", part)
    })
}

fn bad(words: impl Into<String>) -> S3Error {
    says(S3ErrorCode::InvalidTag, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_header_of_tags_is_a_query_string() {
        assert_eq!(from_query("a=1&b+c=%C3%A9&d").unwrap(), tags(&[("a", "1"), ("b c", "é"), ("d", "")]));
        assert_eq!(from_query("").unwrap(), Tags::new());
        let many = (0..11).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join("&");
        for bad in ["a=1&a=2", "=1", "aws:a=1", "AWS:a=1", "a=%0A", "a%3Cb=1", &many] {
            assert_eq!(from_query(bad).unwrap_err().code().as_str(), "InvalidTag", "{bad}");
        }
        assert_eq!(from_query("a=%FF").unwrap_err().code().as_str(), "InvalidArgument");
    }

    #[test]
    fn the_limits_are_counted_in_characters() {
        let pair = |name: usize, value: usize| [Ok(("é".repeat(name), "ü".repeat(value)))];
        assert!(Of::Object.check(pair(128, 256)).is_ok());
        for (name, value) in [(129, 0), (1, 257), (0, 1)] {
            assert_eq!(Of::Bucket.check(pair(name, value)).unwrap_err().code().as_str(), "InvalidTag");
        }
        let many = |most: usize| (0..most).map(|n| Ok((n.to_string(), String::new())));
        for of in [Of::Object, Of::Bucket] {
            assert!(of.check(many(of.most())).is_ok());
            assert!(of.check(many(of.most() + 1)).is_err());
        }
    }

    #[test]
    fn a_form_writes_tags_as_xml() {
        let xml = "<Tagging><TagSet><Tag><Key>0</Key><Value>a b</Value></Tag></TagSet></Tagging>";
        assert_eq!(from_xml(xml).unwrap(), tags(&[("0", "a b")]));
        for bad in ["", "0=1", "<Tagging/>", &format!("{xml}<a/>")] {
            assert_eq!(from_xml(bad).unwrap_err().code().as_str(), "MalformedXML", "{bad}");
        }
    }
}
