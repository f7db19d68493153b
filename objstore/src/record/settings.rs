//! Settings of a bucket made through S3: policy, tags, CORS, lifecycle, object lock and the like.
//!
//! - All settings are one record beside the bucket's, so a change of one setting cannot tear another.
//! - The bucket's record counts the changes (`settings`); zero means there never was one, and nothing is read.
//! - Documents that only the S3 endpoint interprets (the policy) are stored as received; settings that the store itself
//!   uses (lifecycle, object lock) are stored as values.

use std::collections::BTreeMap;

use prost::Message;

/// The settings of a bucket.
#[derive(Clone, PartialEq, Message)]
pub struct Settings {
    /// The bucket policy: a JSON document (S3 API, PutBucketPolicy).
    #[prost(string, optional, tag = "1")]
    pub policy: Option<String>,
    /// Public access block; absent until it is first put or deleted: then the server's default holds.
    #[prost(message, optional, tag = "2")]
    pub public_access: Option<PublicAccess>,
    /// Object ownership as it was put; absent is the default. The one value in force is `BucketOwnerEnforced`.
    #[prost(message, optional, tag = "3")]
    pub ownership: Option<Ownership>,
    /// CORS rules, the first match decides (S3 API, PutBucketCors).
    #[prost(message, repeated, tag = "4")]
    pub cors: Vec<CorsRule>,
    /// Tags of the bucket (S3 API, PutBucketTagging).
    #[prost(btree_map = "string, string", tag = "5")]
    pub tags: BTreeMap<String, String>,
    /// Lifecycle rules (S3 API, PutBucketLifecycleConfiguration).
    #[prost(message, repeated, tag = "6")]
    pub lifecycle: Vec<LifecycleRule>,
    /// Object lock; absent if the bucket was not made or set for it. It is never taken back.
    #[prost(message, optional, tag = "7")]
    pub object_lock: Option<ObjectLock>,
    /// The accounts the policy names, with their ids when it was put: another account that takes a name later is not
    /// the one that was meant.
    #[prost(btree_map = "string, uint64", tag = "8")]
    pub policy_accounts: BTreeMap<String, u64>,
    /// TransitionDefaultMinimumObjectSize as it was put with the lifecycle rules; nothing depends on it.
    #[prost(string, optional, tag = "9")]
    pub lifecycle_minimum: Option<String>,
    /// A number given when the policy was put, from the same count as ids of accounts: those made later have larger ids.
    #[prost(uint64, tag = "10")]
    pub policy_since: u64,
}

/// Public access block (S3 API, PutPublicAccessBlock).
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct PublicAccess {
    /// BlockPublicAcls
    #[prost(bool, tag = "1")]
    pub block_acls: bool,
    /// IgnorePublicAcls
    #[prost(bool, tag = "2")]
    pub ignore_acls: bool,
    /// BlockPublicPolicy: a policy that makes the bucket public is refused.
    #[prost(bool, tag = "3")]
    pub block_policy: bool,
    /// RestrictPublicBuckets: of a bucket with a public policy only its owner's account has access.
    #[prost(bool, tag = "4")]
    pub restrict_buckets: bool,
    /// It was deleted: none of the four holds, and there is no configuration to get.
    #[prost(bool, tag = "5")]
    pub deleted: bool,
}

/// Object ownership (S3 API, PutBucketOwnershipControls).
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Ownership {
    /// The rule; empty after it was deleted.
    #[prost(string, tag = "1")]
    pub rule: String,
}

/// A CORS rule (S3 API, CORSRule).
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CorsRule {
    /// ID
    #[prost(string, optional, tag = "1")]
    pub id: Option<String>,
    /// AllowedOrigin, each with at most one `*`
    #[prost(string, repeated, tag = "2")]
    pub origins: Vec<String>,
    /// AllowedMethod
    #[prost(string, repeated, tag = "3")]
    pub methods: Vec<String>,
    /// AllowedHeader, each with at most one `*`
    #[prost(string, repeated, tag = "4")]
    pub headers: Vec<String>,
    /// ExposeHeader
    #[prost(string, repeated, tag = "5")]
    pub expose: Vec<String>,
    /// MaxAgeSeconds
    #[prost(int32, optional, tag = "6")]
    pub max_age_seconds: Option<i32>,
}

/// A lifecycle rule (S3 API, LifecycleRule).
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LifecycleRule {
    /// ID, unlike all others of the bucket
    #[prost(string, tag = "1")]
    pub id: String,
    /// Whether the rule is applied
    #[prost(bool, tag = "2")]
    pub enabled: bool,
    /// What it applies to
    #[prost(message, optional, tag = "3")]
    pub filter: Option<LifecycleFilter>,
    /// Expire current versions so many days after they were made
    #[prost(uint32, optional, tag = "4")]
    pub expire_days: Option<u32>,
    /// Expire current versions from this date on, nanoseconds since 1970
    #[prost(sfixed64, optional, tag = "5")]
    pub expire_date: Option<i64>,
    /// Remove delete markers that are a key's only version
    #[prost(bool, optional, tag = "6")]
    pub expire_markers: Option<bool>,
    /// Expire noncurrent versions so many days after they became noncurrent
    #[prost(uint32, optional, tag = "7")]
    pub noncurrent_days: Option<u32>,
    /// But keep this many of the newest noncurrent ones
    #[prost(uint32, optional, tag = "8")]
    pub noncurrent_kept: Option<u32>,
    /// Abort uploads so many days after they were begun
    #[prost(uint32, optional, tag = "9")]
    pub abort_upload_days: Option<u32>,
}

/// What a lifecycle rule applies to: all that is set has to hold.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LifecycleFilter {
    /// Keys that begin so
    #[prost(string, optional, tag = "1")]
    pub prefix: Option<String>,
    /// Objects that have all these tags
    #[prost(btree_map = "string, string", tag = "2")]
    pub tags: BTreeMap<String, String>,
    /// Objects larger than this, in bytes
    #[prost(uint64, optional, tag = "3")]
    pub size_above: Option<u64>,
    /// Objects smaller than this, in bytes
    #[prost(uint64, optional, tag = "4")]
    pub size_below: Option<u64>,
    /// How the filter was written, so that it is given back so: the prefix in the rule itself, before there were filters
    #[prost(bool, tag = "5")]
    pub bare_prefix: bool,
    /// Whether it was written as `And`
    #[prost(bool, tag = "6")]
    pub and: bool,
}

/// Object lock of a bucket (S3 API, PutObjectLockConfiguration).
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ObjectLock {
    /// Retention of new objects; absent is none.
    #[prost(message, optional, tag = "1")]
    pub default: Option<DefaultRetention>,
}

/// Default retention.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct DefaultRetention {
    /// Its mode.
    #[prost(enumeration = "super::inode::RetentionMode", tag = "1")]
    pub mode: i32,
    /// Days; or years.
    #[prost(uint32, optional, tag = "2")]
    pub days: Option<u32>,
    /// Years of 365 days; or days.
    #[prost(uint32, optional, tag = "3")]
    pub years: Option<u32>,
}

impl DefaultRetention {
    /// How long objects are retained, in days.
    pub fn in_days(&self) -> u32 {
        self.days.unwrap_or_default().saturating_add(self.years.unwrap_or_default().saturating_mul(365))
    }
}
