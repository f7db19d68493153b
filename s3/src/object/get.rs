//! GetObject and HeadObject.

use http::header::EXPIRES;
use http::{HeaderMap, HeaderName, HeaderValue};
use objstore::Store;
use objstore::name::{BucketName, Key};
use objstore::store::{ObjectInfo, Reader};
use s3s::dto::{self, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput, Timestamp, TimestampFormat};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::span::{Asked, Span};
use crate::authorization::Authority;
use crate::body::{Output, open};
use crate::checksum;
use crate::conditions::Reading;
use crate::error::{Detail as _, OrRefuse as _, refuse, says};
use crate::if_range::IfRange;
use crate::response::{etag, length, time};
use crate::service::Call;
use crate::{lifecycle, lock, names, storage_class};

/// The arguments of a read.
struct Wanted {
    bucket: BucketName,
    key: Key,
    version: Option<String>,
    conditions: Reading,
    if_range: Option<IfRange>,
    asked: Asked,
}

/// The result of opening an object.
struct Found {
    object: ObjectInfo,
    /// The bytes to send.
    span: Span,
}

macro_rules! wanted {
    ($input:expr, $headers:expr) => {
        Wanted {
            bucket: names::bucket(&$input.bucket)?,
            key: names::key(&$input.key)?,
            version: $input.version_id.take(),
            conditions: Reading::new($headers, $input.if_modified_since.take(), $input.if_unmodified_since.take()),
            if_range: IfRange::of($headers),
            asked: Asked {
                range: $input.range.take(),
                part: $input.part_number,
                checksums: $input
                    .checksum_mode
                    .as_ref()
                    .is_some_and(|mode| mode.as_str() == dto::ChecksumMode::ENABLED),
            },
        }
    };
}

macro_rules! answer {
    ($output:ident, $found:expr) => {{
        let Found { object, span: Span { bytes, partial, checksums, parts_count } } = $found;
        let (metadata, missing) = showable(object.metadata);
        let mut output = $output {
            accept_ranges: Some("bytes".into()),
            cache_control: object.headers.cache_control,
            content_disposition: object.headers.content_disposition,
            content_encoding: object.headers.content_encoding,
            content_language: object.headers.content_language,
            content_length: Some(length(bytes.end - bytes.start)),
            content_range: partial.then(|| format!("bytes {}-{}/{}", bytes.start, bytes.end - 1, object.size)),
            content_type: Some(object.headers.content_type.unwrap_or_else(|| "binary/octet-stream".into())),
            e_tag: Some(etag(&object.etag)),
            expiration: object.expiration.as_ref().and_then(lifecycle::header),
            expires: object.headers.expires,
            last_modified: Some(time(object.modified)),
            metadata: Some(metadata),
            missing_meta: missing,
            storage_class: storage_class::header(object.headers.storage_class),
            parts_count: parts_count.and_then(|count| i32::try_from(count).ok()),
            tag_count: i32::try_from(object.tags.len()).ok().filter(|count| *count > 0),
            version_id: object.version,
            website_redirect_location: object.headers.website_redirect,
            ..$output::default()
        };
        checksum::fill!(output, &checksums);
        if !checksums.is_empty() {
            output.checksum_type = object.checksums.first().map(checksum::kind);
        }
        lock::fill!(output, &object.lock);
        output
    }};
}

/// Whether any `response-…` parameter is given.
macro_rules! overridden {
    ($input:expr) => {
        $input.response_cache_control.is_some()
            || $input.response_content_disposition.is_some()
            || $input.response_content_encoding.is_some()
            || $input.response_content_language.is_some()
            || $input.response_content_type.is_some()
            || $input.response_expires.is_some()
    };
}

/// Reads an object or a range of it (S3 API, GetObject).
pub(crate) async fn get(call: &Call, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
    let mut input = request.input;
    check_overrides(call.request.caller().is_some(), overridden!(input))?;
    let wanted = wanted!(input, &request.headers);
    let authority = call.request.authority()?;
    let (found, output) = call.blocking(move |store| read(store, &authority, &wanted)).await?;
    let mut answer = answer!(GetObjectOutput, found);
    answer.body = Some(output.into_blob());
    Ok(S3Response::new(answer))
}

/// Answers an object's metadata without its content (S3 API, HeadObject).
pub(crate) async fn head(call: &Call, request: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
    let mut input = request.input;
    check_overrides(call.request.caller().is_some(), overridden!(input))?;
    let overrides = overrides(&input)?;
    let wanted = wanted!(input, &request.headers);
    let authority = call.request.authority()?;
    let found = call
        .blocking(move |store| {
            let (object, reader) = opened(store, &authority, &wanted)?;
            decide(object, &reader, &wanted)
        })
        .await?;
    Ok(S3Response::with_headers(answer!(HeadObjectOutput, found), overrides))
}

/// Opens the object, evaluates conditions and reads the first block, in one call to the store.
fn read(store: &Store, authority: &Authority, wanted: &Wanted) -> S3Result<(Found, Output)> {
    let (object, reader) = opened(store, authority, wanted)?;
    let found = decide(object, &reader, wanted)?;
    let output = open(reader, found.span.bytes.clone()).or_refuse()?;
    Ok((found, output))
}

/// Opens the object, which may have been replaced since the access check.
fn opened(store: &Store, authority: &Authority, wanted: &Wanted) -> S3Result<(ObjectInfo, Reader)> {
    let (object, reader) = store.open_object(&wanted.bucket, &wanted.key, wanted.version.as_deref()).or_refuse()?;
    authority.confirm(store, &object)?;
    Ok((object, reader))
}

fn decide(object: ObjectInfo, reader: &Reader, wanted: &Wanted) -> S3Result<Found> {
    wanted.conditions.check(&object)?;
    let unchanged = wanted.if_range.as_ref().is_none_or(|validator| validator.is_of(&object));
    let span = wanted.asked.decide(&object, reader, unchanged)?;
    Ok(Found { object, span })
}

/// Refuses response overrides of anonymous callers, who must not choose how a browser interprets the bytes.
fn check_overrides(signed: bool, overridden: bool) -> S3Result<()> {
    if signed || !overridden {
        return Ok(());
    }
    let words = "Request specific response headers cannot be used for anonymous GET requests.";
    Err(says(S3ErrorCode::InvalidRequest, words))
}

/// The metadata that fits into headers, and how many entries do not: a mount may have stored other names.
fn showable(metadata: std::collections::BTreeMap<String, String>) -> (dto::Metadata, Option<i32>) {
    let all = metadata.len();
    let shown: dto::Metadata =
        metadata.into_iter().filter(|(name, _)| HeaderName::from_bytes(name.as_bytes()).is_ok()).collect();
    let missing = i32::try_from(all - shown.len()).ok().filter(|missing| *missing > 0);
    (shown, missing)
}

/// The `response-…` parameters of a HEAD; `s3s` handles those of a GET.
fn overrides(input: &HeadObjectInput) -> S3Result<HeaderMap> {
    let expires = input.response_expires.as_ref().map(http_date).transpose()?;
    let given = [
        (http::header::CACHE_CONTROL, &input.response_cache_control),
        (http::header::CONTENT_DISPOSITION, &input.response_content_disposition),
        (http::header::CONTENT_ENCODING, &input.response_content_encoding),
        (http::header::CONTENT_LANGUAGE, &input.response_content_language),
        (http::header::CONTENT_TYPE, &input.response_content_type),
        (EXPIRES, &expires),
    ];
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let Some(value) = value else { continue };
        let parsed = HeaderValue::from_str(value);
        let parsed = parsed.map_err(|_| bad_override(&name, value))?;
        headers.insert(name, parsed);
    }
    Ok(headers)
}

fn bad_override(name: &HeaderName, value: &str) -> S3Error {
    refuse(S3ErrorCode::InvalidArgument, format!("A header has no such value: response-{name}."))
        .with("ArgumentName", format!("response-{name}"))
        .with("ArgumentValue", value)
}

fn http_date(time: &Timestamp) -> S3Result<String> {
    let mut text = Vec::new();
    let formatted = time.format(TimestampFormat::HttpDate, &mut text).ok();
    formatted.and_then(|()| String::from_utf8(text).ok()).ok_or_else(|| bad_override(&EXPIRES, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_need_a_signature() {
        assert!(check_overrides(false, false).is_ok() && check_overrides(true, true).is_ok());
        assert_eq!(check_overrides(false, true).unwrap_err().code().as_str(), "InvalidRequest");
    }

    #[test]
    fn metadata_a_header_cannot_name_is_counted() {
        let metadata = [("good", "1"), ("user.a b", "2")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (shown, missing) = showable(metadata.into());
        assert_eq!((shown.len(), missing), (1, Some(1)));
    }
}
