//! PutBucketLogging, GetBucketLogging.
//!
//! - The target has to belong to the account that owns the bucket, and the account that sets the log has to be able to write
//!   there (decision 0071). AWS asks for the same account too.

use http::{HeaderMap, Uri};
use objstore::name::{BucketName, KEY_BYTES_MAX};
use objstore::store::{LogKeyFormat, Logging, Settings};
use s3s::dto::{
    GetBucketLoggingInput, GetBucketLoggingOutput, LoggingEnabled, PartitionDateSource, PartitionedPrefix,
    PutBucketLoggingInput, PutBucketLoggingOutput, SimplePrefix, TargetObjectKeyFormat,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use crate::access_log::refusal;
use crate::error::{Detail as _, OrRefuse as _, plain, refuse, says};
use crate::service::{Call, Service};
use crate::{access, names};

/// The length of a log object's key behind the prefix, without the names of account, region and bucket.
const REST_BYTES: usize = "/".len() * 3 + "2026/03/09/2026-03-09-00-00-00-0123456789ABCDEF".len();
/// The longest name of a bucket.
const BUCKET_BYTES_MAX: usize = 63;
/// The longest name of an account.
const ACCOUNT_BYTES_MAX: usize = 128;

/// Sets where the access log of a bucket is delivered, or that it has none (S3 API, PutBucketLogging).
pub(crate) async fn put(
    call: &Call,
    request: S3Request<PutBucketLoggingInput>,
) -> S3Result<S3Response<PutBucketLoggingOutput>> {
    call.request.prove(&request.headers)?;
    let bucket = names::bucket(&request.input.bucket)?;
    let logging = match request.input.bucket_logging_status.logging_enabled {
        None => None,
        Some(enabled) => Some(checked(call, &bucket, enabled, (&request.headers, &request.uri)).await?),
    };
    let change = move |settings: &mut Settings| {
        settings.logging = logging;
        Ok(())
    };
    call.store.change_settings(&bucket, change).await.or_refuse()?;
    Ok(S3Response::new(PutBucketLoggingOutput::default()))
}

/// Answers where the access log of a bucket is delivered (S3 API, GetBucketLogging).
pub(crate) async fn get(
    service: &Service,
    request: S3Request<GetBucketLoggingInput>,
) -> S3Result<S3Response<GetBucketLoggingOutput>> {
    let bucket = names::bucket(&request.input.bucket)?;
    let settings = service.blocking(move |store| store.settings(&bucket).or_refuse()).await?.settings;
    let logging_enabled = settings.logging.as_ref().map(|logging| LoggingEnabled {
        target_bucket: logging.target.clone(),
        target_prefix: logging.prefix.clone(),
        target_grants: None,
        target_object_key_format: written(logging.key_format()),
    });
    Ok(S3Response::new(GetBucketLoggingOutput { logging_enabled }))
}

/// Checks a log that is asked for.
async fn checked(
    call: &Call,
    bucket: &BucketName,
    given: LoggingEnabled,
    head: (&HeaderMap, &Uri),
) -> S3Result<Logging> {
    if given.target_grants.is_some_and(|grants| !grants.is_empty()) {
        return Err(refuse(S3ErrorCode::AccessControlListNotSupported, "Use a policy of the target."));
    }
    let format = key_format(given.target_object_key_format)?;
    let Ok(target) = given.target_bucket.parse::<BucketName>() else {
        return Err(plain(S3ErrorCode::InvalidTargetBucketForLogging).with("TargetBucket", given.target_bucket));
    };
    check_prefix(call, &given.target_prefix)?;
    check_target(call, bucket, &target).await?;
    let key = format!("{}2026-03-09-00-00-00-0123456789ABCDEF", given.target_prefix);
    access::require_write(call, target, &key, head).await?;
    Ok(Logging { target: given.target_bucket, prefix: given.target_prefix, key_format: format.into() })
}

/// Whether the target may be one.
async fn check_target(service: &Service, bucket: &BucketName, target: &BucketName) -> S3Result<()> {
    let (source, wanted) = (bucket.clone(), target.clone());
    let bad = |error: S3Error, target: &BucketName| error.with("TargetBucket", target);
    let found = service.blocking(move |store| {
        let owner = store.settings(&source).or_refuse()?.owner;
        match store.settings(&wanted) {
            Err(objstore::Error::NotFound { .. }) => Ok(None),
            found => Ok(Some((owner, found.or_refuse()?))),
        }
    });
    let Some((owner, found)) = found.await? else {
        return Err(bad(plain(S3ErrorCode::InvalidTargetBucketForLogging), target));
    };
    match refusal(&found, owner) {
        None => Ok(()),
        Some(_) if found.owner != owner => {
            let words = "The owner for the bucket to be logged and the target bucket must be the same.";
            Err(bad(says(S3ErrorCode::InvalidTargetBucketForLogging, words), target))
        }
        Some(why) => {
            Err(bad(refuse(S3ErrorCode::InvalidTargetBucketForLogging, format!("Name another bucket: {why}.")), target))
        }
    }
}

/// Refuses a prefix that no key can have.
fn check_prefix(service: &Service, prefix: &str) -> S3Result<()> {
    let rest = REST_BYTES + service.region.len() + BUCKET_BYTES_MAX + ACCOUNT_BYTES_MAX;
    let most = KEY_BYTES_MAX - rest;
    if prefix.len() > most {
        let words = format!("The keys of log objects would be too long: a TargetPrefix has at most {most} bytes.");
        return Err(refuse(S3ErrorCode::InvalidArgument, words).with("ArgumentName", "TargetPrefix"));
    }
    names::key(&format!("{prefix}x")).map(drop)
}

/// The format that is asked for.
fn key_format(given: Option<TargetObjectKeyFormat>) -> S3Result<LogKeyFormat> {
    let malformed = |words: &str| refuse(S3ErrorCode::MalformedXML, words);
    let Some(given) = given else { return Ok(LogKeyFormat::Unset) };
    match (given.simple_prefix, given.partitioned_prefix) {
        (Some(_), None) => Ok(LogKeyFormat::Simple),
        (None, Some(partitioned)) => {
            match partitioned.partition_date_source.as_ref().map(PartitionDateSource::as_str) {
                Some(PartitionDateSource::EVENT_TIME) => Ok(LogKeyFormat::EventTime),
                Some(PartitionDateSource::DELIVERY_TIME) => Ok(LogKeyFormat::DeliveryTime),
                _ => Err(malformed("PartitionDateSource is EventTime or DeliveryTime.")),
            }
        }
        _ => Err(malformed("TargetObjectKeyFormat has either SimplePrefix or PartitionedPrefix.")),
    }
}

/// A format, as answers write it.
fn written(format: LogKeyFormat) -> Option<TargetObjectKeyFormat> {
    let by = |source| TargetObjectKeyFormat {
        partitioned_prefix: Some(PartitionedPrefix {
            partition_date_source: Some(PartitionDateSource::from_static(source)),
        }),
        simple_prefix: None,
    };
    match format {
        LogKeyFormat::Unset => None,
        LogKeyFormat::Simple => {
            Some(TargetObjectKeyFormat { simple_prefix: Some(SimplePrefix {}), partitioned_prefix: None })
        }
        LogKeyFormat::EventTime => Some(by(PartitionDateSource::EVENT_TIME)),
        LogKeyFormat::DeliveryTime => Some(by(PartitionDateSource::DELIVERY_TIME)),
    }
}
