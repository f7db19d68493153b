//! GetObject and HeadObject.

use std::ops::Range;

use http::header::CONTENT_RANGE;
use http::{HeaderMap, HeaderName, HeaderValue};
use objstore::name::{BucketName, Key};
use objstore::store::ObjectInfo;
use s3s::dto::{self, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput, Timestamp, TimestampFormat};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use super::{etag, length, time};
use crate::body::{Output, open};
use crate::checksum;
use crate::conditions::Reading;
use crate::error::{OrRefuse as _, not_offered, refuse};
use crate::names;
use crate::service::Service;

/// What a read asks for.
struct Wanted {
    bucket: BucketName,
    key: Key,
    version: Option<String>,
    conditions: Reading,
    range: Option<dto::Range>,
    part: Option<i32>,
    checksums: bool,
}

/// What a read found.
struct Found {
    object: ObjectInfo,
    /// The bytes to send.
    span: Range<u64>,
    /// Whether that is less than asked without a range.
    partial: bool,
    checksums: bool,
}

macro_rules! wanted {
    ($input:expr) => {
        Wanted {
            bucket: names::bucket(&$input.bucket)?,
            key: names::key(&$input.key)?,
            version: $input.version_id.take(),
            conditions: Reading {
                if_match: $input.if_match.take(),
                if_none_match: $input.if_none_match.take(),
                modified_since: $input.if_modified_since.take(),
                unmodified_since: $input.if_unmodified_since.take(),
            },
            range: $input.range.take(),
            part: $input.part_number,
            checksums: $input.checksum_mode.as_ref().is_some_and(|mode| mode.as_str() == dto::ChecksumMode::ENABLED),
        }
    };
}

macro_rules! answer {
    ($output:ident, $found:expr) => {{
        let Found { object, span, partial, checksums } = $found;
        let (metadata, missing) = showable(object.metadata);
        let mut output = $output {
            accept_ranges: Some("bytes".into()),
            cache_control: object.headers.cache_control,
            content_disposition: object.headers.content_disposition,
            content_encoding: object.headers.content_encoding,
            content_language: object.headers.content_language,
            content_length: Some(length(span.end - span.start)),
            content_range: partial.then(|| format!("bytes {}-{}/{}", span.start, span.end - 1, object.size)),
            content_type: Some(object.headers.content_type.unwrap_or_else(|| "binary/octet-stream".into())),
            e_tag: Some(etag(&object.etag)),
            expires: object.headers.expires,
            last_modified: Some(time(object.modified)),
            metadata: Some(metadata),
            missing_meta: missing,
            tag_count: i32::try_from(object.tags.len()).ok().filter(|count| *count > 0),
            version_id: object.version,
            ..$output::default()
        };
        // The kept checksums are of the whole object: beside a part of it a client would take them for wrong.
        if checksums && !partial {
            checksum::fill!(output, &object.checksums, typed);
        }
        output
    }};
}

/// Reads an object or a range of it (S3 API, GetObject).
pub(crate) async fn get(
    service: &Service,
    request: S3Request<GetObjectInput>,
) -> S3Result<S3Response<GetObjectOutput>> {
    let mut input = request.input;
    let wanted = wanted!(input);
    let (found, output) = service.blocking(move |store| read(store, &wanted)).await?;
    let mut answer = answer!(GetObjectOutput, found);
    answer.body = Some(output.into_blob());
    Ok(S3Response::new(answer))
}

/// Tells of an object without its content (S3 API, HeadObject).
pub(crate) async fn head(
    service: &Service,
    request: S3Request<HeadObjectInput>,
) -> S3Result<S3Response<HeadObjectOutput>> {
    let mut input = request.input;
    let overrides = overrides(&input)?;
    let wanted = wanted!(input);
    let found = service
        .blocking(move |store| {
            let object = store.head_object(&wanted.bucket, &wanted.key, wanted.version.as_deref()).or_refuse()?;
            decide(object, &wanted)
        })
        .await?;
    Ok(S3Response::with_headers(answer!(HeadObjectOutput, found), overrides))
}

/// Opens, decides, and reads the first block: one trip to the store.
fn read(store: &objstore::Store, wanted: &Wanted) -> S3Result<(Found, Output)> {
    let (object, reader) = store.open_object(&wanted.bucket, &wanted.key, wanted.version.as_deref()).or_refuse()?;
    let found = decide(object, wanted)?;
    let output = open(reader, found.span.clone()).or_refuse()?;
    Ok((found, output))
}

fn decide(object: ObjectInfo, wanted: &Wanted) -> S3Result<Found> {
    wanted.conditions.check(&object)?;
    check_part(&object, wanted)?;
    let span = match &wanted.range {
        None => 0..object.size,
        Some(range) => resolve(range, object.size)?,
    };
    Ok(Found { object, span, partial: wanted.range.is_some(), checksums: wanted.checksums })
}

/// Where a range lies in an object of `size` bytes.
fn resolve(range: &dto::Range, size: u64) -> S3Result<Range<u64>> {
    let span = range.check(size).ok().filter(|span| !span.is_empty());
    span.ok_or_else(|| {
        let mut error =
            refuse(S3ErrorCode::InvalidRange, format!("The object has {size} bytes; the range is not in it."));
        if let Ok(whole) = HeaderValue::from_str(&format!("bytes */{size}")) {
            error.set_headers(HeaderMap::from_iter([(CONTENT_RANGE, whole)]));
        }
        error
    })
}

/// An object uploaded at once is its own part 1.
fn check_part(object: &ObjectInfo, wanted: &Wanted) -> S3Result<()> {
    match wanted.part {
        None => Ok(()),
        Some(number) if !(1..=10_000).contains(&number) => {
            Err(refuse(S3ErrorCode::InvalidArgument, "Part number must be an integer between 1 and 10000, inclusive"))
        }
        Some(_) if wanted.range.is_some() => {
            Err(refuse(S3ErrorCode::InvalidRequest, "Cannot specify both Range header and partNumber query parameter."))
        }
        Some(_) if object.parts.is_some() => Err(not_offered("Reading a part of an object by its number")),
        Some(1) => Ok(()),
        Some(_) => Err(refuse(S3ErrorCode::InvalidRange, "The object has one part.")),
    }
}

/// Metadata that fits into headers, and how much does not: a mount may have kept other names.
fn showable(metadata: std::collections::BTreeMap<String, String>) -> (dto::Metadata, Option<i32>) {
    let all = metadata.len();
    let shown: dto::Metadata =
        metadata.into_iter().filter(|(name, _)| HeaderName::from_bytes(name.as_bytes()).is_ok()).collect();
    let missing = i32::try_from(all - shown.len()).ok().filter(|missing| *missing > 0);
    (shown, missing)
}

/// The `response-…` parameters of a HEAD; those of a GET `s3s` sees to.
fn overrides(input: &HeadObjectInput) -> S3Result<HeaderMap> {
    let expires = input.response_expires.as_ref().map(http_date).transpose()?;
    let given = [
        (http::header::CACHE_CONTROL, &input.response_cache_control),
        (http::header::CONTENT_DISPOSITION, &input.response_content_disposition),
        (http::header::CONTENT_ENCODING, &input.response_content_encoding),
        (http::header::CONTENT_LANGUAGE, &input.response_content_language),
        (http::header::CONTENT_TYPE, &input.response_content_type),
        (http::header::EXPIRES, &expires),
    ];
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let Some(value) = value else { continue };
        let parsed = HeaderValue::from_str(value);
        let parsed = parsed.map_err(|_| refuse(S3ErrorCode::InvalidArgument, format!("Bad value for {name}.")))?;
        headers.insert(name, parsed);
    }
    Ok(headers)
}

fn http_date(time: &Timestamp) -> S3Result<String> {
    let mut text = Vec::new();
    let formatted = time.format(TimestampFormat::HttpDate, &mut text).ok();
    formatted
        .and_then(|()| String::from_utf8(text).ok())
        .ok_or_else(|| refuse(S3ErrorCode::InvalidArgument, "Bad value for response-expires."))
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

    #[test]
    fn metadata_a_header_cannot_name_is_counted() {
        let metadata = [("good", "1"), ("user.a b", "2")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (shown, missing) = showable(metadata.into());
        assert_eq!((shown.len(), missing), (1, Some(1)));
    }
}
