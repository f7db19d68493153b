//! Settings of a bucket made through S3: policy, tags, CORS, lifecycle, object lock and the like.
//!
//! - All settings are one record beside the bucket's, so a change of one setting cannot tear another.
//! - The bucket's record counts the changes (`settings`); zero means there never was one, and nothing is read.
//! - Documents that only the S3 endpoint interprets (the policy) are stored as received; settings that the store itself
//!   uses (lifecycle, object lock) are stored as values.

use std::collections::BTreeMap;

use prost::Message;

use super::access_list::AccessList;

/// The record of a bucket's settings.
#[derive(Clone, PartialEq, Message)]
pub struct Settings {
    /// The bucket policy: a JSON document (S3 API, PutBucketPolicy).
    #[prost(string, optional, tag = "1")]
    pub policy: Option<String>,
    /// Public access block; absent until it is first put or deleted: until then the server's default applies.
    #[prost(message, optional, tag = "2")]
    pub public_access: Option<PublicAccess>,
    /// Object ownership as it was put; absent is the default, `BucketOwnerEnforced`.
    #[prost(message, optional, tag = "3")]
    pub ownership: Option<Ownership>,
    /// CORS rules, of which the first match decides (S3 API, PutBucketCors).
    #[prost(message, repeated, tag = "4")]
    pub cors: Vec<CorsRule>,
    /// Tags of the bucket (S3 API, PutBucketTagging).
    #[prost(btree_map = "string, string", tag = "5")]
    pub tags: BTreeMap<String, String>,
    /// Lifecycle rules (S3 API, PutBucketLifecycleConfiguration).
    #[prost(message, repeated, tag = "6")]
    pub lifecycle: Vec<LifecycleRule>,
    /// Object lock; absent if it was never enabled for the bucket. It cannot be disabled.
    #[prost(message, optional, tag = "7")]
    pub object_lock: Option<ObjectLock>,
    /// The accounts that the policy names, with their ids when it was put: an account that gets such a name later is
    /// not meant.
    #[prost(btree_map = "string, uint64", tag = "8")]
    pub policy_accounts: BTreeMap<String, u64>,
    /// TransitionDefaultMinimumObjectSize, as it was put with the lifecycle rules; it has no effect.
    #[prost(string, optional, tag = "9")]
    pub lifecycle_minimum: Option<String>,
    /// A number taken when the policy was put, from the counter that also gives account ids: accounts created later
    /// have larger ids.
    #[prost(uint64, tag = "10")]
    pub policy_since: u64,
    /// Where the bucket's access log is delivered; absent is nowhere (S3 API, PutBucketLogging).
    #[prost(message, optional, tag = "14")]
    pub logging: Option<Logging>,
    /// The static website of the bucket; absent is none (S3 API, PutBucketWebsite).
    #[prost(message, optional, tag = "15")]
    pub website: Option<Website>,
    /// The bucket's access control list; none is `private`. It is in force where the object ownership enables ACLs.
    #[prost(message, optional, tag = "16")]
    pub acl: Option<AccessList>,
}

/// A static website (S3 API, WebsiteConfiguration).
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Website {
    /// IndexDocument: what is added to the key of a folder.
    #[prost(string, optional, tag = "1")]
    pub index: Option<String>,
    /// ErrorDocument: the key of the object that errors are answered with.
    #[prost(string, optional, tag = "2")]
    pub error: Option<String>,
    /// RedirectAllRequestsTo
    #[prost(message, optional, tag = "3")]
    pub redirect_all: Option<RedirectAll>,
    /// RoutingRules; the first whose condition holds decides.
    #[prost(message, repeated, tag = "4")]
    pub rules: Vec<RoutingRule>,
}

/// Where all requests of a website are redirected (S3 API, RedirectAllRequestsTo).
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RedirectAll {
    /// HostName
    #[prost(string, tag = "1")]
    pub host: String,
    /// Protocol; absent is that of the request.
    #[prost(string, optional, tag = "2")]
    pub protocol: Option<String>,
}

/// A routing rule of a website (S3 API, RoutingRule).
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RoutingRule {
    /// KeyPrefixEquals
    #[prost(string, optional, tag = "1")]
    pub key_prefix: Option<String>,
    /// HttpErrorCodeReturnedEquals
    #[prost(uint32, optional, tag = "2")]
    pub error_code: Option<u32>,
    /// HostName; absent is that of the request.
    #[prost(string, optional, tag = "3")]
    pub host: Option<String>,
    /// HttpRedirectCode; absent is 301.
    #[prost(uint32, optional, tag = "4")]
    pub redirect_code: Option<u32>,
    /// Protocol; absent is that of the request.
    #[prost(string, optional, tag = "5")]
    pub protocol: Option<String>,
    /// ReplaceKeyPrefixWith
    #[prost(string, optional, tag = "6")]
    pub replace_prefix: Option<String>,
    /// ReplaceKeyWith
    #[prost(string, optional, tag = "7")]
    pub replace_key: Option<String>,
}

/// Server access logging of a bucket (S3 API, LoggingEnabled).
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Logging {
    /// TargetBucket
    #[prost(string, tag = "1")]
    pub target: String,
    /// TargetPrefix
    #[prost(string, tag = "2")]
    pub prefix: String,
    /// TargetObjectKeyFormat
    #[prost(enumeration = "LogKeyFormat", tag = "3")]
    pub key_format: i32,
}

/// How log objects are named (S3 API, TargetObjectKeyFormat).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum LogKeyFormat {
    /// No format was given; the keys are those of `SimplePrefix`.
    Unset = 0,
    /// `SimplePrefix`
    Simple = 1,
    /// `PartitionedPrefix` by the time of the requests.
    EventTime = 2,
    /// `PartitionedPrefix` by the time of the delivery.
    DeliveryTime = 3,
}

/// Public access block (S3 API, PutPublicAccessBlock).
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct PublicAccess {
    /// The field BlockPublicAcls.
    #[prost(bool, tag = "1")]
    pub block_acls: bool,
    /// The field IgnorePublicAcls.
    #[prost(bool, tag = "2")]
    pub ignore_acls: bool,
    /// The field BlockPublicPolicy: a policy that makes the bucket public is refused.
    #[prost(bool, tag = "3")]
    pub block_policy: bool,
    /// The field RestrictPublicBuckets: a bucket with a public policy can be accessed by its owner's account only.
    #[prost(bool, tag = "4")]
    pub restrict_buckets: bool,
    /// Whether the configuration was deleted: then none of the four applies, and there is no configuration to get.
    #[prost(bool, tag = "5")]
    pub deleted: bool,
}

/// Object ownership (S3 API, PutBucketOwnershipControls).
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Ownership {
    /// The rule; empty after an earlier version deleted it, which left `BucketOwnerEnforced` in force.
    #[prost(string, tag = "1")]
    pub rule: String,
    /// Whether there is no configuration to get: it was deleted, and `rule` is what holds since.
    #[prost(bool, tag = "2")]
    pub deleted: bool,
}

/// A CORS rule (S3 API, CORSRule).
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CorsRule {
    /// The field ID.
    #[prost(string, optional, tag = "1")]
    pub id: Option<String>,
    /// The field AllowedOrigin; each value has at most one `*`.
    #[prost(string, repeated, tag = "2")]
    pub origins: Vec<String>,
    /// The field AllowedMethod.
    #[prost(string, repeated, tag = "3")]
    pub methods: Vec<String>,
    /// The field AllowedHeader; each value has at most one `*`.
    #[prost(string, repeated, tag = "4")]
    pub headers: Vec<String>,
    /// The field ExposeHeader.
    #[prost(string, repeated, tag = "5")]
    pub expose: Vec<String>,
    /// The field MaxAgeSeconds.
    #[prost(int32, optional, tag = "6")]
    pub max_age_seconds: Option<i32>,
}

/// A lifecycle rule (S3 API, LifecycleRule).
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LifecycleRule {
    /// The field ID, unique in the bucket.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Whether the rule is applied.
    #[prost(bool, tag = "2")]
    pub enabled: bool,
    /// Which objects the rule applies to.
    #[prost(message, optional, tag = "3")]
    pub filter: Option<LifecycleFilter>,
    /// After how many days current versions expire.
    #[prost(uint32, optional, tag = "4")]
    pub expire_days: Option<u32>,
    /// The date from which current versions expire, in nanoseconds since 1970.
    #[prost(sfixed64, optional, tag = "5")]
    pub expire_date: Option<i64>,
    /// Whether delete markers that are a key's only version are removed.
    #[prost(bool, optional, tag = "6")]
    pub expire_markers: Option<bool>,
    /// After how many days noncurrent versions expire.
    #[prost(uint32, optional, tag = "7")]
    pub noncurrent_days: Option<u32>,
    /// How many of the newest noncurrent versions are kept nevertheless.
    #[prost(uint32, optional, tag = "8")]
    pub noncurrent_kept: Option<u32>,
    /// After how many days uploads are aborted.
    #[prost(uint32, optional, tag = "9")]
    pub abort_upload_days: Option<u32>,
}

/// Which objects a lifecycle rule applies to: an object has to meet every condition that is set.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LifecycleFilter {
    /// The prefix that keys have to begin with.
    #[prost(string, optional, tag = "1")]
    pub prefix: Option<String>,
    /// The tags that objects must have.
    #[prost(btree_map = "string, string", tag = "2")]
    pub tags: BTreeMap<String, String>,
    /// Objects have to be larger than this, in bytes.
    #[prost(uint64, optional, tag = "3")]
    pub size_above: Option<u64>,
    /// Objects have to be smaller than this, in bytes.
    #[prost(uint64, optional, tag = "4")]
    pub size_below: Option<u64>,
    /// Whether the prefix was written in the rule itself, without a filter, so that it is returned in the same form.
    #[prost(bool, tag = "5")]
    pub bare_prefix: bool,
    /// Whether the filter was written as `And`, so that it is returned in the same form.
    #[prost(bool, tag = "6")]
    pub and: bool,
}

/// Object lock of a bucket (S3 API, PutObjectLockConfiguration).
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ObjectLock {
    /// The retention of new objects; absent if there is none.
    #[prost(message, optional, tag = "1")]
    pub default: Option<DefaultRetention>,
}

/// The retention that new objects of a bucket get.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct DefaultRetention {
    /// The retention mode: a [`RetentionMode`](super::inode::RetentionMode).
    #[prost(enumeration = "super::inode::RetentionMode", tag = "1")]
    pub mode: i32,
    /// Its length in days; absent if it is in years.
    #[prost(uint32, optional, tag = "2")]
    pub days: Option<u32>,
    /// Its length in years of 365 days; absent if it is in days.
    #[prost(uint32, optional, tag = "3")]
    pub years: Option<u32>,
}

impl DefaultRetention {
    /// The length of the retention, in days.
    pub fn in_days(&self) -> u32 {
        self.days.unwrap_or_default().saturating_add(self.years.unwrap_or_default().saturating_mul(365))
    }
}
