//! Settings of buckets that are not offered. Reading one answers that it is unset, as AWS answers for a bucket that
//! never had it. Removing one succeeds without effect. Putting one succeeds if its value changes nothing; any other
//! value is refused with the name of the setting.
//!
//! - A bucket has no encryption setting, although every bucket on AWS has one: content is not encrypted at rest here, and
//!   a document that says AES256 would be false (decision 0064).

use s3s::dto::{
    AbacStatus, BucketAbacStatus, BucketAccelerateStatus, GetBucketAbacInput, GetBucketAbacOutput,
    GetBucketAnalyticsConfigurationInput, GetBucketEncryptionInput, GetBucketIntelligentTieringConfigurationInput,
    GetBucketInventoryConfigurationInput, GetBucketMetadataConfigurationInput,
    GetBucketMetadataTableConfigurationInput, GetBucketMetricsConfigurationInput, GetBucketReplicationInput,
    GetObjectTorrentInput, ListBucketAnalyticsConfigurationsInput, ListBucketAnalyticsConfigurationsOutput,
    ListBucketIntelligentTieringConfigurationsInput, ListBucketIntelligentTieringConfigurationsOutput,
    ListBucketInventoryConfigurationsInput, ListBucketInventoryConfigurationsOutput,
    ListBucketMetricsConfigurationsInput, ListBucketMetricsConfigurationsOutput, NotificationConfiguration, Payer,
    PutBucketAbacInput, PutBucketAccelerateConfigurationInput, PutBucketNotificationConfigurationInput,
    PutBucketRequestPaymentInput,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use crate::error::{custom, not_offered, plain, refuse};
use crate::service::{Call, Service};

/// A request that reads a setting, and what AWS answers while that setting is not there.
pub(crate) trait Absent {
    /// The refusal.
    fn refusal() -> S3Error;
}

/// A request that puts a setting.
pub(crate) trait Harmless {
    /// Refuses a value that would change something, or that is none.
    fn check(&self) -> S3Result<()>;
}

/// Answers an empty document, or, for a removal, that nothing is set any more.
pub(crate) async fn empty<I: Send, O: Default>(_service: &Service, _request: S3Request<I>) -> S3Result<S3Response<O>> {
    Ok(S3Response::new(O::default()))
}

/// Answers that the setting is not there.
pub(crate) async fn absent<I: Absent + Send, O>(_service: &Service, _request: S3Request<I>) -> S3Result<S3Response<O>> {
    Err(I::refusal())
}

/// Takes a setting that holds anyway.
pub(crate) async fn put<I: Harmless + Send, O: Default>(call: &Call, request: S3Request<I>) -> S3Result<S3Response<O>> {
    call.request.prove(&request.headers)?;
    request.input.check()?;
    Ok(S3Response::new(O::default()))
}

/// The refusal of each kind of request that reads a setting.
macro_rules! refusals {
    ($($input:ty => $refusal:expr;)*) => {
        $(impl Absent for $input {
            fn refusal() -> S3Error {
                $refusal
            }
        })*
    };
}

refusals! {
    GetBucketEncryptionInput => plain(custom("ServerSideEncryptionConfigurationNotFoundError"));
    GetBucketReplicationInput => plain(custom("ReplicationConfigurationNotFoundError"));
    GetBucketMetadataConfigurationInput => plain(custom("MetadataConfigurationNotFound"));
    GetBucketMetadataTableConfigurationInput => plain(custom("MetadataConfigurationNotFound"));
    GetBucketAnalyticsConfigurationInput => plain(custom("NoSuchConfiguration"));
    GetBucketIntelligentTieringConfigurationInput => plain(custom("NoSuchConfiguration"));
    GetBucketInventoryConfigurationInput => plain(custom("NoSuchConfiguration"));
    GetBucketMetricsConfigurationInput => plain(custom("NoSuchConfiguration"));
    GetObjectTorrentInput => refuse(S3ErrorCode::NoSuchKey, "No object has a torrent here.");
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

/// Answers that tags decide on no access (S3 API, GetBucketAbac).
pub(crate) async fn abac(
    _service: &Service,
    _request: S3Request<GetBucketAbacInput>,
) -> S3Result<S3Response<GetBucketAbacOutput>> {
    let status = Some(BucketAbacStatus::from_static(BucketAbacStatus::DISABLED));
    Ok(S3Response::new(GetBucketAbacOutput { abac_status: Some(AbacStatus { status }) }))
}

impl Harmless for PutBucketAbacInput {
    fn check(&self) -> S3Result<()> {
        let status = self.abac_status.status.as_ref().map(BucketAbacStatus::as_str).unwrap_or_default();
        one_of(status, BucketAbacStatus::DISABLED, BucketAbacStatus::ENABLED, "PutBucketAbac with the status Enabled")
    }
}

impl Harmless for PutBucketAccelerateConfigurationInput {
    fn check(&self) -> S3Result<()> {
        let status = self.accelerate_configuration.status.as_ref();
        let status = status.map(BucketAccelerateStatus::as_str).unwrap_or_default();
        let refused = "PutBucketAccelerateConfiguration with the status Enabled";
        one_of(status, BucketAccelerateStatus::SUSPENDED, BucketAccelerateStatus::ENABLED, refused)
    }
}

impl Harmless for PutBucketRequestPaymentInput {
    fn check(&self) -> S3Result<()> {
        let payer = self.request_payment_configuration.payer.as_str();
        one_of(payer, Payer::BUCKET_OWNER, Payer::REQUESTER, "PutBucketRequestPayment with the payer Requester")
    }
}

impl Harmless for PutBucketNotificationConfigurationInput {
    fn check(&self) -> S3Result<()> {
        let unset = self.notification_configuration == NotificationConfiguration::default();
        if unset { Ok(()) } else { Err(not_offered("PutBucketNotificationConfiguration with a receiver")) }
    }
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
