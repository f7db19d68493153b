//! What a request's headers may ask for.
//!
//! - A header that asks for something Amphora does not do is refused, never ignored: an object stored without the
//!   encryption that was asked for would be a lie.

use http::{HeaderMap, HeaderName, HeaderValue};
use s3s::{S3ErrorCode, S3Result};

use crate::error::{not_offered, refuse};

/// Headers that are refused, by how they begin, and what they ask for.
const REFUSED: [(&str, &str); 6] = [
    ("x-amz-server-side-encryption", "Server-side encryption by request"),
    ("x-amz-copy-source-server-side-encryption", "Server-side encryption by request"),
    ("x-amz-website-redirect-location", "Website redirection"),
    ("x-amz-write-offset-bytes", "Appending"),
    ("x-amz-mfa", "MFA delete"),
    ("x-amz-bucket-namespace", "A bucket namespace"),
];

/// Refuses headers that ask for what is not offered.
pub(crate) fn check(headers: &HeaderMap) -> S3Result<()> {
    for (name, value) in headers {
        if name.as_str().starts_with("x-amz-") {
            check_one(name, value)?;
        }
    }
    Ok(())
}

fn check_one(name: &HeaderName, value: &HeaderValue) -> S3Result<()> {
    let (name, value) = (name.as_str(), value.as_bytes());
    if let Some((_, what)) = REFUSED.iter().find(|(start, _)| name.starts_with(start)) {
        // `false` asks for nothing.
        return if value.eq_ignore_ascii_case(b"false") { Ok(()) } else { Err(not_offered(what)) };
    }
    match name {
        "x-amz-storage-class" if value != b"STANDARD" => {
            Err(refuse(S3ErrorCode::InvalidStorageClass, "The one storage class is STANDARD."))
        }
        "x-amz-acl" if !matches!(value, b"private" | b"bucket-owner-full-control") => Err(no_lists()),
        "x-amz-object-ownership" if value != b"BucketOwnerEnforced" => Err(no_lists()),
        _ if name.starts_with("x-amz-grant-") => Err(no_lists()),
        _ => Ok(()),
    }
}

/// As AWS answers where the bucket owner is enforced.
fn no_lists() -> s3s::S3Error {
    refuse(S3ErrorCode::AccessControlListNotSupported, "The bucket does not allow ACLs; use grants.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_offered_is_refused_by_name() {
        let table = [
            ("x-amz-server-side-encryption", "AES256", "NotImplemented"),
            ("x-amz-server-side-encryption-customer-key", "x", "NotImplemented"),
            ("x-amz-mfa", "20899872 301749", "NotImplemented"),
            ("x-amz-storage-class", "GLACIER", "InvalidStorageClass"),
            ("x-amz-storage-class", "STANDARD", ""),
            ("x-amz-acl", "public-read", "AccessControlListNotSupported"),
            ("x-amz-acl", "private", ""),
            ("x-amz-grant-read", "id=1", "AccessControlListNotSupported"),
            ("x-amz-meta-acl", "public-read", ""),
        ];
        for (name, value, code) in table {
            let headers = [(HeaderName::from_static(name), HeaderValue::from_static(value))].into_iter().collect();
            let found = check(&headers).map_err(|error| error.code().as_str().to_owned()).err().unwrap_or_default();
            assert_eq!(found, code, "{name}: {value}");
        }
    }
}
