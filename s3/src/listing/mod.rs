//! Listings of keys and versions, and what all listings share.
//!
//! - The store gives keys in the byte order of S3; nothing is sorted or filtered here.
//! - A page holds at most 1,000 keys and common prefixes, which bounds what an answer takes in memory.

mod contents;
mod keys;
mod versions;

pub(crate) use keys::{objects, objects_v2};
pub(crate) use versions::versions;

use objstore::store::Checksum;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::{ChecksumAlgorithm, ChecksumAlgorithmList, CommonPrefix, CommonPrefixList, EncodingType};
use s3s::{S3ErrorCode, S3Result};

use crate::error::refuse;
use crate::xml;

/// Keys of one page, at most, and if nothing is said.
const PAGE_MAX: i32 = 1000;

/// How names are written into an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Plain,
    Url,
}

/// All but what RFC 3986 leaves alone, and the `/` that keeps keys readable.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

impl Encoding {
    /// As asked for by `encoding-type`.
    pub(crate) fn new(given: Option<&EncodingType>) -> S3Result<Self> {
        match given.map(EncodingType::as_str) {
            None | Some("") => Ok(Self::Plain),
            Some(EncodingType::URL) => Ok(Self::Url),
            Some(_) => Err(refuse(S3ErrorCode::InvalidArgument, "Invalid Encoding Method specified in Request")),
        }
    }

    /// Refuses names that cannot be written so.
    pub(crate) fn check<'a>(self, mut names: impl Iterator<Item = &'a str>) -> S3Result<()> {
        if self == Self::Url || names.all(xml::carries) {
            return Ok(());
        }
        let words = "A key on this page holds a control character, which XML cannot carry: use encoding-type=url.";
        Err(refuse(S3ErrorCode::InvalidRequest, words))
    }

    /// A name, as written.
    pub(crate) fn apply(self, name: &str) -> String {
        match self {
            Self::Plain => name.to_owned(),
            Self::Url => utf8_percent_encode(name, ENCODED).to_string(),
        }
    }

    /// An optional name, as written.
    pub(crate) fn apply_to(self, name: Option<&String>) -> Option<String> {
        name.map(|name| self.apply(name))
    }
}

/// The size of a page (`max-keys`, `max-uploads`, `max-parts`).
pub(crate) fn page(asked: Option<i32>, name: &str) -> S3Result<usize> {
    let limit = usize::try_from(asked.unwrap_or(PAGE_MAX).min(PAGE_MAX));
    limit.map_err(|_| refuse(S3ErrorCode::InvalidArgument, format!("{name} must be an integer of at least 0.")))
}

/// Common prefixes, as written.
pub(crate) fn prefixes(prefixes: &[String], encoding: Encoding) -> Option<CommonPrefixList> {
    let written = prefixes.iter().map(|prefix| CommonPrefix { prefix: Some(encoding.apply(prefix)) });
    Some(written.collect())
}

/// Parameters that an answer repeats.
pub(crate) fn echoes(parameters: [&Option<String>; 3]) -> impl Iterator<Item = &str> {
    parameters.into_iter().filter_map(Option::as_deref)
}

/// A parameter that means something only if it is not empty.
pub(crate) fn given(parameter: Option<&String>) -> Option<String> {
    parameter.filter(|parameter| !parameter.is_empty()).cloned()
}

/// The algorithms of the checksums kept with an object.
pub(crate) fn algorithms(checksums: &[Checksum]) -> Option<ChecksumAlgorithmList> {
    let names = checksums.iter().map(|checksum| ChecksumAlgorithm::from(checksum.algorithm.clone()));
    Some(names.collect()).filter(|names: &ChecksumAlgorithmList| !names.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_asked() {
        let url = Encoding::new(Some(&EncodingType::from_static("url"))).unwrap();
        assert_eq!(url.apply("a/b c+d(3)é.png"), "a/b%20c%2Bd%283%29%C3%A9.png");
        assert_eq!(Encoding::Plain.apply("a b"), "a b");
        assert!(url.check(["a\u{1}"].into_iter()).is_ok() && Encoding::Plain.check(["a\u{1}"].into_iter()).is_err());
        assert!(Encoding::new(Some(&EncodingType::from_static("xml"))).is_err());
    }

    #[test]
    fn pages_are_bounded_and_never_negative() {
        assert_eq!(page(None, "max-keys").unwrap(), 1000);
        assert_eq!(page(Some(0), "max-keys").unwrap(), 0);
        assert_eq!(page(Some(7), "max-keys").unwrap(), 7);
        assert_eq!(page(Some(5000), "max-keys").unwrap(), 1000);
        assert_eq!(page(Some(-1), "max-keys").unwrap_err().code().as_str(), "InvalidArgument");
    }
}
