//! Listings of keys and versions, and what all listings have in common.
//!
//! - The store returns keys in the byte order of S3; nothing is sorted or filtered here.
//! - A page holds at most 1,000 keys and common prefixes, which bounds the memory of a response.
//! - A name that XML cannot carry is shown with replaced characters unless `encoding-type=url` was given; a header
//!   counts such names, and markers stay exact. Nothing is omitted, and other names are unchanged.

mod contents;
mod keys;
pub(crate) mod marker;
mod versions;

pub(crate) use keys::{objects, objects_v2};
pub(crate) use versions::versions;

use http::{HeaderMap, HeaderName, HeaderValue};
use objstore::store::Checksum;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::{ChecksumAlgorithm, ChecksumAlgorithmList, CommonPrefix, CommonPrefixList, EncodingType};
use s3s::{S3Error, S3Result};

use crate::error::bad_argument;
use crate::xml;

/// The largest page, and the default.
const PAGE_MAX: i32 = 1000;

/// The header that counts the names with replaced characters.
const REPLACED: HeaderName = HeaderName::from_static("x-amphora-replaced-names");

/// How names are written in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Plain,
    Url,
}

/// Encodes all but the unreserved characters of RFC 3986 and `/`, which keeps keys readable.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

impl Encoding {
    /// The encoding that `encoding-type` requests.
    pub(crate) fn new(given: Option<&EncodingType>) -> S3Result<Self> {
        match given.map(EncodingType::as_str) {
            None | Some("") => Ok(Self::Plain),
            Some(EncodingType::URL) => Ok(Self::Url),
            Some(other) => Err(bad_argument("Invalid Encoding Method specified in Request", "encoding-type", other)),
        }
    }

    /// Sets the header that counts changed names, if there are any.
    pub(crate) fn tell_replaced<'a>(self, names: impl Iterator<Item = &'a str>, headers: &mut HeaderMap) {
        if self == Self::Url {
            return;
        }
        let replaced = names.filter(|name| !xml::carries(name)).count();
        if replaced > 0 {
            headers.insert(REPLACED, HeaderValue::from(replaced));
        }
    }

    /// A name in the form of a response.
    pub(crate) fn apply(self, name: &str) -> String {
        match self {
            Self::Plain => xml::legible(name).into_owned(),
            Self::Url => utf8_percent_encode(name, ENCODED).to_string(),
        }
    }

    /// An optional name in the form of a response.
    pub(crate) fn apply_to(self, name: Option<&String>) -> Option<String> {
        name.map(|name| self.apply(name))
    }
}

/// The size of a page (`max-keys`, `max-uploads`, `max-parts`).
pub(crate) fn page(asked: Option<i32>, name: &'static str) -> S3Result<usize> {
    let asked = asked.unwrap_or(PAGE_MAX);
    usize::try_from(asked.min(PAGE_MAX)).map_err(|_| out_of_range(name, asked))
}

/// The error for a negative number, in AWS's words.
pub(crate) fn out_of_range(name: &'static str, value: i32) -> S3Error {
    let words = format!("Argument {name} must be an integer between 0 and 2147483647");
    bad_argument(words, name, value)
}

/// Common prefixes in the form of a response.
pub(crate) fn prefixes(prefixes: &[String], encoding: Encoding) -> Option<CommonPrefixList> {
    let written = prefixes.iter().map(|prefix| CommonPrefix { prefix: Some(encoding.apply(prefix)) });
    Some(written.collect())
}

/// A parameter; an empty one counts as absent.
pub(crate) fn given(parameter: Option<&String>) -> Option<String> {
    parameter.filter(|parameter| !parameter.is_empty()).cloned()
}

/// The algorithms of an object's stored checksums.
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
        assert_eq!(Encoding::Plain.apply("a\u{1}b"), "a\u{fffd}b");
        assert!(Encoding::new(Some(&EncodingType::from_static("xml"))).is_err());
    }

    #[test]
    fn names_that_are_not_written_as_they_are_are_counted() {
        let told = |encoding: Encoding, names: &[&str]| {
            let mut headers = HeaderMap::new();
            encoding.tell_replaced(names.iter().copied(), &mut headers);
            headers.get(REPLACED).map(|count| count.to_str().unwrap().to_owned())
        };
        assert_eq!(told(Encoding::Plain, &["a\u{1}", "b", "\rc"]).as_deref(), Some("2"));
        assert_eq!((told(Encoding::Plain, &["b"]), told(Encoding::Url, &["a\u{1}"])), (None, None));
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
