//! What is kept with an object beside its content: headers, user metadata, tags.

use std::collections::{BTreeMap, HashMap};

use objstore::store::Headers;
use percent_encoding::percent_decode_str;
use s3s::{S3Error, S3ErrorCode, S3Result};

use crate::error::refuse;

/// Names and values of user metadata together, in bytes (S3 User Guide, "Working with object metadata").
const METADATA_BYTES_MAX: usize = 2048;
/// Tags of one object.
const TAGS_MAX: usize = 10;
const TAG_NAME_CHARS_MAX: usize = 128;
const TAG_VALUE_CHARS_MAX: usize = 256;

/// Attributes of a new object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Headers given back on each read.
    pub(crate) headers: Headers,
    /// User metadata.
    pub(crate) metadata: BTreeMap<String, String>,
    /// Tags.
    pub(crate) tags: BTreeMap<String, String>,
}

impl Attributes {
    /// Checks what a request gave.
    pub(crate) fn new(
        mut headers: Headers,
        metadata: Option<HashMap<String, String>>,
        tagging: Option<&str>,
    ) -> S3Result<Self> {
        headers.content_encoding = headers.content_encoding.and_then(|value| without_framing(&value));
        let metadata: BTreeMap<String, String> = metadata.unwrap_or_default().into_iter().collect();
        let bytes: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > METADATA_BYTES_MAX {
            let words = format!("User metadata takes {bytes} bytes; at most {METADATA_BYTES_MAX} are kept.");
            return Err(refuse(S3ErrorCode::MetadataTooLarge, words));
        }
        let tags = tagging.map(parse_tags).transpose()?.unwrap_or_default();
        Ok(Self { headers, metadata, tags })
    }
}

/// Takes the attributes out of the input of PutObject, CopyObject or CreateMultipartUpload.
macro_rules! take {
    ($input:expr) => {
        $crate::attributes::Attributes::new(
            objstore::store::Headers {
                content_type: $input.content_type.take(),
                cache_control: $input.cache_control.take(),
                content_disposition: $input.content_disposition.take(),
                content_encoding: $input.content_encoding.take(),
                content_language: $input.content_language.take(),
                expires: $input.expires.take(),
            },
            $input.metadata.take(),
            $input.tagging.as_deref(),
        )
    };
}
pub(crate) use take;

/// Content-Encoding without `aws-chunked`, which is how the body came and not what it is.
fn without_framing(value: &str) -> Option<String> {
    let kept: Vec<&str> = value
        .split(',')
        .map(str::trim)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("aws-chunked"))
        .collect();
    if kept.is_empty() { None } else { Some(kept.join(", ")) }
}

/// Parses `x-amz-tagging`: a query string.
fn parse_tags(tagging: &str) -> S3Result<BTreeMap<String, String>> {
    let mut tags = BTreeMap::new();
    for pair in tagging.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode(name)?, decode(value)?);
        if name.is_empty() || name.chars().count() > TAG_NAME_CHARS_MAX || value.chars().count() > TAG_VALUE_CHARS_MAX {
            return Err(bad_tag("A tag's name has 1 to 128 characters and its value at most 256."));
        }
        if tags.insert(name, value).is_some() {
            return Err(bad_tag("A tag is named twice."));
        }
    }
    if tags.len() > TAGS_MAX {
        return Err(refuse(S3ErrorCode::InvalidTag, format!("An object has at most {TAGS_MAX} tags.")));
    }
    Ok(tags)
}

fn decode(part: &str) -> S3Result<String> {
    let spaced = part.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    decoded.map(std::borrow::Cow::into_owned).map_err(|_| bad_tag("A tag is not UTF-8."))
}

fn bad_tag(words: &'static str) -> S3Error {
    refuse(S3ErrorCode::InvalidTag, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_framing_is_never_kept() {
        assert_eq!(without_framing("aws-chunked"), None);
        assert_eq!(without_framing("aws-chunked,aws-chunked"), None);
        assert_eq!(without_framing("gzip, aws-chunked").as_deref(), Some("gzip"));
        assert_eq!(without_framing("AWS-Chunked,deflate, gzip").as_deref(), Some("deflate, gzip"));
    }

    #[test]
    fn tags_are_a_query_string() {
        let tags = parse_tags("a=1&b+c=%C3%A9&d").unwrap();
        let owned = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(tags, owned(&[("a", "1"), ("b c", "é"), ("d", "")]));
        let many = (0..11).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join("&");
        for bad in ["a=1&a=2", "=1", "a=%FF", many.as_str(), &format!("a={}", "x".repeat(257))] {
            assert_eq!(parse_tags(bad).unwrap_err().code().as_str(), "InvalidTag", "{bad}");
        }
    }

    #[test]
    fn metadata_is_bounded() {
        let metadata = HashMap::from([("a".to_owned(), "x".repeat(METADATA_BYTES_MAX))]);
        let error = Attributes::new(Headers::default(), Some(metadata), None).unwrap_err();
        assert_eq!(error.code().as_str(), "MetadataTooLarge");
    }
}
