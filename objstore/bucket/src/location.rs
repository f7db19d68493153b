//! `s3://BUCKET/PREFIX`: which part of which bucket belongs to a store.

use std::fmt;

use crate::error::{Error, Result};

/// A bucket and the prefix of all keys in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    bucket: String,
    /// Without slashes at its ends; empty for the whole bucket.
    prefix: String,
}

impl Location {
    /// Reads `s3://BUCKET` or `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// [`Error::Invalid`] says what is wrong.
    pub fn parse(url: &str) -> Result<Self> {
        let invalid = |why: &str| Error::Invalid { what: "URL of an S3 bucket", value: url.into(), why: why.into() };
        let rest = url.strip_prefix("s3://").ok_or_else(|| invalid("it has the form s3://BUCKET/PREFIX"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let of_a_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte);
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(of_a_name) {
            return Err(invalid("the name of a bucket has 3 to 63 lower-case letters, digits, dots and hyphens"));
        }
        let prefix = prefix.trim_matches('/');
        let of_a_prefix = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/".contains(&byte);
        let steps_back = prefix.split('/').any(|part| matches!(part, "." | "..")) || prefix.contains("//");
        if prefix.len() > 512 || !prefix.bytes().all(of_a_prefix) || steps_back {
            return Err(invalid(
                "a prefix has up to 512 letters, digits, hyphens, underscores, dots and single slashes",
            ));
        }
        Ok(Self { bucket: bucket.into(), prefix: prefix.into() })
    }

    /// The bucket.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// A location below this one.
    #[must_use]
    pub fn below(&self, part: &str) -> Self {
        Self { bucket: self.bucket.clone(), prefix: self.key(part) }
    }

    /// Whether one of the two is the other one, or lies below it.
    pub fn overlaps(&self, other: &Self) -> bool {
        let below = |inner: &Self, outer: &Self| inner.prefix == outer.prefix || outer.strip(&inner.prefix).is_some();
        self.bucket == other.bucket && (below(self, other) || below(other, self))
    }

    /// The full key of `key`.
    pub(crate) fn key(&self, key: &str) -> String {
        if self.prefix.is_empty() { key.into() } else { format!("{}/{key}", self.prefix) }
    }

    /// The key below the prefix; `None` for a key that is not below it.
    pub(crate) fn strip<'k>(&self, full: &'k str) -> Option<&'k str> {
        if self.prefix.is_empty() { Some(full) } else { full.strip_prefix(&*self.prefix)?.strip_prefix('/') }
    }

    /// How errors call the object `key`.
    pub(crate) fn name(&self, key: &str) -> String {
        format!("s3://{}/{}", self.bucket, self.key(key))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        write!(f, "s3://{}{slash}{}", self.bucket, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_read_and_shown() {
        for (url, shown, key) in [
            ("s3://media", "s3://media", "a/b"),
            ("s3://media/", "s3://media", "a/b"),
            ("s3://media/team-1/store/", "s3://media/team-1/store", "team-1/store/a/b"),
        ] {
            let location = Location::parse(url).unwrap();
            assert_eq!((location.to_string(), location.key("a/b")), (shown.to_owned(), key.to_owned()));
            assert_eq!(location.strip(key), Some("a/b"));
        }
        let location = Location::parse("s3://media/one").unwrap();
        assert_eq!((location.strip("one2/a"), location.strip("two/a")), (None, None));
    }

    #[test]
    fn a_location_overlaps_what_is_below_it() {
        let overlap = |one: &str, other: &str| Location::parse(one).unwrap().overlaps(&Location::parse(other).unwrap());
        for (one, other) in
            [("s3://media/a", "s3://media/a/"), ("s3://media/a", "s3://media/a/b"), ("s3://media", "s3://media/a")]
        {
            assert!(overlap(one, other) && overlap(other, one), "{one} {other}");
        }
        for (one, other) in
            [("s3://media/a", "s3://other/a"), ("s3://media/a", "s3://media/ab"), ("s3://media/a/b", "s3://media/a/c")]
        {
            assert!(!overlap(one, other) && !overlap(other, one), "{one} {other}");
        }
    }

    #[test]
    fn what_cannot_be_a_location_is_refused() {
        for url in [
            "",
            "media",
            "http://media/x",
            "s3://",
            "s3://ab",
            "s3://Media",
            "s3://media/a//b",
            "s3://media/../b",
            "s3://media/é",
        ] {
            assert!(matches!(Location::parse(url), Err(Error::Invalid { .. })), "{url}");
        }
    }
}
