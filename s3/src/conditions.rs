//! Conditional requests: If-Match and the like (RFC 9110, section 13; S3 User Guide, "Conditional requests").
//!
//! - Conditions of reads are evaluated here, on the opened object.
//! - Conditions of writes are passed to the store, which evaluates them inside the write's transaction.

use http::header::{ETAG, IF_MATCH, IF_NONE_MATCH, LAST_MODIFIED};
use http::{HeaderMap, HeaderName, HeaderValue};
use objstore::store::{Condition, EntityTags, ObjectInfo};
use s3s::dto::{ETag, Timestamp, TimestampFormat};
use s3s::{S3Error, S3ErrorCode, S3Result};

use crate::entity_tag::{Tags, is_unread};
use crate::error::{Detail as _, not_offered, plain, refuse};

const SOURCE_IF_MATCH: HeaderName = HeaderName::from_static("x-amz-copy-source-if-match");
const SOURCE_IF_NONE_MATCH: HeaderName = HeaderName::from_static("x-amz-copy-source-if-none-match");
const SOURCE_MODIFIED_SINCE: HeaderName = HeaderName::from_static("x-amz-copy-source-if-modified-since");
const SOURCE_UNMODIFIED_SINCE: HeaderName = HeaderName::from_static("x-amz-copy-source-if-unmodified-since");
const IF_SIZE: HeaderName = HeaderName::from_static("x-amz-if-match-size");
const IF_TIME: HeaderName = HeaderName::from_static("x-amz-if-match-last-modified-time");
/// The condition of AbortMultipartUpload.
pub(crate) const IF_INITIATED: HeaderName = HeaderName::from_static("x-amz-if-match-initiated-time");

/// All headers that name entity tags.
pub(crate) const NAMING_TAGS: [HeaderName; 4] = [IF_MATCH, IF_NONE_MATCH, SOURCE_IF_MATCH, SOURCE_IF_NONE_MATCH];
/// The date headers that are compared with a copy's source.
pub(crate) const DATES_OF_SOURCE: [HeaderName; 2] = [SOURCE_MODIFIED_SINCE, SOURCE_UNMODIFIED_SINCE];

/// The conditions of a read, or on the source of a copy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    if_match: Option<EntityTags>,
    if_none_match: Option<EntityTags>,
    modified_since: Option<Timestamp>,
    unmodified_since: Option<Timestamp>,
}

impl Reading {
    /// The conditions of a read: entity tags from `headers`, and dates.
    pub(crate) fn new(headers: &HeaderMap, modified: Option<Timestamp>, unmodified: Option<Timestamp>) -> Self {
        Self {
            if_match: Tags::of(headers, &IF_MATCH).map(Tags::into_strong),
            if_none_match: Tags::of(headers, &IF_NONE_MATCH).map(Tags::into_weak),
            modified_since: modified,
            unmodified_since: unmodified,
        }
    }

    /// The conditions on the source of a copy. An empty condition is refused, because the client did not mean an
    /// unconditional copy.
    pub(crate) fn of_source(
        headers: &HeaderMap,
        modified: Option<Timestamp>,
        unmodified: Option<Timestamp>,
    ) -> S3Result<Self> {
        DATES_OF_SOURCE.iter().try_for_each(|name| refuse_empty(headers, name))?;
        Ok(Self {
            if_match: Tags::of(headers, &SOURCE_IF_MATCH).map(Tags::into_strong),
            if_none_match: tags_given(headers, &SOURCE_IF_NONE_MATCH)?.map(Tags::into_weak),
            modified_since: modified,
            unmodified_since: unmodified,
        })
    }

    /// Whether there is no condition.
    pub(crate) fn is_empty(&self) -> bool {
        self.if_match.is_none()
            && self.if_none_match.is_none()
            && self.modified_since.is_none()
            && self.unmodified_since.is_none()
    }

    /// Evaluates the conditions of a GET or HEAD: success, 412 or 304.
    pub(crate) fn check(&self, object: &ObjectInfo) -> S3Result<()> {
        match self.verdict(object) {
            None => Ok(()),
            Some(Failed::Precondition(name)) => Err(precondition(name)),
            Some(Failed::NotModified) => Err(not_modified(object)),
        }
    }

    /// Evaluates the conditions on the source of a copy: success or 412.
    pub(crate) fn check_source(&self, object: &ObjectInfo) -> S3Result<()> {
        match self.verdict(object) {
            None => Ok(()),
            Some(Failed::Precondition(name)) => Err(precondition(name)),
            Some(Failed::NotModified) => Err(precondition("x-amz-copy-source-if-none-match or -if-modified-since")),
        }
    }

    /// The first failed condition. An entity tag takes precedence over the date beside it (RFC 9110, section 13.2.2).
    fn verdict(&self, object: &ObjectInfo) -> Option<Failed> {
        match (&self.if_match, &self.unmodified_since) {
            (Some(tags), _) if !tags.name(&object.etag) => return Some(Failed::Precondition("If-Match")),
            (None, Some(since)) if seconds(object) > seconds_of(since) => {
                return Some(Failed::Precondition("If-Unmodified-Since"));
            }
            _ => {}
        }
        match (&self.if_none_match, &self.modified_since) {
            (Some(tags), _) if tags.name(&object.etag) => Some(Failed::NotModified),
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
pub(crate) fn writing(headers: &HeaderMap) -> S3Result<Condition> {
    let (if_match, if_none_match) = (Tags::of(headers, &IF_MATCH), tags_given(headers, &IF_NONE_MATCH)?);
    if if_match.is_some() && if_none_match.is_some() {
        let error = not_offered("If-Match together with If-None-Match").with("Header", "If-Match,If-None-Match");
        return Err(error.with("additionalMessage", "Multiple conditional request headers present in the request"));
    }
    Ok(Condition {
        if_match: if_match.map(Tags::into_strong),
        if_none_match: if_none_match.map(Tags::into_weak),
        ..Condition::default()
    })
}

/// The conditions of a deletion (S3 API, DeleteObject): the entity tag, the time to the second, the size.
pub(crate) fn deleting(headers: &HeaderMap, modified: Option<&Timestamp>) -> S3Result<Condition> {
    refuse_empty(headers, &IF_TIME)?;
    let if_match = Tags::of(headers, &IF_MATCH).map(Tags::into_strong);
    let size = headers.get(&IF_SIZE).map(|value| value.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok()));
    let size = match size {
        Some(None) => return Err(bad(&IF_SIZE, "has to be a number of bytes")),
        size => size.flatten(),
    };
    Ok(Condition { if_match, if_none_match: None, size, modified: modified.map(whole_second) })
}

/// The conditions of one deletion of many (S3 API, DeleteObjects).
pub(crate) fn deleting_one_of_many(
    etag: Option<&ETag>,
    modified: Option<&Timestamp>,
    size: Option<i64>,
) -> S3Result<Condition> {
    let size = size.map(u64::try_from).transpose();
    let size = size.map_err(|_| refuse(S3ErrorCode::InvalidArgument, "The size of an object is not negative."))?;
    let if_match = etag.map(|etag| match etag {
        ETag::Strong(any) if any == "*" => EntityTags::Any,
        ETag::Strong(tag) => tag.clone().into(),
        ETag::Weak(_) => EntityTags::OneOf(Vec::new()),
    });
    Ok(Condition { if_match, if_none_match: None, size, modified: modified.map(whole_second) })
}

/// The condition of an abort (S3 API, AbortMultipartUpload): the second in which the upload was created, compared with
/// `created`.
pub(crate) fn check_abort(
    headers: &HeaderMap,
    initiated: Option<&Timestamp>,
    created: objstore::clock::Timestamp,
) -> S3Result<()> {
    refuse_empty(headers, &IF_INITIATED)?;
    match initiated {
        Some(wanted) if seconds_of(wanted) != created.parts().0 => Err(precondition(IF_INITIATED.as_str())),
        _ => Ok(()),
    }
}

/// Refuses conditions of a write that `s3s` cannot read and `rewrite` left unchanged because each chunk of the body is
/// signed. No object's tag could match them.
pub(crate) fn check_unread(headers: &HeaderMap) -> S3Result<()> {
    if is_unread(headers, &IF_MATCH) {
        return Err(precondition("If-Match"));
    }
    if is_unread(headers, &IF_NONE_MATCH) {
        return Err(bad(&IF_NONE_MATCH, "has to be one entity tag in quotes where the chunks of the body are signed"));
    }
    Ok(())
}

/// Entity tags that an object must not have. An empty header is refused: it names no tag, so the condition would hold
/// for every object.
fn tags_given(headers: &HeaderMap, name: &HeaderName) -> S3Result<Option<Tags>> {
    match Tags::of(headers, name) {
        Some(tags) if tags.is_empty() => Err(bad(name, "is empty")),
        tags => Ok(tags),
    }
}

/// Refuses a condition without a value, which `s3s` treats as absent.
fn refuse_empty(headers: &HeaderMap, name: &HeaderName) -> S3Result<()> {
    match headers.get_all(name).iter().any(|value| value.as_bytes().trim_ascii().is_empty()) {
        true => Err(bad(name, "is empty")),
        false => Ok(()),
    }
}

fn bad(name: &HeaderName, what: &str) -> S3Error {
    refuse(S3ErrorCode::InvalidArgument, format!("The condition {name} {what}.")).with("ArgumentName", name)
}

fn whole_second(time: &Timestamp) -> objstore::clock::Timestamp {
    objstore::clock::Timestamp::from_parts(seconds_of(time), 0)
}

fn seconds(object: &ObjectInfo) -> i64 {
    object.modified.parts().0
}

fn seconds_of(time: &Timestamp) -> i64 {
    time::OffsetDateTime::from(time.clone()).unix_timestamp()
}

fn precondition(name: &str) -> S3Error {
    plain(S3ErrorCode::PreconditionFailed).with("Condition", name)
}

/// 304 with the validators that a cache needs (RFC 9110, section 15.4.5).
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
    use crate::response::tests::object;

    fn strong(tags: &str) -> Option<EntityTags> {
        Some(Tags::parse(tags.as_bytes()).into_strong())
    }

    fn weak(tags: &str) -> Option<EntityTags> {
        Some(Tags::parse(tags.as_bytes()).into_weak())
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(header).collect()
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
            (Reading { if_match: strong("\"abc\""), ..none() }, 200),
            (Reading { if_match: strong("*"), ..none() }, 200),
            (Reading { if_match: strong("\"x\", \"abc\""), ..none() }, 200),
            (Reading { if_match: strong("\"x\""), ..none() }, 412),
            (Reading { if_match: strong("W/\"abc\""), ..none() }, 412),
            (Reading { if_match: strong(""), ..none() }, 412),
            (Reading { if_none_match: weak(""), ..none() }, 200),
            (Reading { if_none_match: weak("a_b, c d"), ..none() }, 200),
            (Reading { if_none_match: weak("\"abc\""), ..none() }, 304),
            (Reading { if_none_match: weak("W/\"abc\""), ..none() }, 304),
            (Reading { if_none_match: weak("\"x\""), ..none() }, 200),
            (Reading { modified_since: date(1_000), ..none() }, 304),
            (Reading { modified_since: date(999), ..none() }, 200),
            (Reading { unmodified_since: date(1_000), ..none() }, 200),
            (Reading { unmodified_since: date(999), ..none() }, 412),
            // A matching tag takes precedence over a failing date.
            (Reading { if_match: strong("abc"), unmodified_since: date(999), ..none() }, 200),
            (Reading { if_none_match: weak("x"), modified_since: date(1_000), ..none() }, 200),
        ];
        for (reading, status) in table {
            assert_eq!(verdict(&reading), status, "{reading:?}");
        }
    }

    #[test]
    fn an_unmodified_answer_carries_its_validators() {
        let reading = Reading { if_none_match: weak("abc"), ..Reading::default() };
        let error = reading.check(&object("k", "abc", 0)).unwrap_err();
        let headers = error.headers().unwrap();
        assert_eq!(headers.get(ETAG).unwrap(), "\"abc\"");
        assert_eq!(headers.get(LAST_MODIFIED).unwrap(), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn writes_take_what_s3_takes_and_never_an_empty_condition_for_none() {
        let writing = |pairs: &[(&'static str, &'static str)]| {
            writing(&headers(pairs)).map_err(|error| error.code().as_str().to_owned())
        };
        let names = |tags: &[&str]| Some(EntityTags::OneOf(tags.iter().map(|tag| (*tag).to_owned()).collect()));
        assert_eq!(writing(&[]).unwrap(), Condition::default());
        assert_eq!(writing(&[("if-none-match", "*")]).unwrap().if_none_match, Some(EntityTags::Any));
        assert_eq!(writing(&[("if-match", "\"abc\"")]).unwrap().if_match, names(&["abc"]));
        assert_eq!(writing(&[("if-match", "\"*\"")]).unwrap().if_match, names(&["*"]));
        assert_eq!(writing(&[("if-match", "W/\"abc\", a_b")]).unwrap().if_match, names(&["a_b"]));
        assert_eq!(writing(&[("if-match", "")]).unwrap().if_match, names(&[]), "no object has one of no tags");
        assert_eq!(writing(&[("if-none-match", "abc")]).unwrap().if_none_match, names(&["abc"]));
        assert_eq!(writing(&[("if-none-match", "")]), Err("InvalidArgument".into()));
        assert_eq!(writing(&[("if-match", "abc"), ("if-none-match", "*")]), Err("NotImplemented".into()));
    }

    #[test]
    fn deletions_take_a_tag_a_time_and_a_size() {
        let deleting = |pairs: &[(&'static str, &'static str)], time: Option<Timestamp>| {
            deleting(&headers(pairs), time.as_ref()).map_err(|error| error.code().as_str().to_owned())
        };
        let condition = deleting(&[("if-match", "*"), ("x-amz-if-match-size", "3")], date(7)).unwrap();
        let modified = Some(objstore::clock::Timestamp(7_000_000_000));
        let if_match = Some(EntityTags::Any);
        assert_eq!(condition, Condition { if_match, if_none_match: None, size: Some(3), modified });
        for size in ["-1", "", "3 bytes", "3,4"] {
            assert_eq!(deleting(&[("x-amz-if-match-size", size)], None), Err("InvalidArgument".into()), "{size}");
        }
        let empty = [("x-amz-if-match-last-modified-time", "")];
        assert_eq!(deleting(&empty, None), Err("InvalidArgument".into()));
        let many = |etag: &str, size| deleting_one_of_many(Some(&ETag::Strong(etag.into())), None, Some(size));
        assert_eq!(many("", 3).unwrap().if_match, Some(EntityTags::OneOf(vec![String::new()])));
        assert_eq!(many("*", 3).unwrap().if_match, Some(EntityTags::Any));
        assert_eq!(many("abc", -1).unwrap_err().code().as_str(), "InvalidArgument");
    }

    #[test]
    fn a_copy_is_not_made_without_the_conditions_that_were_meant() {
        for (name, refused) in [
            ("x-amz-copy-source-if-none-match", true),
            ("x-amz-copy-source-if-modified-since", true),
            ("x-amz-copy-source-if-unmodified-since", true),
            ("x-amz-copy-source-if-match", false),
        ] {
            assert_eq!(Reading::of_source(&headers(&[(name, "")]), None, None).is_err(), refused, "{name}");
        }
        let reading = Reading::of_source(&headers(&[("x-amz-copy-source-if-match", "")]), None, None).unwrap();
        assert!(reading.check_source(&object("k", "abc", 0)).is_err(), "nothing is named by it");
    }

    #[test]
    fn an_upload_is_aborted_only_if_it_was_begun_then() {
        let created = objstore::clock::Timestamp(7_500_000_000);
        let abort = |time: Option<Timestamp>| check_abort(&HeaderMap::new(), time.as_ref(), created).is_ok();
        assert!(abort(None) && abort(date(7)) && !abort(date(8)));
        assert!(check_abort(&headers(&[("x-amz-if-match-initiated-time", "")]), None, created).is_err());
    }

    #[test]
    fn what_stays_unread_does_not_let_a_write_pass() {
        let code = |pairs: &[(&'static str, &'static str)]| {
            check_unread(&headers(pairs)).map_err(|error| error.code().as_str().to_owned()).err().unwrap_or_default()
        };
        assert_eq!(code(&[("if-match", "\"abc\""), ("if-none-match", "*")]), "");
        assert_eq!(code(&[("if-match", "a_b")]), "PreconditionFailed");
        assert_eq!(code(&[("if-match", "abc"), ("if-match", "abc")]), "PreconditionFailed");
        assert_eq!(code(&[("if-none-match", "a b")]), "InvalidArgument");
    }
}
