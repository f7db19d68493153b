//! The bytes of an object that a read returns: all, a range, or a part.
//!
//! - A malformed Range, one of another unit, or one with several ranges counts as absent, as on S3 (`rewrite`).
//! - If If-Range does not match, the whole object is sent in place of the requested part or range.
//! - A checksum in the response always covers exactly the bytes sent: the whole object, or one part.

use std::ops::Range;

use http::header::CONTENT_RANGE;
use http::{HeaderMap, HeaderValue};
use objstore::store::{Checksum, ObjectInfo, ObjectPart, Reader};
use s3s::dto;
use s3s::{S3Error, S3ErrorCode, S3Result};

use crate::error::{Detail as _, OrRefuse as _, custom, not_offered, plain, says};
use crate::names;

/// The bytes to return and the headers that describe them.
pub(crate) struct Span {
    /// The bytes.
    pub(crate) bytes: Range<u64>,
    /// Whether the response is 206, with the position of the bytes.
    pub(crate) partial: bool,
    /// Checksums of the bytes, if requested and known.
    pub(crate) checksums: Vec<Checksum>,
    /// The number of parts of the object, if a part was requested.
    pub(crate) parts_count: Option<u32>,
}

/// The arguments that select bytes.
pub(crate) struct Asked {
    /// Range
    pub(crate) range: Option<dto::Range>,
    /// partNumber
    pub(crate) part: Option<i32>,
    /// Whether checksums are requested.
    pub(crate) checksums: bool,
}

impl Asked {
    /// Decides for the opened object; `unchanged` says whether If-Range matches. Blocking.
    pub(crate) fn decide(&self, object: &ObjectInfo, reader: &Reader, unchanged: bool) -> S3Result<Span> {
        let part = self.part.map(names::part_number).transpose()?;
        match (part, &self.range) {
            (Some(_), Some(_)) => {
                let words = "Cannot specify both Range header and partNumber query parameter";
                Err(says(S3ErrorCode::InvalidRequest, words))
            }
            _ if !unchanged => Ok(self.whole(object)),
            (Some(number), None) => self.part(number, object, reader),
            (None, Some(range)) => self.range(resolve(range, object.size)?, object, reader),
            (None, None) => Ok(self.whole(object)),
        }
    }

    fn whole(&self, object: &ObjectInfo) -> Span {
        let checksums = if self.checksums { object.checksums.clone() } else { Vec::new() };
        Span { bytes: 0..object.size, partial: false, checksums, parts_count: None }
    }

    fn range(&self, bytes: Range<u64>, object: &ObjectInfo, reader: &Reader) -> S3Result<Span> {
        let mut checksums = Vec::new();
        if self.checksums && bytes == (0..object.size) {
            checksums.clone_from(&object.checksums);
        } else if self.checksums && object.parts.is_some() {
            let parts = reader.parts().or_refuse()?;
            let same = parts.into_iter().find(|part| place(part) == bytes);
            checksums = same.map(|part| part.checksums).unwrap_or_default();
        }
        Ok(Span { bytes, partial: true, checksums, parts_count: None })
    }

    fn part(&self, number: u32, object: &ObjectInfo, reader: &Reader) -> S3Result<Span> {
        let Some(count) = object.parts else {
            // An object that was not uploaded in parts is its own part 1.
            let whole = self.whole(object);
            let partial = object.size > 0;
            return if number == 1 { Ok(Span { partial, ..whole }) } else { Err(no_part(number, 1)) };
        };
        let parts = reader.parts().or_refuse()?;
        if parts.is_empty() {
            return Err(not_offered("Reading a part of an object uploaded before its parts were kept"));
        }
        let part = parts.into_iter().find(|part| part.number == number).ok_or_else(|| no_part(number, count))?;
        let bytes = place(&part);
        let checksums = if self.checksums { part.checksums } else { Vec::new() };
        Ok(Span { partial: !bytes.is_empty(), bytes, checksums, parts_count: Some(count) })
    }
}

fn place(part: &ObjectPart) -> Range<u64> {
    part.offset..part.offset + part.size
}

fn no_part(number: u32, count: impl ToString) -> S3Error {
    plain(custom("InvalidPartNumber")).with("ActualPartCount", count).with("PartNumberRequested", number)
}

/// The position of a range in an object of `size` bytes.
fn resolve(range: &dto::Range, size: u64) -> S3Result<Range<u64>> {
    let span = range.check(size).ok().filter(|span| !span.is_empty());
    span.ok_or_else(|| {
        let mut error = plain(S3ErrorCode::InvalidRange)
            .with("RangeRequested", range.to_header_string())
            .with("ActualObjectSize", size);
        if let Ok(whole) = HeaderValue::from_str(&format!("bytes */{size}")) {
            error.set_headers(HeaderMap::from_iter([(CONTENT_RANGE, whole)]));
        }
        error
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_lie_in_the_object() {
        let span = |text: &str, size| resolve(&dto::Range::parse(text).unwrap(), size).ok();
        assert_eq!(span("bytes=0-3", 10), Some(0..4));
        assert_eq!(span("bytes=3-", 10), Some(3..10));
        assert_eq!(span("bytes=-3", 10), Some(7..10));
        assert_eq!(span("bytes=-30", 10), Some(0..10));
        assert_eq!(span("bytes=8-30", 10), Some(8..10));
        for (text, size) in [("bytes=10-", 10), ("bytes=0-", 0), ("bytes=-1", 0), ("bytes=-0", 10)] {
            let error = resolve(&dto::Range::parse(text).unwrap(), size).unwrap_err();
            assert_eq!(error.code().as_str(), "InvalidRange", "{text} of {size}");
            assert_eq!(error.headers().unwrap().get(CONTENT_RANGE).unwrap(), &format!("bytes */{size}"));
        }
    }
}
