//! Every S3 operation with its requirement, and a request for it that would change something if it were allowed.

use super::callers::{BUCKET, Caller};
use crate::signatures::Request;

/// What an operation requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Any valid key.
    Key,
    /// An account that may create buckets.
    Creator,
    /// Any grant on the bucket.
    Any,
    Read,
    Write,
    /// Reading and writing, for a copy within the bucket.
    ReadAndWrite,
    Own,
}

impl Needs {
    /// Whether a caller meets the requirement.
    pub fn met_by(self, caller: Caller) -> bool {
        use Caller::{Both, Foreign, Keeper, Owner, Reader, Root, Ungranted, Writer};
        let all = [Root, Owner, Keeper];
        match self {
            Self::Key => all.contains(&caller) || [Both, Reader, Writer, Foreign, Ungranted].contains(&caller),
            Self::Creator => [Root, Owner, Foreign].contains(&caller),
            Self::Any => all.contains(&caller) || [Both, Reader, Writer].contains(&caller),
            Self::Read => all.contains(&caller) || [Both, Reader].contains(&caller),
            Self::Write => all.contains(&caller) || [Both, Writer].contains(&caller),
            Self::ReadAndWrite => all.contains(&caller) || caller == Both,
            Self::Own => all.contains(&caller),
        }
    }
}

/// What has to exist before the request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    Nothing,
    /// A name that no bucket has, for `{bucket}`.
    Name,
    /// A bucket like `vessel`, for `{bucket}`.
    Bucket,
    /// An upload of `mpu`, for `{upload}`.
    Upload,
    /// An upload of `mpu` with a part, for `{upload}` and `{etag}`.
    Part,
}

/// An operation of the table.
pub struct Row {
    pub name: &'static str,
    pub needs: Needs,
    pub before: Before,
    pub request: Request,
    /// The error code for an allowed caller if the setting is not set.
    pub unset: Option<&'static str>,
}

fn row(name: &'static str, needs: Needs, method: &'static str, target: &str) -> Row {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = path.replace("/b", &format!("/{BUCKET}"));
    let request = Request::new(method, path).query(query);
    Row { name, needs, before: Before::Nothing, request, unset: None }
}

impl Row {
    fn body(self, body: &str) -> Self {
        Self { request: self.request.body(body), ..self }
    }

    fn header(self, name: &'static str, value: &str) -> Self {
        Self { request: self.request.header(name, value), ..self }
    }

    fn before(self, before: Before) -> Self {
        Self { before, ..self }
    }

    fn unset(self, code: &'static str) -> Self {
        Self { unset: Some(code), ..self }
    }
}

const TAGS: &str = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
const CORS: &str = "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>\
                    </CORSRule></CORSConfiguration>";
const LIFECYCLE: &str = "<LifecycleConfiguration><Rule><ID>r</ID><Filter><Prefix>never/</Prefix></Filter>\
                         <Status>Enabled</Status><Expiration><Days>9999</Days></Expiration></Rule></LifecycleConfiguration>";
const WEBSITE: &str = "<WebsiteConfiguration><IndexDocument><Suffix>i</Suffix></IndexDocument></WebsiteConfiguration>";
const VERSIONING: &str = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
const BLOCK: &str = "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls>\
                     <IgnorePublicAcls>true</IgnorePublicAcls><BlockPublicPolicy>true</BlockPublicPolicy>\
                     <RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>";
const OWNERSHIP: &str = "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule>\
                         </OwnershipControls>";
const LOCK: &str = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>";
const RETENTION: &str = "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2090-01-01T00:00:00Z</RetainUntilDate>\
                         </Retention>";
const HOLD: &str = "<LegalHold><Status>ON</Status></LegalHold>";
const DELETE: &str = "<Delete><Object><Key>put</Key></Object></Delete>";
const COMPLETE: &str = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>\
                        </CompleteMultipartUpload>";
/// A policy that applies to no caller, and one that applies to many until a past date.
pub const POLICY: &str = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject",
    "Principal": {"AWS": "owner"}, "Resource": "arn:aws:s3:::vessel/nothing/*"}, {"Effect": "Allow", "Action": "s3:*",
    "Principal": {"AWS": ["keeper", "both", "reader", "writer", "foreign", "ungranted"]},
    "Resource": ["arn:aws:s3:::vessel", "arn:aws:s3:::vessel/*"],
    "Condition": {"DateLessThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}}}]}"#;

/// Every operation. Those that put something come before those that get and delete it, so that each finds something.
pub fn rows() -> Vec<Row> {
    [of_buckets(), of_rules(), of_unset(), of_named(), of_objects(), of_uploads(), of_policies()]
        .into_iter()
        .flatten()
        .collect()
}

fn of_buckets() -> Vec<Row> {
    use Needs::{Any, Creator, Key, Own, Read};
    vec![
        row("ListBuckets", Key, "GET", "/"),
        row("CreateBucket", Creator, "PUT", "/{bucket}").before(Before::Name),
        row("HeadBucket", Any, "HEAD", "/b"),
        row("GetBucketLocation", Any, "GET", "/b?location="),
        row("DeleteBucket", Own, "DELETE", "/{bucket}").before(Before::Bucket),
        row("ListObjects", Read, "GET", "/b"),
        row("ListObjectsV2", Read, "GET", "/b?list-type=2"),
        row("ListObjectVersions", Read, "GET", "/b?versions="),
        row("ListMultipartUploads", Any, "GET", "/b?uploads="),
    ]
}

fn of_rules() -> Vec<Row> {
    use Needs::{Any, Own};
    vec![
        row("PutBucketVersioning", Own, "PUT", "/b?versioning=").body(VERSIONING),
        row("GetBucketVersioning", Any, "GET", "/b?versioning="),
        row("PutBucketTagging", Own, "PUT", "/b?tagging=").body(TAGS),
        row("GetBucketTagging", Any, "GET", "/b?tagging="),
        row("DeleteBucketTagging", Own, "DELETE", "/b?tagging="),
        row("PutBucketCors", Own, "PUT", "/b?cors=").body(CORS),
        row("GetBucketCors", Any, "GET", "/b?cors="),
        row("DeleteBucketCors", Own, "DELETE", "/b?cors="),
        row("PutBucketLifecycleConfiguration", Own, "PUT", "/b?lifecycle=").body(LIFECYCLE),
        row("GetBucketLifecycleConfiguration", Any, "GET", "/b?lifecycle="),
        row("DeleteBucketLifecycle", Own, "DELETE", "/b?lifecycle="),
        row("PutObjectLockConfiguration", Own, "PUT", "/b?object-lock=").body(LOCK),
        row("GetObjectLockConfiguration", Any, "GET", "/b?object-lock="),
        row("PutBucketWebsite", Own, "PUT", "/b?website=").body(WEBSITE),
        row("GetBucketWebsite", Any, "GET", "/b?website="),
        row("DeleteBucketWebsite", Own, "DELETE", "/b?website="),
        row("PutBucketLogging", Own, "PUT", "/b?logging=").body("<BucketLoggingStatus/>"),
        row("GetBucketLogging", Any, "GET", "/b?logging="),
        row("GetBucketRequestPayment", Any, "GET", "/b?requestPayment="),
        row("GetBucketAcl", Own, "GET", "/b?acl="),
        row("PutBucketAcl", Own, "PUT", "/b?acl=").header("x-amz-acl", "bucket-owner-full-control"),
        row("PutBucketOwnershipControls", Own, "PUT", "/b?ownershipControls=").body(OWNERSHIP),
        row("GetBucketOwnershipControls", Own, "GET", "/b?ownershipControls="),
        row("DeleteBucketOwnershipControls", Own, "DELETE", "/b?ownershipControls="),
    ]
}

fn of_unset() -> Vec<Row> {
    use Needs::{Any, Own, Read};
    let metadata = "MetadataConfigurationNotFound";
    vec![
        row("GetBucketEncryption", Any, "GET", "/b?encryption=")
            .unset("ServerSideEncryptionConfigurationNotFoundError"),
        row("DeleteBucketEncryption", Own, "DELETE", "/b?encryption="),
        row("GetBucketReplication", Any, "GET", "/b?replication=").unset("ReplicationConfigurationNotFoundError"),
        row("DeleteBucketReplication", Own, "DELETE", "/b?replication="),
        row("GetBucketMetadataConfiguration", Any, "GET", "/b?metadataConfiguration=").unset(metadata),
        row("DeleteBucketMetadataConfiguration", Own, "DELETE", "/b?metadataConfiguration="),
        row("GetBucketMetadataTableConfiguration", Any, "GET", "/b?metadataTable=").unset(metadata),
        row("DeleteBucketMetadataTableConfiguration", Own, "DELETE", "/b?metadataTable="),
        row("PutBucketNotificationConfiguration", Own, "PUT", "/b?notification=").body("<NotificationConfiguration/>"),
        row("GetBucketNotificationConfiguration", Any, "GET", "/b?notification="),
        row("PutBucketAccelerateConfiguration", Own, "PUT", "/b?accelerate=")
            .body("<AccelerateConfiguration><Status>Suspended</Status></AccelerateConfiguration>"),
        row("GetBucketAccelerateConfiguration", Any, "GET", "/b?accelerate="),
        row("PutBucketRequestPayment", Own, "PUT", "/b?requestPayment=")
            .body("<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>"),
        row("PutBucketAbac", Own, "PUT", "/b?abac=").body("<AbacStatus><Status>Disabled</Status></AbacStatus>"),
        row("GetBucketAbac", Any, "GET", "/b?abac="),
        row("GetObjectTorrent", Read, "GET", "/b/k?torrent=").unset("NoSuchKey"),
    ]
}

/// Settings of which a bucket has several, each with an id.
fn of_named() -> Vec<Row> {
    use Needs::{Any, Own};
    let absent = "NoSuchConfiguration";
    vec![
        row("GetBucketAnalyticsConfiguration", Any, "GET", "/b?analytics=&id=i").unset(absent),
        row("ListBucketAnalyticsConfigurations", Any, "GET", "/b?analytics="),
        row("DeleteBucketAnalyticsConfiguration", Own, "DELETE", "/b?analytics=&id=i"),
        row("GetBucketIntelligentTieringConfiguration", Any, "GET", "/b?id=i&intelligent-tiering=").unset(absent),
        row("ListBucketIntelligentTieringConfigurations", Any, "GET", "/b?intelligent-tiering="),
        row("DeleteBucketIntelligentTieringConfiguration", Own, "DELETE", "/b?id=i&intelligent-tiering="),
        row("GetBucketInventoryConfiguration", Any, "GET", "/b?id=i&inventory=").unset(absent),
        row("ListBucketInventoryConfigurations", Any, "GET", "/b?inventory="),
        row("DeleteBucketInventoryConfiguration", Own, "DELETE", "/b?id=i&inventory="),
        row("GetBucketMetricsConfiguration", Any, "GET", "/b?id=i&metrics=").unset(absent),
        row("ListBucketMetricsConfigurations", Any, "GET", "/b?metrics="),
        row("DeleteBucketMetricsConfiguration", Own, "DELETE", "/b?id=i&metrics="),
    ]
}

fn of_objects() -> Vec<Row> {
    use Needs::{Own, Read, ReadAndWrite, Write};
    vec![
        row("GetObject", Read, "GET", "/b/k"),
        row("HeadObject", Read, "HEAD", "/b/k"),
        row("GetObjectAttributes", Read, "GET", "/b/k?attributes=").header("x-amz-object-attributes", "ETag"),
        row("RestoreObject", Write, "POST", "/b/k?restore=")
            .body("<RestoreRequest><Days>1</Days></RestoreRequest>")
            .unset("InvalidObjectState"),
        row("PutObject", Write, "PUT", "/b/put").body("put"),
        row("CopyObject", ReadAndWrite, "PUT", "/b/copy").header("x-amz-copy-source", "/vessel/k"),
        row("DeleteObject", Write, "DELETE", "/b/put"),
        row("DeleteObjects", Write, "POST", "/b?delete=").body(DELETE),
        row("PutObjectTagging", Write, "PUT", "/b/k?tagging=").body(TAGS),
        row("GetObjectTagging", Read, "GET", "/b/k?tagging="),
        row("DeleteObjectTagging", Write, "DELETE", "/b/k?tagging="),
        row("PutObjectRetention", Own, "PUT", "/b/held?retention=").body(RETENTION),
        row("GetObjectRetention", Read, "GET", "/b/held?retention="),
        row("PutObjectLegalHold", Own, "PUT", "/b/held?legal-hold=").body(HOLD),
        row("GetObjectLegalHold", Read, "GET", "/b/held?legal-hold="),
        row("GetObjectAcl", Own, "GET", "/b/k?acl="),
        row("PutObjectAcl", Own, "PUT", "/b/k?acl=").header("x-amz-acl", "bucket-owner-full-control"),
    ]
}

fn of_uploads() -> Vec<Row> {
    use Needs::{Any, ReadAndWrite, Write};
    let part = "/b/mpu?partNumber=1&uploadId={upload}";
    vec![
        row("CreateMultipartUpload", Write, "POST", "/b/mpu?uploads="),
        row("UploadPart", Write, "PUT", part).body("part").before(Before::Upload),
        row("UploadPartCopy", ReadAndWrite, "PUT", part)
            .header("x-amz-copy-source", "/vessel/k")
            .before(Before::Upload),
        row("ListParts", Any, "GET", "/b/mpu?uploadId={upload}").before(Before::Part),
        row("CompleteMultipartUpload", Write, "POST", "/b/mpu?uploadId={upload}").body(COMPLETE).before(Before::Part),
        row("AbortMultipartUpload", Write, "DELETE", "/b/mpu?uploadId={upload}").before(Before::Part),
    ]
}

fn of_policies() -> Vec<Row> {
    use Needs::Own;
    vec![
        row("PutPublicAccessBlock", Own, "PUT", "/b?publicAccessBlock=").body(BLOCK),
        row("GetPublicAccessBlock", Own, "GET", "/b?publicAccessBlock="),
        row("DeletePublicAccessBlock", Own, "DELETE", "/b?publicAccessBlock="),
        row("PutBucketPolicy", Own, "PUT", "/b?policy=").body(POLICY),
        row("GetBucketPolicy", Own, "GET", "/b?policy="),
        row("GetBucketPolicyStatus", Own, "GET", "/b?policyStatus="),
        row("DeleteBucketPolicy", Own, "DELETE", "/b?policy="),
    ]
}
