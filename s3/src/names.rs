//! Names of buckets, keys, uploads and parts in requests, validated once.

use objstore::name::{BucketName, KEY_BYTES_MAX, Key};
use objstore::store::UploadRef;
use s3s::dto::CopySource;
use s3s::{S3ErrorCode, S3Result};

use crate::error::{Detail as _, OrRefuse as _, bad_argument, not_offered, plain};

/// The highest part number (S3 API, UploadPart).
const PART_NUMBER_MAX: i32 = 10_000;

/// Parses a bucket name.
pub(crate) fn bucket(name: &str) -> S3Result<BucketName> {
    name.parse().or_refuse()
}

/// Parses an object key.
pub(crate) fn key(key: &str) -> S3Result<Key> {
    if key.len() > KEY_BYTES_MAX {
        let error = plain(S3ErrorCode::KeyTooLongError).with("Size", key.len());
        return Err(error.with("MaxSizeAllowed", KEY_BYTES_MAX));
    }
    key.parse().or_refuse()
}

/// Parses the address of a multipart upload.
pub(crate) fn upload(bucket_name: &str, key_name: &str, id: String) -> S3Result<UploadRef> {
    Ok(UploadRef { bucket: bucket(bucket_name)?, key: key(key_name)?, id })
}

/// Parses a part number.
pub(crate) fn part_number(number: i32) -> S3Result<u32> {
    let checked = u32::try_from(number).ok().filter(|_| (1..=PART_NUMBER_MAX).contains(&number));
    checked.ok_or_else(|| {
        bad_argument("Part number must be an integer between 1 and 10000, inclusive", "partNumber", number)
    })
}

/// The source of a copy.
pub(crate) struct Source {
    /// The bucket.
    pub(crate) bucket: BucketName,
    /// The key.
    pub(crate) key: Key,
    /// The version, if one is named.
    pub(crate) version: Option<String>,
}

/// Parses `x-amz-copy-source`.
pub(crate) fn source(given: &CopySource) -> S3Result<Source> {
    match given {
        CopySource::Bucket { bucket: name, key: path, version_id } => {
            Ok(Source { bucket: bucket(name)?, key: key(path)?, version: version_id.as_deref().map(str::to_owned) })
        }
        CopySource::AccessPoint { .. } | CopySource::Outpost { .. } => Err(not_offered("Copying from an access point")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_names_have_their_own_codes() {
        assert_eq!(bucket("a_b").unwrap_err().code().as_str(), "InvalidBucketName");
        assert_eq!(key(&"x".repeat(1025)).unwrap_err().code().as_str(), "KeyTooLongError");
        assert_eq!(key("a\0b").unwrap_err().code().as_str(), "InvalidArgument");
    }

    #[test]
    fn part_numbers_are_1_to_10000() {
        assert_eq!(part_number(1).unwrap(), 1);
        assert_eq!(part_number(10_000).unwrap(), 10_000);
        for bad in [0, -1, 10_001] {
            assert_eq!(part_number(bad).unwrap_err().code().as_str(), "InvalidArgument", "{bad}");
        }
    }

    #[test]
    fn sources_are_paths() {
        let given = CopySource::parse("/abc/a%20b?versionId=7").unwrap();
        let source = source(&given).unwrap();
        assert_eq!((source.bucket.as_str(), source.key.as_str()), ("abc", "a b"));
        assert_eq!(source.version.as_deref(), Some("7"));
    }
}
