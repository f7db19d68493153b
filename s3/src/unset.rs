//! Settings of buckets that are not offered: reading one answers that it is unset, as AWS answers for a bucket that never
//! had it; removing one is done already; putting one is taken where that changes nothing, and refused by name otherwise.
//!
//! - A bucket has no encryption setting, although every bucket on AWS has one: content is not encrypted at rest here, and
//!   a document that says AES256 would be a lie (decision 0064).

use s3s::dto::{
    AbacStatus, BucketAbacStatus, BucketAccelerateStatus, GetBucketAbacInput, GetBucketAbacOutput,
    ListBucketAnalyticsConfigurationsInput, ListBucketAnalyticsConfigurationsOutput,
    ListBucketIntelligentTieringConfigurationsInput, ListBucketIntelligentTieringConfigurationsOutput,
    ListBucketInventoryConfigurationsInput, ListBucketInventoryConfigurationsOutput,
    ListBucketMetricsConfigurationsInput, ListBucketMetricsConfigurationsOutput, NotificationConfiguration, Payer,
    PutBucketAbacInput, PutBucketAbacOutput, PutBucketAccelerateConfigurationInput,
    PutBucketAccelerateConfigurationOutput, PutBucketNotificationConfigurationInput,
    PutBucketNotificationConfigurationOutput, PutBucketRequestPaymentInput, PutBucketRequestPaymentOutput,
};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use crate::body;
use crate::error::{custom, not_offered, plain, refuse};
use crate::service::Service;

/// Answers an empty document, or, for a removal, that nothing is set any more.
pub(crate) async fn empty<I: Send, O: Default>(_service: &Service, _request: S3Request<I>) -> S3Result<S3Response<O>> {
    Ok(S3Response::new(O::default()))
}

/// Tells that a bucket has no encryption setting (S3 API, GetBucketEncryption).
pub(crate) async fn encryption<I: Send, O>(_service: &Service, _request: S3Request<I>) -> S3Result<S3Response<O>> {
    Err(plain(custom("ServerSideEncryptionConfigurationNotFoundError")))
}

/// Tells that a bucket is not replicated (S3 API, GetBucketReplication).
pub(crate) async fn replication<I: Send, O>(_service: &Service, _request: S3Request<I>) -> S3Result<S3Response<O>> {
    Err(plain(custom("ReplicationConfigurationNotFoundError")))
}

/// Tells that a bucket has no metadata tables (S3 API, GetBucketMetadataConfiguration).
pub(crate) async fn metadata<I: Send, O>(_service: &Service, _request: S3Request<I>) -> S3Result<S3Response<O>> {
    Err(plain(custom("MetadataConfigurationNotFound")))
}

/// Tells that no configuration has this id (S3 API, GetBucketAnalyticsConfiguration and its like).
pub(crate) async fn configuration<I: Send, O>(_service: &Service, _request: S3Request<I>) -> S3Result<S3Response<O>> {
    Err(plain(custom("NoSuchConfiguration")))
}

/// Tells that there is no torrent of an object (S3 API, GetObjectTorrent).
pub(crate) async fn torrent<I: Send, O>(_service: &Service, _request: S3Request<I>) -> S3Result<S3Response<O>> {
    Err(refuse(S3ErrorCode::NoSuchKey, "No object has a torrent here."))
}

/// One function for each kind of configuration that a bucket has several of: none is listed.
macro_rules! no_configurations {
    ($($(#[$doc:meta])* $name:ident: $input:ident -> $output:ident;)*) => {
        $($(#[$doc])*
        pub(crate) async fn $name(_service: &Service, _request: S3Request<$input>) -> S3Result<S3Response<$output>> {
            Ok(S3Response::new($output { is_truncated: Some(false), ..$output::default() }))
        })*
    };
}

no_configurations! {
    /// Lists no configurations (S3 API, ListBucketAnalyticsConfigurations).
    analytics: ListBucketAnalyticsConfigurationsInput -> ListBucketAnalyticsConfigurationsOutput;
    /// Lists no configurations (S3 API, ListBucketIntelligentTieringConfigurations).
    intelligent_tiering: ListBucketIntelligentTieringConfigurationsInput -> ListBucketIntelligentTieringConfigurationsOutput;
    /// Lists no configurations (S3 API, ListBucketInventoryConfigurations).
    inventory: ListBucketInventoryConfigurationsInput -> ListBucketInventoryConfigurationsOutput;
    /// Lists no configurations (S3 API, ListBucketMetricsConfigurations).
    metrics: ListBucketMetricsConfigurationsInput -> ListBucketMetricsConfigurationsOutput;
}

/// Tells that tags decide on no access (S3 API, GetBucketAbac).
pub(crate) async fn abac(
    _service: &Service,
    _request: S3Request<GetBucketAbacInput>,
) -> S3Result<S3Response<GetBucketAbacOutput>> {
    let status = Some(BucketAbacStatus::from_static(BucketAbacStatus::DISABLED));
    Ok(S3Response::new(GetBucketAbacOutput { abac_status: Some(AbacStatus { status }) }))
}

/// Takes `Disabled` (S3 API, PutBucketAbac).
pub(crate) async fn put_abac(
    _service: &Service,
    request: S3Request<PutBucketAbacInput>,
) -> S3Result<S3Response<PutBucketAbacOutput>> {
    body::prove(&request.headers)?;
    let status = request.input.abac_status.status;
    let status = status.as_ref().map(BucketAbacStatus::as_str).unwrap_or_default();
    one_of(status, BucketAbacStatus::DISABLED, BucketAbacStatus::ENABLED, "PutBucketAbac with the status Enabled")?;
    Ok(S3Response::new(PutBucketAbacOutput::default()))
}

/// Takes `Suspended` (S3 API, PutBucketAccelerateConfiguration).
pub(crate) async fn put_accelerate(
    _service: &Service,
    request: S3Request<PutBucketAccelerateConfigurationInput>,
) -> S3Result<S3Response<PutBucketAccelerateConfigurationOutput>> {
    body::prove(&request.headers)?;
    let status = request.input.accelerate_configuration.status;
    let status = status.as_ref().map(BucketAccelerateStatus::as_str).unwrap_or_default();
    let refused = "PutBucketAccelerateConfiguration with the status Enabled";
    one_of(status, BucketAccelerateStatus::SUSPENDED, BucketAccelerateStatus::ENABLED, refused)?;
    Ok(S3Response::new(PutBucketAccelerateConfigurationOutput::default()))
}

/// Takes `BucketOwner` (S3 API, PutBucketRequestPayment).
pub(crate) async fn put_payment(
    _service: &Service,
    request: S3Request<PutBucketRequestPaymentInput>,
) -> S3Result<S3Response<PutBucketRequestPaymentOutput>> {
    body::prove(&request.headers)?;
    let payer = request.input.request_payment_configuration.payer;
    one_of(payer.as_str(), Payer::BUCKET_OWNER, Payer::REQUESTER, "PutBucketRequestPayment with the payer Requester")?;
    Ok(S3Response::new(PutBucketRequestPaymentOutput::default()))
}

/// Takes the value that holds anyway, refuses the one that is not offered by name, and any other as no value of S3.
fn one_of(value: &str, holds: &str, offered_by_aws: &str, refused: &str) -> S3Result<()> {
    if value == holds {
        return Ok(());
    }
    if value == offered_by_aws {
        return Err(not_offered(refused));
    }
    Err(refuse(S3ErrorCode::MalformedXML, format!("\"{value}\" is no value of this setting; write \"{holds}\".")))
}

/// Takes a configuration that names no receiver (S3 API, PutBucketNotificationConfiguration).
pub(crate) async fn put_notification(
    _service: &Service,
    request: S3Request<PutBucketNotificationConfigurationInput>,
) -> S3Result<S3Response<PutBucketNotificationConfigurationOutput>> {
    body::prove(&request.headers)?;
    if request.input.notification_configuration != NotificationConfiguration::default() {
        return Err(not_offered("PutBucketNotificationConfiguration with a receiver"));
    }
    Ok(S3Response::new(PutBucketNotificationConfigurationOutput::default()))
}
