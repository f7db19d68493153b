//! The table of S3 operations: each is delegated to the module of its resource.

use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result};

use crate::service::Call;
use crate::{access, bucket, cors, lifecycle, listing, lock, multipart, object, payment, unset};

/// The operations, for one request.
pub(crate) struct Operations(pub(crate) Call);

/// Defines one delegating method for each supported operation. All others stay `NotImplemented`; `access` refuses them
/// by name before they are reached.
macro_rules! operations {
    ($($method:ident: $input:ident -> $output:ident = $family:path;)*) => {
        #[async_trait::async_trait]
        impl S3 for Operations {
            $(async fn $method(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                let Self(call) = self;
                match $family(call, request).await {
                    Err(error) => call.request.noted(Err(access::hide_absent(call, error).await)),
                    done => done,
                }
            })*
        }
    };
}

operations! {
    list_buckets: ListBucketsInput -> ListBucketsOutput = bucket::list;
    create_bucket: CreateBucketInput -> CreateBucketOutput = bucket::create;
    head_bucket: HeadBucketInput -> HeadBucketOutput = bucket::head;
    delete_bucket: DeleteBucketInput -> DeleteBucketOutput = bucket::delete;
    get_bucket_location: GetBucketLocationInput -> GetBucketLocationOutput = bucket::location;
    get_bucket_versioning: GetBucketVersioningInput -> GetBucketVersioningOutput = bucket::versioning;
    get_bucket_request_payment: GetBucketRequestPaymentInput -> GetBucketRequestPaymentOutput = payment::get;
    put_bucket_versioning: PutBucketVersioningInput -> PutBucketVersioningOutput = bucket::set_versioning;
    get_bucket_tagging: GetBucketTaggingInput -> GetBucketTaggingOutput = bucket::tagging::get;
    put_bucket_tagging: PutBucketTaggingInput -> PutBucketTaggingOutput = bucket::tagging::put;
    delete_bucket_tagging: DeleteBucketTaggingInput -> DeleteBucketTaggingOutput = bucket::tagging::delete;
    get_bucket_cors: GetBucketCorsInput -> GetBucketCorsOutput = cors::get;
    put_bucket_cors: PutBucketCorsInput -> PutBucketCorsOutput = cors::put;
    delete_bucket_cors: DeleteBucketCorsInput -> DeleteBucketCorsOutput = cors::delete;

    get_bucket_policy: GetBucketPolicyInput -> GetBucketPolicyOutput = bucket::policy::get;
    put_bucket_policy: PutBucketPolicyInput -> PutBucketPolicyOutput = bucket::policy::put;
    delete_bucket_policy: DeleteBucketPolicyInput -> DeleteBucketPolicyOutput = bucket::policy::delete;
    get_bucket_policy_status: GetBucketPolicyStatusInput -> GetBucketPolicyStatusOutput = bucket::policy::status;
    get_public_access_block: GetPublicAccessBlockInput -> GetPublicAccessBlockOutput = bucket::public_access::get;
    put_public_access_block: PutPublicAccessBlockInput -> PutPublicAccessBlockOutput = bucket::public_access::put;
    delete_public_access_block: DeletePublicAccessBlockInput -> DeletePublicAccessBlockOutput = bucket::public_access::delete;
    get_bucket_ownership_controls: GetBucketOwnershipControlsInput -> GetBucketOwnershipControlsOutput = bucket::ownership::get;
    put_bucket_ownership_controls: PutBucketOwnershipControlsInput -> PutBucketOwnershipControlsOutput = bucket::ownership::put;
    delete_bucket_ownership_controls: DeleteBucketOwnershipControlsInput -> DeleteBucketOwnershipControlsOutput = bucket::ownership::delete;
    get_bucket_acl: GetBucketAclInput -> GetBucketAclOutput = bucket::acl::get;
    put_bucket_acl: PutBucketAclInput -> PutBucketAclOutput = bucket::acl::put;
    get_object_acl: GetObjectAclInput -> GetObjectAclOutput = object::acl::get;
    put_object_acl: PutObjectAclInput -> PutObjectAclOutput = object::acl::put;

    get_bucket_lifecycle_configuration: GetBucketLifecycleConfigurationInput -> GetBucketLifecycleConfigurationOutput = lifecycle::get;
    put_bucket_lifecycle_configuration: PutBucketLifecycleConfigurationInput -> PutBucketLifecycleConfigurationOutput = lifecycle::put;
    delete_bucket_lifecycle: DeleteBucketLifecycleInput -> DeleteBucketLifecycleOutput = lifecycle::delete;

    get_bucket_encryption: GetBucketEncryptionInput -> GetBucketEncryptionOutput = unset::absent;
    delete_bucket_encryption: DeleteBucketEncryptionInput -> DeleteBucketEncryptionOutput = unset::empty;
    get_bucket_replication: GetBucketReplicationInput -> GetBucketReplicationOutput = unset::absent;
    delete_bucket_replication: DeleteBucketReplicationInput -> DeleteBucketReplicationOutput = unset::empty;
    get_bucket_website: GetBucketWebsiteInput -> GetBucketWebsiteOutput = bucket::website::get;
    delete_bucket_website: DeleteBucketWebsiteInput -> DeleteBucketWebsiteOutput = bucket::website::delete;
    put_bucket_website: PutBucketWebsiteInput -> PutBucketWebsiteOutput = bucket::website::put;
    get_bucket_metadata_configuration: GetBucketMetadataConfigurationInput -> GetBucketMetadataConfigurationOutput = unset::absent;
    delete_bucket_metadata_configuration: DeleteBucketMetadataConfigurationInput -> DeleteBucketMetadataConfigurationOutput = unset::empty;
    get_bucket_metadata_table_configuration: GetBucketMetadataTableConfigurationInput -> GetBucketMetadataTableConfigurationOutput = unset::absent;
    delete_bucket_metadata_table_configuration: DeleteBucketMetadataTableConfigurationInput -> DeleteBucketMetadataTableConfigurationOutput = unset::empty;
    get_bucket_analytics_configuration: GetBucketAnalyticsConfigurationInput -> GetBucketAnalyticsConfigurationOutput = unset::absent;
    list_bucket_analytics_configurations: ListBucketAnalyticsConfigurationsInput -> ListBucketAnalyticsConfigurationsOutput = unset::analytics;
    delete_bucket_analytics_configuration: DeleteBucketAnalyticsConfigurationInput -> DeleteBucketAnalyticsConfigurationOutput = unset::empty;
    get_bucket_intelligent_tiering_configuration: GetBucketIntelligentTieringConfigurationInput -> GetBucketIntelligentTieringConfigurationOutput = unset::absent;
    list_bucket_intelligent_tiering_configurations: ListBucketIntelligentTieringConfigurationsInput -> ListBucketIntelligentTieringConfigurationsOutput = unset::intelligent_tiering;
    delete_bucket_intelligent_tiering_configuration: DeleteBucketIntelligentTieringConfigurationInput -> DeleteBucketIntelligentTieringConfigurationOutput = unset::empty;
    get_bucket_inventory_configuration: GetBucketInventoryConfigurationInput -> GetBucketInventoryConfigurationOutput = unset::absent;
    list_bucket_inventory_configurations: ListBucketInventoryConfigurationsInput -> ListBucketInventoryConfigurationsOutput = unset::inventory;
    delete_bucket_inventory_configuration: DeleteBucketInventoryConfigurationInput -> DeleteBucketInventoryConfigurationOutput = unset::empty;
    get_bucket_metrics_configuration: GetBucketMetricsConfigurationInput -> GetBucketMetricsConfigurationOutput = unset::absent;
    list_bucket_metrics_configurations: ListBucketMetricsConfigurationsInput -> ListBucketMetricsConfigurationsOutput = unset::metrics;
    delete_bucket_metrics_configuration: DeleteBucketMetricsConfigurationInput -> DeleteBucketMetricsConfigurationOutput = unset::empty;
    get_bucket_notification_configuration: GetBucketNotificationConfigurationInput -> GetBucketNotificationConfigurationOutput = unset::empty;
    put_bucket_notification_configuration: PutBucketNotificationConfigurationInput -> PutBucketNotificationConfigurationOutput = unset::put;
    get_bucket_logging: GetBucketLoggingInput -> GetBucketLoggingOutput = bucket::logging::get;
    put_bucket_logging: PutBucketLoggingInput -> PutBucketLoggingOutput = bucket::logging::put;
    get_bucket_accelerate_configuration: GetBucketAccelerateConfigurationInput -> GetBucketAccelerateConfigurationOutput = unset::empty;
    put_bucket_accelerate_configuration: PutBucketAccelerateConfigurationInput -> PutBucketAccelerateConfigurationOutput = unset::put;
    put_bucket_request_payment: PutBucketRequestPaymentInput -> PutBucketRequestPaymentOutput = unset::put;
    get_bucket_abac: GetBucketAbacInput -> GetBucketAbacOutput = unset::abac;
    put_bucket_abac: PutBucketAbacInput -> PutBucketAbacOutput = unset::put;
    get_object_torrent: GetObjectTorrentInput -> GetObjectTorrentOutput = unset::absent;

    put_object: PutObjectInput -> PutObjectOutput = object::put::put;
    get_object: GetObjectInput -> GetObjectOutput = object::get::get;
    head_object: HeadObjectInput -> HeadObjectOutput = object::get::head;
    get_object_attributes: GetObjectAttributesInput -> GetObjectAttributesOutput = object::attributes::attributes;
    get_object_lock_configuration: GetObjectLockConfigurationInput -> GetObjectLockConfigurationOutput = lock::configuration;
    put_object_lock_configuration: PutObjectLockConfigurationInput -> PutObjectLockConfigurationOutput = lock::set_configuration;
    restore_object: RestoreObjectInput -> RestoreObjectOutput = object::restore::restore;
    get_object_retention: GetObjectRetentionInput -> GetObjectRetentionOutput = lock::retention;
    put_object_retention: PutObjectRetentionInput -> PutObjectRetentionOutput = lock::set_retention;
    get_object_legal_hold: GetObjectLegalHoldInput -> GetObjectLegalHoldOutput = lock::legal_hold;
    put_object_legal_hold: PutObjectLegalHoldInput -> PutObjectLegalHoldOutput = lock::set_legal_hold;

    delete_object: DeleteObjectInput -> DeleteObjectOutput = object::delete::one;
    delete_objects: DeleteObjectsInput -> DeleteObjectsOutput = object::delete::many;
    copy_object: CopyObjectInput -> CopyObjectOutput = object::copy::copy;
    get_object_tagging: GetObjectTaggingInput -> GetObjectTaggingOutput = object::tagging::get;
    put_object_tagging: PutObjectTaggingInput -> PutObjectTaggingOutput = object::tagging::put;
    delete_object_tagging: DeleteObjectTaggingInput -> DeleteObjectTaggingOutput = object::tagging::delete;

    list_objects: ListObjectsInput -> ListObjectsOutput = listing::objects;
    list_objects_v2: ListObjectsV2Input -> ListObjectsV2Output = listing::objects_v2;
    list_object_versions: ListObjectVersionsInput -> ListObjectVersionsOutput = listing::versions;

    create_multipart_upload: CreateMultipartUploadInput -> CreateMultipartUploadOutput = multipart::upload::create;
    abort_multipart_upload: AbortMultipartUploadInput -> AbortMultipartUploadOutput = multipart::upload::abort;
    list_multipart_uploads: ListMultipartUploadsInput -> ListMultipartUploadsOutput = multipart::upload::list;
    upload_part: UploadPartInput -> UploadPartOutput = multipart::part::put;
    upload_part_copy: UploadPartCopyInput -> UploadPartCopyOutput = multipart::part::copy;
    list_parts: ListPartsInput -> ListPartsOutput = multipart::part::list;
    complete_multipart_upload: CompleteMultipartUploadInput -> CompleteMultipartUploadOutput = multipart::complete::complete;
}
