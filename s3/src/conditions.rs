//! Conditions of requests (RFC 9110, section 13; S3 User Guide, "Conditional requests").
//!
//! - Conditions of reads are decided here, on the object that was opened.
//! - Conditions of writes are handed to the store, which decides them inside the write's transaction.

use http::header::{ETAG, LAST_MODIFIED};
use http::{HeaderMap, HeaderValue};
use objstore::store::{Condition, ObjectInfo};
use s3s::dto::{ETag, ETagCondition, Timestamp, TimestampFormat};
use s3s::{S3Error, S3ErrorCode, S3Result};

use crate::error::{not_offered, refuse};

/// The conditions of a read, or on the source of a copy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    /// If-Match
    pub(crate) if_match: Option<ETagCondition>,
    /// If-None-Match
    pub(crate) if_none_match: Option<ETagCondition>,
    /// If-Modified-Since
    pub(crate) modified_since: Option<Timestamp>,
    /// If-Unmodified-Since
    pub(crate) unmodified_since: Option<Timestamp>,
}

impl Reading {
    /// Whether anything has to be decided.
    pub(crate) fn is_empty(&self) -> bool {
        self.if_match.is_none()
            && self.if_none_match.is_none()
            && self.modified_since.is_none()
            && self.unmodified_since.is_none()
    }

    /// Decides a GET or HEAD: goes on, or answers 412 or 304.
    pub(crate) fn check(&self, object: &ObjectInfo) -> S3Result<()> {
        match self.verdict(object) {
            None => Ok(()),
            Some(Failed::Precondition(name)) => Err(precondition(name)),
            Some(Failed::NotModified) => Err(not_modified(object)),
        }
    }

    /// Decides the source of a copy: goes on, or answers 412.
    pub(crate) fn check_source(&self, object: &ObjectInfo) -> S3Result<()> {
        match self.verdict(object) {
            None => Ok(()),
            Some(Failed::Precondition(name)) => Err(precondition(name)),
            Some(Failed::NotModified) => Err(precondition("x-amz-copy-source-if-none-match or -if-modified-since")),
        }
    }

    /// A tag decides before a date, and a date is looked at only without its tag (RFC 9110, section 13.2.2).
    fn verdict(&self, object: &ObjectInfo) -> Option<Failed> {
        match (&self.if_match, &self.unmodified_since) {
            (Some(tag), _) if !matches(tag, &object.etag) => return Some(Failed::Precondition("If-Match")),
            (None, Some(since)) if seconds(object) > seconds_of(since) => {
                return Some(Failed::Precondition("If-Unmodified-Since"));
            }
            _ => {}
        }
        match (&self.if_none_match, &self.modified_since) {
            (Some(tag), _) if matches(tag, &object.etag) => Some(Failed::NotModified),
            (None, Some(since)) if seconds(object) <= seconds_of(since) => Some(Failed::NotModified),
            _ => None,
        }
    }
}

enum Failed {
    Precondition(&'static str),
    NotModified,
}

/// The conditions of a write (S3 API, PutObject). S3 defines If-None-Match for `*` only; an entity tag means here what it
/// means in RFC 9110.
pub(crate) fn writing(if_match: Option<ETagCondition>, if_none_match: Option<ETagCondition>) -> S3Result<Condition> {
    if if_match.is_some() && if_none_match.is_some() {
        return Err(not_offered("If-Match together with If-None-Match"));
    }
    Ok(Condition { if_match: if_match.map(text), if_none_match: if_none_match.map(text), ..Condition::default() })
}

/// The conditions of a deletion (S3 API, DeleteObject): the entity tag, the time to the second, the size.
pub(crate) fn deleting(
    if_match: Option<ETagCondition>,
    modified: Option<&Timestamp>,
    size: Option<i64>,
) -> S3Result<Condition> {
    let size = size.map(u64::try_from).transpose();
    let size = size.map_err(|_| refuse(S3ErrorCode::InvalidArgument, "The size of an object is not negative."))?;
    let modified = modified.map(|time| objstore::clock::Timestamp::from_parts(seconds_of(time), 0));
    Ok(Condition { if_match: if_match.map(text), if_none_match: None, size, modified })
}

fn text(condition: ETagCondition) -> String {
    match condition {
        ETagCondition::Any => "*".into(),
        ETagCondition::ETag(tag) => tag.into_value(),
    }
}

/// Whether a condition, which may be a list of tags, names `etag`.
fn matches(condition: &ETagCondition, etag: &str) -> bool {
    match condition {
        ETagCondition::Any => true,
        ETagCondition::ETag(tag) => {
            tag.value().split(',').any(|one| one.trim().trim_start_matches("W/").trim_matches('"') == etag)
        }
    }
}

fn seconds(object: &ObjectInfo) -> i64 {
    object.modified.parts().0
}

fn seconds_of(time: &Timestamp) -> i64 {
    time::OffsetDateTime::from(time.clone()).unix_timestamp()
}

fn precondition(name: &str) -> S3Error {
    refuse(S3ErrorCode::PreconditionFailed, format!("The condition {name} does not hold."))
}

/// 304 with the validators a cache needs (RFC 9110, section 15.4.5).
fn not_modified(object: &ObjectInfo) -> S3Error {
    let mut headers = HeaderMap::new();
    if let Ok(etag) = ETag::Strong(object.etag.clone()).to_http_header() {
        headers.insert(ETAG, etag);
    }
    if let Some(modified) = http_date(object) {
        headers.insert(LAST_MODIFIED, modified);
    }
    let mut error = S3Error::new(S3ErrorCode::NotModified);
    error.set_headers(headers);
    error
}

fn http_date(object: &ObjectInfo) -> Option<HeaderValue> {
    let mut text = Vec::new();
    let modified = Timestamp::from(std::time::SystemTime::from(object.modified));
    modified.format(TimestampFormat::HttpDate, &mut text).ok()?;
    HeaderValue::from_bytes(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::tests::object;

    fn tag(value: &str) -> Option<ETagCondition> {
        Some(value.parse().unwrap())
    }

    fn date(secs: i64) -> Option<Timestamp> {
        Some(time::OffsetDateTime::from_unix_timestamp(secs).unwrap().into())
    }

    fn verdict(reading: &Reading) -> u16 {
        // The object has the tag "abc" and was modified half a second past second 1,000.
        let result = reading.check(&object("k", "abc", 1_000_500_000_000));
        result.map_or_else(|error| error.status_code().map_or(0, |status| status.as_u16()), |()| 200)
    }

    #[test]
    fn reads_follow_the_order_of_rfc_9110() {
        let none = Reading::default;
        let table = [
            (none(), 200),
            (Reading { if_match: tag("\"abc\""), ..none() }, 200),
            (Reading { if_match: tag("*"), ..none() }, 200),
            (Reading { if_match: tag("\"x\", \"abc\""), ..none() }, 200),
            (Reading { if_match: tag("\"x\""), ..none() }, 412),
            (Reading { if_none_match: tag("\"abc\""), ..none() }, 304),
            (Reading { if_none_match: tag("W/\"abc\""), ..none() }, 304),
            (Reading { if_none_match: tag("\"x\""), ..none() }, 200),
            (Reading { modified_since: date(1_000), ..none() }, 304),
            (Reading { modified_since: date(999), ..none() }, 200),
            (Reading { unmodified_since: date(1_000), ..none() }, 200),
            (Reading { unmodified_since: date(999), ..none() }, 412),
            // A tag that holds overrides a date that does not.
            (Reading { if_match: tag("abc"), unmodified_since: date(999), ..none() }, 200),
            (Reading { if_none_match: tag("x"), modified_since: date(1_000), ..none() }, 200),
        ];
        for (reading, status) in table {
            assert_eq!(verdict(&reading), status, "{reading:?}");
        }
    }

    #[test]
    fn an_unmodified_answer_carries_its_validators() {
        let reading = Reading { if_none_match: tag("abc"), ..Reading::default() };
        let error = reading.check(&object("k", "abc", 0)).unwrap_err();
        let headers = error.headers().unwrap();
        assert_eq!(headers.get(ETAG).unwrap(), "\"abc\"");
        assert_eq!(headers.get(LAST_MODIFIED).unwrap(), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn writes_take_what_s3_takes() {
        assert_eq!(writing(None, tag("*")).unwrap().if_none_match.as_deref(), Some("*"));
        assert_eq!(writing(tag("\"abc\""), None).unwrap().if_match.as_deref(), Some("abc"));
        assert_eq!(writing(None, tag("abc")).unwrap().if_none_match.as_deref(), Some("abc"));
        assert_eq!(writing(tag("abc"), tag("*")).unwrap_err().code().as_str(), "NotImplemented");
    }

    #[test]
    fn deletions_take_a_tag_a_time_and_a_size() {
        let condition = deleting(tag("\"*\""), date(7).as_ref(), Some(3)).unwrap();
        let modified = Some(objstore::clock::Timestamp(7_000_000_000));
        assert_eq!(condition, Condition { if_match: Some("*".into()), if_none_match: None, size: Some(3), modified });
        assert_eq!(deleting(None, None, Some(-1)).unwrap_err().code().as_str(), "InvalidArgument");
    }
}
