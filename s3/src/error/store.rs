//! The mapping from errors of the store to S3 errors.
//!
//! - One table maps every [`objstore::Error`] to an S3 code; no handler invents its own. The store's message becomes
//!   the hint, and the name it concerns an element.
//! - Failures inside the store are logged here, once, with their cause; the client receives advice and no internals.

use http::header::{ALLOW, LAST_MODIFIED};
use http::{HeaderMap, HeaderName, HeaderValue};
use objstore::clock::Timestamp;
use objstore::{Error, Noun, Posix};
use s3s::dto::TimestampFormat;
use s3s::{S3Error, S3ErrorCode, S3Result};

use super::{Detail as _, bad_argument, custom, refuse, says};
use crate::response::time;

/// Maps the store's results to S3's.
pub(crate) trait OrRefuse<T> {
    /// Maps the error by the table of this module.
    fn or_refuse(self) -> S3Result<T>;
}

impl<T> OrRefuse<T> for objstore::Result<T> {
    fn or_refuse(self) -> S3Result<T> {
        self.map_err(from_store)
    }
}

/// The table.
pub(crate) fn from_store(error: Error) -> S3Error {
    let words = error.to_string();
    match error {
        Error::NotFound { noun, marker, name } => of_marker(absent(noun, &name, words), marker, None),
        Error::Exists { noun: Noun::Bucket, name, .. } => {
            refuse(S3ErrorCode::BucketAlreadyExists, words).with("BucketName", name)
        }
        Error::Exists { .. } | Error::InUse { .. } => refuse(S3ErrorCode::OperationAborted, words),
        Error::NotEmpty { name, .. } => refuse(S3ErrorCode::BucketNotEmpty, words).with("BucketName", name),
        Error::Invalid { what, value, .. } => invalid(what, &value, words),
        Error::DeleteMarker { version, modified, .. } => {
            let error = refuse(S3ErrorCode::MethodNotAllowed, words).with("ResourceType", "DeleteMarker");
            of_marker(error, Some(version), Some(modified))
        }
        Error::Precondition { condition, .. } => {
            refuse(S3ErrorCode::PreconditionFailed, words).with("Condition", condition)
        }
        Error::QuotaExceeded { bucket, .. } => refuse(custom("QuotaExceeded"), words).with("BucketName", bucket),
        Error::Denied { .. } => refuse(S3ErrorCode::AccessDenied, words),
        Error::Posix(posix) => from_posix(posix),
        Error::TooMany { .. } | Error::TooDeep { .. } => refuse(S3ErrorCode::TooManyBuckets, words),
        Error::Busy { .. } => refuse(S3ErrorCode::SlowDown, words),
        inside => from_inside(&inside),
    }
}

/// The error of the store for a copy; a delete marker as source has its own message.
pub(crate) fn refuse_source(error: Error) -> S3Error {
    match error {
        Error::DeleteMarker { .. } => says(
            S3ErrorCode::InvalidRequest,
            "The source of a copy request may not specifically refer to a delete marker by version id.",
        ),
        error => from_store(error),
    }
}

/// Adds the delete marker that caused the error, by its version; for a marker requested by version also its type (S3
/// User Guide, "Working with delete markers").
fn of_marker(mut error: S3Error, marker: Option<String>, modified: Option<Timestamp>) -> S3Error {
    let Some(marker) = marker else { return error };
    let mut headers = HeaderMap::new();
    headers.insert(HeaderName::from_static("x-amz-delete-marker"), HeaderValue::from_static("true"));
    if let Ok(version) = HeaderValue::from_str(&marker) {
        headers.insert(HeaderName::from_static("x-amz-version-id"), version);
    }
    if let Some(modified) = modified {
        headers.insert(ALLOW, HeaderValue::from_static("DELETE"));
        let mut text = Vec::new();
        let formatted = time(modified).format(TimestampFormat::HttpDate, &mut text);
        if let Some(date) = formatted.ok().and_then(|()| HeaderValue::from_bytes(&text).ok()) {
            headers.insert(LAST_MODIFIED, date);
        }
    }
    error.set_headers(headers);
    error
}

fn absent(noun: Noun, name: &str, words: String) -> S3Error {
    let (code, element) = match noun {
        Noun::Bucket | Noun::Snapshot => (S3ErrorCode::NoSuchBucket, "BucketName"),
        Noun::Key => (S3ErrorCode::NoSuchKey, "Key"),
        Noun::Version => (S3ErrorCode::NoSuchVersion, "VersionId"),
        Noun::Upload => (S3ErrorCode::NoSuchUpload, "UploadId"),
        Noun::Part => (S3ErrorCode::InvalidPart, "PartNumber"),
        Noun::AccessKey => (S3ErrorCode::InvalidAccessKeyId, "AWSAccessKeyId"),
        Noun::Account | Noun::Grant | Noun::Role => return refuse(S3ErrorCode::AccessDenied, words),
        Noun::Publication | Noun::Xattr | Noun::GroupSnapshot => return refuse(S3ErrorCode::InvalidRequest, words),
    };
    // The store names a version after its key, and a part with what was expected of it.
    let told = match noun {
        Noun::Version => name.rsplit_once("?versionId=").map_or(name, |(_, version)| version),
        Noun::Part => name.split(' ').next().unwrap_or(name),
        _ => name,
    };
    refuse(code, words).with(element, told)
}

fn invalid(what: &'static str, value: &str, words: String) -> S3Error {
    let code = match what {
        "version id" => return bad_argument("Invalid version id specified", "versionId", value),
        "bucket name" => return refuse(S3ErrorCode::InvalidBucketName, words).with("BucketName", value),
        "part order" => S3ErrorCode::InvalidPartOrder,
        "part size" => return refuse(S3ErrorCode::EntityTooSmall, words).with("ProposedSize", value),
        "range" => S3ErrorCode::InvalidRange,
        "versioning" => S3ErrorCode::IllegalVersioningConfigurationException,
        "bucket ACL" => custom("InvalidBucketAclWithObjectOwnership"),
        "bucket state" => S3ErrorCode::InvalidBucketState,
        "bucket for object lock" | "key for object lock" | "copy source size" => S3ErrorCode::InvalidRequest,
        _ => {
            return refuse(S3ErrorCode::InvalidArgument, words).with("ArgumentName", what).with("ArgumentValue", value);
        }
    };
    refuse(code, words)
}

fn from_posix(posix: Posix) -> S3Error {
    let (code, words) = match posix {
        Posix::ReadOnly => (S3ErrorCode::MethodNotAllowed, "The bucket is a snapshot: it cannot be changed."),
        Posix::NotFound | Posix::NoData => (S3ErrorCode::NoSuchKey, "The object does not exist."),
        Posix::Stale => (S3ErrorCode::NoSuchBucket, "The bucket was deleted meanwhile."),
        Posix::NameTooLong => (S3ErrorCode::KeyTooLongError, "A component of the key is too long."),
        Posix::TooLarge => (S3ErrorCode::EntityTooLarge, "The object would be larger than the store can hold."),
        Posix::NotPermitted => {
            (S3ErrorCode::AccessDenied, "Object lock or an immutable flag forbids changing the object.")
        }
        Posix::TooManyLinks | Posix::NoSpace => {
            (S3ErrorCode::SlowDown, "A limit of the store is reached: links of a file, or space.")
        }
        Posix::Exists
        | Posix::NotDirectory
        | Posix::IsDirectory
        | Posix::NotEmpty
        | Posix::Invalid
        | Posix::CrossDevice
        | Posix::NotSupported
        | Posix::InUse
        | Posix::NotUtf8 => (
            S3ErrorCode::InvalidRequest,
            "The key conflicts with another key: one names a file, and the other uses it as a folder.",
        ),
    };
    refuse(code, words)
}

/// Failures that no request caused: logged with their cause, reported without it.
fn from_inside(error: &Error) -> S3Error {
    let cause = std::error::Error::source(error).map(tracing::field::display);
    tracing::error!(%error, cause, "the store failed");
    match error {
        Error::Io { source, .. } if is_full(source) => refuse(
            custom("InsufficientStorage"),
            "The disk of the store is full: delete objects, or ask the operator for space.",
        ),
        Error::Corrupt { .. } => internal("The stored content is damaged and is not returned; tell the operator."),
        Error::Poisoned { .. } | Error::Unusable { .. } => {
            internal("The store is read-only because its disk failed; tell the operator.")
        }
        Error::Indeterminate { .. } => internal("The change may have been made or not: check, then try again."),
        _ => internal("The store failed: try again, and tell the operator if it happens again."),
    }
}

fn internal(message: &'static str) -> S3Error {
    refuse(S3ErrorCode::InternalError, message)
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Failure;

    fn code_and_status(error: Error) -> (String, u16) {
        let error = from_store(error);
        (error.code().as_str().to_owned(), error.status_code().map_or(0, |status| status.as_u16()))
    }

    #[test]
    fn each_refusal_has_its_code_and_status() {
        let io = |kind: std::io::ErrorKind| Error::io("writing", std::io::Error::from(kind));
        let quota = Error::QuotaExceeded { bucket: "abc".into(), limit_bytes: 1, used_bytes: 1, asked_bytes: 1 };
        let table = [
            (Error::not_found(Noun::Bucket, "abc"), "NoSuchBucket", 404),
            (Error::not_found(Noun::Key, "k"), "NoSuchKey", 404),
            (Error::not_found(Noun::Version, "v"), "NoSuchVersion", 404),
            (Error::not_found(Noun::Upload, "u"), "NoSuchUpload", 404),
            (Error::not_found(Noun::Part, "1"), "InvalidPart", 400),
            (Error::NotEmpty { name: "abc".into(), what: "objects".into() }, "BucketNotEmpty", 409),
            (Error::Precondition { condition: "If-Match", key: "k".into() }, "PreconditionFailed", 412),
            (quota, "QuotaExceeded", 403),
            (Error::Denied { why: "no grant".into() }, "AccessDenied", 403),
            (Error::TooMany { what: "buckets", limit: 1 }, "TooManyBuckets", 400),
            (Error::Busy { what: "the bucket".into() }, "SlowDown", 503),
            (Error::invalid("bucket name", "A", "use lower case"), "InvalidBucketName", 400),
            (Error::invalid("part order", "2", "rise"), "InvalidPartOrder", 400),
            (Error::invalid("part size", "2", "too small"), "EntityTooSmall", 400),
            (Error::invalid("copy source size", "6000000000", "copy it in parts"), "InvalidRequest", 400),
            (Error::invalid("something", "2", "no"), "InvalidArgument", 400),
            (Error::Posix(Posix::ReadOnly), "MethodNotAllowed", 405),
            (Error::Poisoned { why: "EIO".into() }, "InternalError", 500),
            (io(std::io::ErrorKind::Other), "InternalError", 500),
            (io(std::io::ErrorKind::StorageFull), "InsufficientStorage", 507),
        ];
        for (error, code, status) in table {
            let shown = format!("{error:?}");
            assert_eq!(code_and_status(error), (code.to_owned(), status), "{shown}");
        }
    }

    #[test]
    fn a_quoted_key_does_not_spoil_the_answer() {
        let failure = Failure::of(&from_store(Error::not_found(Noun::Key, "a\u{1}b\nü")));
        let hint = failure.hint().unwrap_or_default();
        assert!(hint.contains("a\\u{1}b\\nü"), "{hint}");
        assert_eq!(failure.element("Key"), Some("a\u{fffd}b\nü"));
    }

    #[test]
    fn insides_are_not_told_to_clients() {
        let error = from_store(Error::io("writing /srv/secret/blob", std::io::Error::other("EIO")));
        assert!(!Failure::of(&error).document(&[]).contains("/srv"));
    }
}
