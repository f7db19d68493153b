//! Lifecycle rules of buckets (S3 User Guide, "Managing the lifecycle of objects").
//!
//! - What was put is what is given back: the shape of each filter, the ids, also the rules that are disabled.
//! - A rule that asks for what is not offered (another storage class) is refused with all that came with it.
//! - Acting on the rules is the store's; here they are only parsed and written.

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
use crate::object::time;
use crate::service::Service;
use crate::{body, names};

/// What an id may hold in a header as it is (AWS writes the rest percent-encoded).
const ID_ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Replaces the rules of a bucket (S3 API, PutBucketLifecycleConfiguration; the older PutBucketLifecycle is the same
/// request).
pub(crate) async fn put(
    service: &Service,
    request: S3Request<PutBucketLifecycleConfigurationInput>,
) -> S3Result<S3Response<PutBucketLifecycleConfigurationOutput>> {
    body::prove(&request.headers)?;
    let input = request.input;
    let missing = || refuse(S3ErrorCode::MalformedXML, "The body is no LifecycleConfiguration.");
    let rules = parse::rules(input.lifecycle_configuration.ok_or_else(missing)?.rules)?;
    let minimum = input.transition_default_minimum_object_size;
    let kept = minimum.as_ref().map(minimum_size).transpose()?;
    set(service, &input.bucket, rules, kept).await?;
    Ok(S3Response::new(PutBucketLifecycleConfigurationOutput { transition_default_minimum_object_size: minimum }))
}

/// Tells the rules of a bucket (S3 API, GetBucketLifecycleConfiguration).
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

/// Nothing moves to another storage class, so either value is as good.
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

/// `x-amz-expiration`.
pub(crate) fn header(expiration: &Expiration) -> Option<String> {
    let date = http_date(&time(expiration.at))?;
    Some(format!("expiry-date=\"{date}\", rule-id=\"{}\"", utf8_percent_encode(&expiration.rule, ID_ENCODED)))
}

fn http_date(time: &Timestamp) -> Option<String> {
    let mut text = Vec::new();
    time.format(TimestampFormat::HttpDate, &mut text).ok()?;
    String::from_utf8(text).ok()
}
