//! Lifecycle rules of buckets: the S3 operations on them (S3 User Guide, "Managing the lifecycle of objects").
//!
//! - Rules are returned exactly as they were set: the shape of each filter, the ids, and disabled rules.
//! - If one rule asks for an unsupported action (a transition to another storage class), the whole request is refused.
//! - The store executes the rules; this module only parses and writes them.

mod parse;
#[cfg(test)]
mod tests;
mod write;

use objstore::lifecycle::Expiration;
use objstore::store::{LifecycleRule, Settings};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::{
    DeleteBucketLifecycleInput, DeleteBucketLifecycleOutput, GetBucketLifecycleConfigurationInput,
    GetBucketLifecycleConfigurationOutput, PutBucketLifecycleConfigurationInput, PutBucketLifecycleConfigurationOutput,
    Timestamp, TimestampFormat, TransitionDefaultMinimumObjectSize,
};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use crate::error::{OrRefuse as _, plain, refuse};
use crate::names;
use crate::response::time;
use crate::service::{Call, Service};

/// Characters of an id that are percent-encoded in a header, as AWS does.
const ID_ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Replaces the rules of a bucket (S3 API, PutBucketLifecycleConfiguration; the older PutBucketLifecycle is the same
/// request).
pub(crate) async fn put(
    call: &Call,
    request: S3Request<PutBucketLifecycleConfigurationInput>,
) -> S3Result<S3Response<PutBucketLifecycleConfigurationOutput>> {
    call.request.prove(&request.headers)?;
    let input = request.input;
    let missing = || refuse(S3ErrorCode::MalformedXML, "The body is no LifecycleConfiguration.");
    let rules = parse::rules(input.lifecycle_configuration.ok_or_else(missing)?.rules)?;
    let minimum = input.transition_default_minimum_object_size;
    let kept = minimum.as_ref().map(minimum_size).transpose()?;
    set(call, &input.bucket, rules, kept).await?;
    Ok(S3Response::new(PutBucketLifecycleConfigurationOutput { transition_default_minimum_object_size: minimum }))
}

/// Answers the rules of a bucket (S3 API, GetBucketLifecycleConfiguration).
pub(crate) async fn get(
    service: &Service,
    request: S3Request<GetBucketLifecycleConfigurationInput>,
) -> S3Result<S3Response<GetBucketLifecycleConfigurationOutput>> {
    let bucket = names::bucket(&request.input.bucket)?;
    let settings = service.blocking(move |store| store.settings(&bucket).or_refuse()).await?.settings;
    if settings.lifecycle.is_empty() {
        return Err(plain(S3ErrorCode::NoSuchLifecycleConfiguration));
    }
    let minimum = settings.lifecycle_minimum.clone();
    let minimum = minimum.unwrap_or_else(|| TransitionDefaultMinimumObjectSize::ALL_STORAGE_CLASSES_128K.into());
    Ok(S3Response::new(GetBucketLifecycleConfigurationOutput {
        rules: Some(settings.lifecycle.iter().map(write::rule).collect()),
        transition_default_minimum_object_size: Some(minimum.into()),
    }))
}

/// Removes the rules of a bucket (S3 API, DeleteBucketLifecycle).
pub(crate) async fn delete(
    service: &Service,
    request: S3Request<DeleteBucketLifecycleInput>,
) -> S3Result<S3Response<DeleteBucketLifecycleOutput>> {
    set(service, &request.input.bucket, Vec::new(), None).await?;
    Ok(S3Response::new(DeleteBucketLifecycleOutput::default()))
}

async fn set(service: &Service, bucket: &str, rules: Vec<LifecycleRule>, minimum: Option<String>) -> S3Result<()> {
    let bucket = names::bucket(bucket)?;
    let change = move |settings: &mut Settings| {
        (settings.lifecycle, settings.lifecycle_minimum) = (rules, minimum);
        Ok(())
    };
    service.store.change_settings(&bucket, change).await.or_refuse()
}

/// Accepts both values: no object moves to another storage class, so neither has an effect.
fn minimum_size(asked: &TransitionDefaultMinimumObjectSize) -> S3Result<String> {
    match asked.as_str() {
        known @ (TransitionDefaultMinimumObjectSize::ALL_STORAGE_CLASSES_128K
        | TransitionDefaultMinimumObjectSize::VARIES_BY_STORAGE_CLASS) => Ok(known.to_owned()),
        other => Err(refuse(
            S3ErrorCode::InvalidRequest,
            format!("x-amz-transition-default-minimum-object-size is not \"{other}\"."),
        )),
    }
}

/// The value of `x-amz-expiration`.
pub(crate) fn header(expiration: &Expiration) -> Option<String> {
    let date = http_date(&time(expiration.at))?;
    Some(format!("expiry-date=\"{date}\", rule-id=\"{}\"", utf8_percent_encode(&expiration.rule, ID_ENCODED)))
}

fn http_date(time: &Timestamp) -> Option<String> {
    let mut text = Vec::new();
    time.format(TimestampFormat::HttpDate, &mut text).ok()?;
    String::from_utf8(text).ok()
}
