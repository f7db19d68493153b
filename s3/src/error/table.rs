//! The table of error codes: the status of each, AWS's sentence, and the elements that AWS adds.
//!
//! - Sentences are AWS's actual responses letter by letter, which its documentation often words otherwise. Codes of
//!   ours (`QuotaExceeded`, `InsufficientStorage`) have sentences of ours.
//! - A code with several sentences has the most general one here.

use http::StatusCode;

/// An element that repeats a value of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// `BucketName`, of the URL.
    Bucket,
    /// `Key`, of the URL.
    Key,
    /// `VersionId`, of the URL.
    Version,
    /// `UploadId`, of the URL.
    Upload,
    /// `Method` and `ResourceType`.
    Method,
    /// `URI`: the path.
    Uri,
}

use Asked::{Bucket, Key, Method, Upload, Uri, Version};

/// A row of the table.
struct Row(&'static str, u16, &'static str, &'static [Asked]);

/// In the order of the codes.
const TABLE: &[Row] = &[
    Row("AccessControlListNotSupported", 400, "The bucket does not allow ACLs", &[]),
    Row("AccessDenied", 403, "Access Denied", &[]),
    Row("AccessForbidden", 403, "CORSResponse: CORS is not enabled for this bucket.", &[Method]),
    Row("AuthorizationHeaderMalformed", 400, "The authorization header that you provided is not valid.", &[]),
    Row(
        "AuthorizationQueryParametersError",
        400,
        "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, \
         X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.",
        &[],
    ),
    Row("BadDigest", 400, "The Content-MD5 you specified did not match what we received.", &[]),
    Row("BadRequest", 400, "Bad Request", &[]),
    Row(
        "BucketAlreadyExists",
        409,
        "The requested bucket name is not available. The bucket namespace is shared by all users of the system. Please \
         select a different name and try again.",
        &[Bucket],
    ),
    Row(
        "BucketAlreadyOwnedByYou",
        409,
        "Your previous request to create the named bucket succeeded and you already own it.",
        &[Bucket],
    ),
    Row("BucketNotEmpty", 409, "The bucket you tried to delete is not empty", &[Bucket]),
    Row(
        "ConditionalRequestConflict",
        409,
        "The conditional request cannot succeed due to a conflicting operation against this resource.",
        &[Key],
    ),
    Row("EntityTooLarge", 400, "Your proposed upload exceeds the maximum allowed size", &[]),
    Row("EntityTooSmall", 400, "Your proposed upload is smaller than the minimum allowed size", &[]),
    Row("ExpiredToken", 400, "The provided token has expired.", &[]),
    Row(
        "IllegalLocationConstraintException",
        400,
        "The unspecified location constraint is incompatible for the region specific endpoint this request was sent to.",
        &[],
    ),
    Row("IllegalVersioningConfigurationException", 400, "The Versioning element must be specified", &[]),
    Row("IncompleteBody", 400, "The request body terminated unexpectedly", &[]),
    Row("InsufficientStorage", 507, "The disk of the store is full.", &[]),
    Row("InternalError", 500, "We encountered an internal error. Please try again.", &[]),
    Row("InvalidAccessKeyId", 403, "The AWS Access Key Id you provided does not exist in our records.", &[]),
    Row("InvalidArgument", 400, "Invalid Argument", &[]),
    Row(
        "InvalidBucketAclWithBlockPublicAccessError",
        400,
        "Bucket cannot have public ACLs set with BlockPublicAccess enabled",
        &[],
    ),
    Row(
        "InvalidBucketAclWithObjectOwnership",
        400,
        "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting",
        &[],
    ),
    Row("InvalidBucketName", 400, "The specified bucket is not valid.", &[Bucket]),
    Row("InvalidBucketState", 409, "The request is not valid with the current state of the bucket.", &[]),
    Row("InvalidDigest", 400, "The Content-MD5 you specified was invalid.", &[]),
    Row("InvalidEncryptionAlgorithmError", 400, "The encryption request you specified is not valid.", &[]),
    Row("InvalidLocationConstraint", 400, "The specified location-constraint is not valid", &[]),
    Row("InvalidObjectState", 403, "The operation is not valid for the object's storage class", &[]),
    Row(
        "InvalidPart",
        400,
        "One or more of the specified parts could not be found.  The part may not have been uploaded, or the specified \
         entity tag may not match the part's entity tag.",
        &[Upload],
    ),
    Row("InvalidPartNumber", 416, "The requested partnumber is not satisfiable", &[]),
    Row(
        "InvalidPartOrder",
        400,
        "The list of parts was not in ascending order. Parts must be ordered by part number.",
        &[Upload],
    ),
    Row("InvalidPolicyDocument", 400, "Invalid Policy: Invalid JSON.", &[]),
    Row("InvalidRange", 416, "The requested range is not satisfiable", &[]),
    Row(
        "InvalidRedirectLocation",
        400,
        "The website redirect location must have a prefix of 'http://' or 'https://' or '/'.",
        &[],
    ),
    Row("InvalidRequest", 400, "Invalid Request", &[]),
    Row("InvalidRetentionPeriod", 400, "Default retention period must be a positive integer value.", &[]),
    Row("InvalidStorageClass", 400, "The storage class you specified is not valid", &[]),
    Row("InvalidTag", 400, "The tag provided was not a valid tag.", &[]),
    Row("InvalidTargetBucketForLogging", 400, "The target bucket for logging does not exist", &[]),
    Row("InvalidToken", 400, "The provided token is malformed or otherwise invalid.", &[]),
    Row("InvalidURI", 400, "Couldn't parse the specified URI.", &[Uri]),
    Row("KeyTooLongError", 400, "Your key is too long", &[]),
    Row(
        "MalformedACLError",
        400,
        "The XML you provided was not well-formed or did not validate against our published schema",
        &[],
    ),
    Row("MalformedPOSTRequest", 400, "The body of your POST request is not well-formed multipart/form-data.", &[]),
    Row("MalformedPolicy", 400, "This policy contains invalid Json", &[]),
    Row(
        "MalformedTrailerError",
        400,
        "The request contained trailing data that was not well-formed or did not conform to our published schema.",
        &[],
    ),
    Row(
        "MalformedXML",
        400,
        "The XML you provided was not well-formed or did not validate against our published schema",
        &[],
    ),
    Row("MaxMessageLengthExceeded", 400, "Your request was too big.", &[]),
    Row(
        "MaxPostPreDataLengthExceededError",
        400,
        "Your POST request fields preceding the upload file were too large.",
        &[],
    ),
    Row("MetadataConfigurationNotFound", 404, "The metadata configuration was not found", &[Bucket]),
    Row("MetadataTooLarge", 400, "Your metadata headers exceed the maximum allowed metadata size", &[]),
    Row("MethodNotAllowed", 405, "The specified method is not allowed against this resource.", &[Method]),
    Row("MissingContentLength", 411, "You must provide the Content-Length HTTP header.", &[]),
    Row("MissingRequestBodyError", 400, "Request Body is empty", &[]),
    Row("MissingSecurityHeader", 400, "Your request was missing a required header", &[]),
    Row("NoSuchBucket", 404, "The specified bucket does not exist.", &[Bucket]),
    Row("NoSuchBucketPolicy", 404, "The bucket policy does not exist", &[Bucket]),
    Row("NoSuchCORSConfiguration", 404, "The CORS configuration does not exist", &[Bucket]),
    Row("NoSuchConfiguration", 404, "The specified configuration does not exist.", &[]),
    Row("NoSuchKey", 404, "The specified key does not exist.", &[Key]),
    Row("NoSuchLifecycleConfiguration", 404, "The lifecycle configuration does not exist", &[Bucket]),
    Row("NoSuchObjectLockConfiguration", 404, "The specified object does not have a ObjectLock configuration", &[Key]),
    Row("NoSuchPublicAccessBlockConfiguration", 404, "The public access block configuration was not found", &[Bucket]),
    Row("NoSuchTagSet", 404, "The TagSet does not exist", &[Bucket]),
    Row(
        "NoSuchUpload",
        404,
        "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or \
         completed.",
        &[Upload],
    ),
    Row("NoSuchVersion", 404, "The specified version does not exist.", &[Key, Version]),
    Row("NoSuchWebsiteConfiguration", 404, "The specified bucket does not have a website configuration", &[Bucket]),
    Row("NotImplemented", 501, "A header you provided implies functionality that is not implemented", &[]),
    Row(
        "ObjectLockConfigurationNotFoundError",
        404,
        "Object Lock configuration does not exist for this bucket",
        &[Bucket],
    ),
    Row(
        "OperationAborted",
        409,
        "A conflicting conditional operation is currently in progress against this resource. Please try again.",
        &[],
    ),
    Row("OwnershipControlsNotFoundError", 404, "The bucket ownership controls were not found", &[Bucket]),
    Row("PreconditionFailed", 412, "At least one of the pre-conditions you specified did not hold", &[]),
    Row("QuotaExceeded", 403, "The write would pass the quota of the bucket.", &[Bucket]),
    Row("ReplicationConfigurationNotFoundError", 404, "The replication configuration was not found", &[Bucket]),
    Row("RequestHeaderSectionTooLarge", 400, "Your request header section exceeds the maximum allowed size.", &[]),
    Row("RequestTimeTooSkewed", 403, "The difference between the request time and the current time is too large.", &[]),
    Row(
        "RequestTimeout",
        400,
        "Your socket connection to the server was not read from or written to within the timeout period. Idle \
         connections will be closed.",
        &[],
    ),
    Row(
        "ServerSideEncryptionConfigurationNotFoundError",
        404,
        "The server side encryption configuration was not found",
        &[Bucket],
    ),
    Row(
        "SignatureDoesNotMatch",
        403,
        "The request signature we calculated does not match the signature you provided. Check your key and signing \
         method.",
        &[],
    ),
    Row("SlowDown", 503, "Please reduce your request rate.", &[]),
    Row("TooManyBuckets", 400, "You have attempted to create more buckets than allowed", &[]),
    Row("UnexpectedContent", 400, "This request does not support content", &[]),
    Row(
        "XAmzContentSHA256Mismatch",
        400,
        "The provided 'x-amz-content-sha256' header does not match what was computed.",
        &[],
    ),
];

fn find(code: &str) -> Option<&'static Row> {
    TABLE.binary_search_by_key(&code, |row| row.0).ok().and_then(|index| TABLE.get(index))
}

/// The HTTP status of a code.
pub(super) fn status(code: &str) -> Option<StatusCode> {
    find(code).and_then(|row| StatusCode::from_u16(row.1).ok())
}

/// AWS's sentence for a code. An unlisted code gets the sentence of a refused request.
pub(super) fn sentence(code: &str) -> &'static str {
    find(code).map_or("Invalid Request", |row| row.2)
}

/// The request elements that AWS adds for a code.
pub(super) fn asked(code: &str) -> &'static [Asked] {
    find(code).map_or(&[], |row| row.3)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn each_code_stands_once_in_order_with_a_status_of_errors() {
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for Row(code, number, sentence, _) in TABLE {
            assert!((400..600).contains(number) && status(code).is_some(), "{code}");
            assert!(!sentence.is_empty() && !sentence.contains("  \n") && sentence.trim() == *sentence, "{code}");
        }
    }

    #[test]
    fn the_sentences_are_those_that_aws_sends() {
        for (code, number, words) in [
            ("NoSuchBucket", 404, "The specified bucket does not exist."),
            ("NoSuchKey", 404, "The specified key does not exist."),
            ("PreconditionFailed", 412, "At least one of the pre-conditions you specified did not hold"),
            ("BucketNotEmpty", 409, "The bucket you tried to delete is not empty"),
            ("InvalidRange", 416, "The requested range is not satisfiable"),
            ("AccessDenied", 403, "Access Denied"),
        ] {
            assert_eq!((status(code).map(|status| status.as_u16()), sentence(code)), (Some(number), words));
        }
        assert_eq!((status("Unheard"), sentence("Unheard")), (None, "Invalid Request"));
    }

    #[test]
    fn each_code_that_this_crate_answers_has_a_row() {
        let mut found = 0;
        for (path, text) in sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))) {
            for rest in ["S3ErrorCode::", "custom(\""].into_iter().flat_map(|mark| text.split(mark).skip(1)) {
                let code: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
                if code.starts_with(char::is_uppercase) && !["Custom", "NotModified"].contains(&code.as_str()) {
                    found += 1;
                    assert!(find(&code).is_some(), "{code}, in {}, has no row in the table", path.display());
                }
            }
        }
        assert!(found > 100, "{found}");
    }

    /// All source files below a folder.
    fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let read = |path: PathBuf| match path.is_dir() {
            true => sources(&path),
            false => vec![(path.clone(), std::fs::read_to_string(&path).unwrap())],
        };
        entries.flat_map(read).collect()
    }
}
