//! Requests that AWS refuses, with AWS's responses.

use super::answer::Case;
use crate::signatures::Request;

type Elements = &'static [(&'static str, &'static str)];

const UPLOAD: &str = "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted \
                      or completed.";
const MALFORMED: &str = "The XML you provided was not well-formed or did not validate against our published schema";
const CONDITION: &str = "At least one of the pre-conditions you specified did not hold";
const NUMBER: &str = "Part number must be an integer between 1 and 10000, inclusive";
const SHELF: Elements = &[("BucketName", "shelf")];
const GONE: Elements = &[("BucketName", "gone")];

fn get(path: &'static str, query: &str) -> Request {
    Request::new("GET", path).query(query)
}

fn put(path: &'static str, query: &str, body: &str) -> Request {
    Request::new("PUT", path).query(query).body(body)
}

fn case(request: Request, status: u16, code: &'static str, message: &'static str, elements: Elements) -> Case {
    Case { request, status, code, message, elements }
}

/// All cases.
pub fn all() -> Vec<Case> {
    [absent(), unset(), arguments(), bodies(), conditions(), settings()].into_iter().flatten().collect()
}

/// Resources that do not exist.
fn absent() -> Vec<Case> {
    let (bucket, key) = ("The specified bucket does not exist.", "The specified key does not exist.");
    vec![
        case(get("/gone", ""), 404, "NoSuchBucket", bucket, GONE),
        case(get("/gone/k", ""), 404, "NoSuchBucket", bucket, GONE),
        case(put("/gone/k", "", "x"), 404, "NoSuchBucket", bucket, GONE),
        case(Request::new("DELETE", "/gone"), 404, "NoSuchBucket", bucket, GONE),
        case(put("/shelf/c", "", "").header("x-amz-copy-source", "/gone/k"), 404, "NoSuchBucket", bucket, GONE),
        case(get("/shelf/absent", ""), 404, "NoSuchKey", key, &[("Key", "absent")]),
        case(
            put("/shelf/c", "", "").header("x-amz-copy-source", "/shelf/absent"),
            404,
            "NoSuchKey",
            key,
            &[("Key", "absent")],
        ),
        case(get("/shelf/absent", "tagging="), 404, "NoSuchKey", key, &[("Key", "absent")]),
        case(
            get("/shelf/k", "versionId=0123456789abcdef"),
            404,
            "NoSuchVersion",
            "The specified version does not exist.",
            &[("Key", "k"), ("VersionId", "0123456789abcdef")],
        ),
        case(
            get("/shelf/k", "versionId=odd%21"),
            400,
            "InvalidArgument",
            "Invalid version id specified",
            &[("ArgumentName", "versionId"), ("ArgumentValue", "odd!")],
        ),
        case(Request::new("DELETE", "/shelf/k").query("uploadId=u"), 404, "NoSuchUpload", UPLOAD, &[("UploadId", "u")]),
        case(get("/shelf/k", "uploadId=u"), 404, "NoSuchUpload", UPLOAD, &[("UploadId", "u")]),
        case(put("/shelf/k", "partNumber=1&uploadId=u", "x"), 404, "NoSuchUpload", UPLOAD, &[("UploadId", "u")]),
    ]
}

/// Settings that a bucket does not have.
fn unset() -> Vec<Case> {
    vec![
        case(get("/shelf", "policy="), 404, "NoSuchBucketPolicy", "The bucket policy does not exist", SHELF),
        case(get("/shelf", "tagging="), 404, "NoSuchTagSet", "The TagSet does not exist", SHELF),
        case(
            get("/shelf", "lifecycle="),
            404,
            "NoSuchLifecycleConfiguration",
            "The lifecycle configuration does not exist",
            SHELF,
        ),
        case(get("/shelf", "cors="), 404, "NoSuchCORSConfiguration", "The CORS configuration does not exist", SHELF),
        case(
            get("/shelf", "object-lock="),
            404,
            "ObjectLockConfigurationNotFoundError",
            "Object Lock configuration does not exist for this bucket",
            SHELF,
        ),
        case(get("/shelf/k", "retention="), 400, "InvalidRequest", "Bucket is missing Object Lock Configuration", &[]),
    ]
}

/// Invalid values.
fn arguments() -> Vec<Case> {
    vec![
        case(
            get("/shelf", "list-type=2&max-keys=many"),
            400,
            "InvalidArgument",
            "Provided max-keys not an integer or within integer range",
            &[("ArgumentName", "max-keys"), ("ArgumentValue", "many")],
        ),
        case(
            get("/shelf", "list-type=2&max-keys=-1"),
            400,
            "InvalidArgument",
            "Argument max-keys must be an integer between 0 and 2147483647",
            &[("ArgumentName", "max-keys"), ("ArgumentValue", "-1")],
        ),
        case(
            get("/shelf", "encoding-type=odd"),
            400,
            "InvalidArgument",
            "Invalid Encoding Method specified in Request",
            &[("ArgumentName", "encoding-type"), ("ArgumentValue", "odd")],
        ),
        case(
            get("/shelf", "list-type=2&continuation-token=odd"),
            400,
            "InvalidArgument",
            "The continuation token provided is incorrect",
            &[("ArgumentName", "continuation-token"), ("ArgumentValue", "odd")],
        ),
        case(
            put("/shelf/k", "partNumber=0&uploadId=u", "x"),
            400,
            "InvalidArgument",
            NUMBER,
            &[("ArgumentName", "partNumber"), ("ArgumentValue", "0")],
        ),
        case(
            put("/shelf/k", "partNumber=1", "x"),
            400,
            "InvalidArgument",
            "This operation does not accept partNumber without uploadId",
            &[("ArgumentName", "partNumber"), ("ArgumentValue", "1")],
        ),
        case(
            get("/shelf/k", "attributes=").header("x-amz-object-attributes", "Colour"),
            400,
            "InvalidArgument",
            "Invalid attribute name specified.",
            &[("ArgumentName", "x-amz-object-attributes"), ("ArgumentValue", "Colour")],
        ),
        case(
            put("/shelf/c", "", "").header("x-amz-copy-source", "/shelf/k").header("x-amz-metadata-directive", "KEEP"),
            400,
            "InvalidArgument",
            "Unknown metadata directive.",
            &[("ArgumentName", "x-amz-metadata-directive"), ("ArgumentValue", "KEEP")],
        ),
        case(
            put("/shelf/k", "", "").header("x-amz-copy-source", "/shelf/k"),
            400,
            "InvalidRequest",
            "This copy request is illegal because it is trying to copy an object to itself without changing the object's \
             metadata, storage class, website redirect location or encryption attributes.",
            &[],
        ),
        case(get("/A_b", ""), 400, "InvalidBucketName", "The specified bucket is not valid.", &[("BucketName", "A_b")]),
        case(
            put("/shelf/k", "", "x").header("x-amz-object-lock-mode", "GOVERNANCE"),
            400,
            "InvalidArgument",
            "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied",
            &[("ArgumentName", "x-amz-object-lock-retain-until-date")],
        ),
    ]
}

/// Invalid bodies.
fn bodies() -> Vec<Case> {
    let digest = "rL0Y20zC+Fzt72VPzMSk2A==";
    vec![
        case(
            put("/shelf/k", "", "other").header("content-md5", digest),
            400,
            "BadDigest",
            "The Content-MD5 you specified did not match what we received.",
            &[("ExpectedDigest", "rL0Y20zC+Fzt72VPzMSk2A=="), ("CalculatedDigest", "eV8yArF8trw9S3cdjGyerw==")],
        ),
        case(
            put("/shelf/k", "", "x").header("content-md5", "odd"),
            400,
            "InvalidDigest",
            "The Content-MD5 you specified was invalid.",
            &[("Content-MD5", "odd")],
        ),
        case(
            put("/shelf/k", "", "x").header("x-amz-checksum-crc32", "AAAAAA=="),
            400,
            "BadDigest",
            "The CRC32 you specified did not match the calculated checksum.",
            &[],
        ),
        case(
            put("/shelf/k", "", "x").header("x-amz-checksum-crc32", "odd"),
            400,
            "InvalidRequest",
            "Value for x-amz-checksum-crc32 header is invalid.",
            &[],
        ),
        case(put("/shelf", "tagging=", "<odd"), 400, "MalformedXML", MALFORMED, &[]),
        case(put("/shelf", "versioning=", "<VersioningConfiguration/>"), 400, "MalformedXML", MALFORMED, &[]),
        case(
            put("/shelf/k", "", "x").header("x-amz-tagging", "a=1&a=2"),
            400,
            "InvalidTag",
            "Cannot provide multiple Tags with the same key",
            &[],
        ),
        case(
            put("/shelf/k", "", "x").header("x-amz-tagging", "a=%21"),
            400,
            "InvalidTag",
            "The TagValue you have provided is invalid",
            &[("TagValue", "!")],
        ),
        case(
            put("/shelf", "policy=", "not a policy"),
            400,
            "MalformedPolicy",
            "Policies must be valid JSON and the first byte must be '{'",
            &[],
        ),
        case(
            put("/shelf/k", "", "x").header("x-amz-meta-a", "x".repeat(2049)),
            400,
            "MetadataTooLarge",
            "Your metadata headers exceed the maximum allowed metadata size",
            &[("Size", "2050"), ("MaxSizeAllowed", "2048")],
        ),
        case(
            put(
                "/shelf",
                "cors=",
                "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>COPY</AllowedMethod></CORSRule></CORSConfiguration>",
            ),
            400,
            "InvalidRequest",
            "Found unsupported HTTP method in CORS config. Unsupported method is COPY",
            &[],
        ),
    ]
}

/// Conditions and ranges that do not hold.
fn conditions() -> Vec<Case> {
    vec![
        case(
            get("/shelf/k", "").header("if-match", "\"0\""),
            412,
            "PreconditionFailed",
            CONDITION,
            &[("Condition", "If-Match")],
        ),
        case(
            put("/shelf/k", "", "x").header("if-none-match", "*"),
            412,
            "PreconditionFailed",
            CONDITION,
            &[("Condition", "If-None-Match")],
        ),
        case(
            put("/shelf/k", "", "x").header("if-match", "\"0\""),
            412,
            "PreconditionFailed",
            CONDITION,
            &[("Condition", "If-Match")],
        ),
        case(
            get("/shelf/k", "").header("range", "bytes=20-30"),
            416,
            "InvalidRange",
            "The requested range is not satisfiable",
            &[("RangeRequested", "bytes=20-30"), ("ActualObjectSize", "10")],
        ),
        case(
            get("/shelf/k", "partNumber=2"),
            416,
            "InvalidPartNumber",
            "The requested partnumber is not satisfiable",
            &[("ActualPartCount", "1"), ("PartNumberRequested", "2")],
        ),
        case(
            get("/shelf/k", "partNumber=1").header("range", "bytes=0-1"),
            400,
            "InvalidRequest",
            "Cannot specify both Range header and partNumber query parameter",
            &[],
        ),
    ]
}

/// Requests that the state of a bucket forbids.
fn settings() -> Vec<Case> {
    vec![
        case(
            Request::new("DELETE", "/shelf"),
            409,
            "BucketNotEmpty",
            "The bucket you tried to delete is not empty",
            SHELF,
        ),
        case(
            put("/shelf/k", "", "x").header("x-amz-storage-class", "GOLD"),
            400,
            "InvalidStorageClass",
            "The storage class you specified is not valid",
            &[("StorageClassRequested", "GOLD")],
        ),
        case(
            get("/shelf/k", "").header("x-amz-expected-bucket-owner", "another"),
            403,
            "AccessDenied",
            "Access Denied",
            &[("ExpectedBucketOwner", "another")],
        ),
        case(
            get("/locked/absent", "retention="),
            404,
            "NoSuchKey",
            "The specified key does not exist.",
            &[("Key", "absent")],
        ),
        case(
            put(
                "/other",
                "",
                "<CreateBucketConfiguration><LocationConstraint>mars</LocationConstraint></CreateBucketConfiguration>",
            ),
            400,
            "InvalidLocationConstraint",
            "The specified location-constraint is not valid",
            &[("LocationConstraint", "mars")],
        ),
    ]
}
