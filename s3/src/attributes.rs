//! Attributes of an object: headers, user metadata and tags, stored beside its content.

use std::collections::{BTreeMap, HashMap};

use objstore::store::Headers;
use objstore::store::words::METADATA_BYTES_MAX;
use s3s::{S3ErrorCode, S3Result};

use crate::error::{Detail as _, custom, plain, says};
use crate::tagging;

/// Bytes of a redirect that is kept with an object (S3 User Guide, "Configuring a webpage redirect": 2 KB).
const REDIRECT_BYTES_MAX: usize = 2048;

/// Attributes of a new object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Headers that each read returns.
    pub(crate) headers: Headers,
    /// User metadata.
    pub(crate) metadata: BTreeMap<String, String>,
    /// Tags.
    pub(crate) tags: BTreeMap<String, String>,
}

impl Attributes {
    /// Checks the attributes of a request.
    pub(crate) fn new(
        mut headers: Headers,
        metadata: Option<HashMap<String, String>>,
        tagging: Option<&str>,
    ) -> S3Result<Self> {
        headers.content_encoding = headers.content_encoding.and_then(|value| without_framing(&value));
        // `post::hide_type` put a blank before it.
        headers.content_type = headers.content_type.map(|value| value.trim_start().to_owned());
        let metadata: BTreeMap<String, String> = metadata.unwrap_or_default().into_iter().collect();
        let bytes: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > METADATA_BYTES_MAX {
            let error = plain(S3ErrorCode::MetadataTooLarge).with("Size", bytes);
            return Err(error.with("MaxSizeAllowed", METADATA_BYTES_MAX));
        }
        headers.website_redirect.as_deref().map(check_redirect).transpose()?;
        let tags = tagging.map(tagging::from_query).transpose()?.unwrap_or_default();
        Ok(Self { headers, metadata, tags })
    }
}

/// Takes the attributes from the input of PutObject, CopyObject or CreateMultipartUpload.
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
                storage_class: $crate::storage_class::kept($input.storage_class.as_ref()),
                website_redirect: $input.website_redirect_location.take(),
            },
            $input.metadata.take(),
            $input.tagging.as_deref(),
        )
    };
}
pub(crate) use take;

/// Content-Encoding without `aws-chunked`, which describes the transfer and not the object.
fn without_framing(value: &str) -> Option<String> {
    let kept: Vec<&str> = value
        .split(',')
        .map(str::trim)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("aws-chunked"))
        .collect();
    if kept.is_empty() { None } else { Some(kept.join(", ")) }
}

/// Checks `x-amz-website-redirect-location`.
fn check_redirect(location: &str) -> S3Result<()> {
    if !["/", "http://", "https://"].iter().any(|start| location.starts_with(start)) {
        return Err(plain(custom("InvalidRedirectLocation")));
    }
    if location.len() > REDIRECT_BYTES_MAX {
        let words = "The length of website redirect location cannot exceed 2,048 characters.";
        return Err(says(custom("InvalidRedirectLocation"), words));
    }
    if location.chars().any(char::is_control) {
        let words = "The website redirect location has a control character.";
        return Err(says(custom("InvalidRedirectLocation"), words));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_a_path_or_a_url() {
        for good in ["/", "/a b", "http://a/b", "https://a/ü"] {
            assert!(check_redirect(good).is_ok(), "{good}");
        }
        let long = format!("/{}", "x".repeat(REDIRECT_BYTES_MAX));
        for bad in ["", "a", "ftp://a", "javascript:alert(1)", " /a", "/a\r\nSet-Cookie: b", &long] {
            assert_eq!(check_redirect(bad).unwrap_err().code().as_str(), "InvalidRedirectLocation", "{bad}");
        }
    }

    #[test]
    fn the_framing_is_never_kept() {
        assert_eq!(without_framing("aws-chunked"), None);
        assert_eq!(without_framing("aws-chunked,aws-chunked"), None);
        assert_eq!(without_framing("gzip, aws-chunked").as_deref(), Some("gzip"));
        assert_eq!(without_framing("AWS-Chunked,deflate, gzip").as_deref(), Some("deflate, gzip"));
    }

    #[test]
    fn metadata_is_bounded() {
        let metadata = HashMap::from([("a".to_owned(), "x".repeat(METADATA_BYTES_MAX))]);
        let error = Attributes::new(Headers::default(), Some(metadata), None).unwrap_err();
        assert_eq!(error.code().as_str(), "MetadataTooLarge");
    }
}
