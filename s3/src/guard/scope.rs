//! The scope of a signature (region, service, date) and its signed host. The checks are the same for headers and URLs,
//! with different error codes.

use http::{HeaderMap, HeaderName, HeaderValue};
use s3s::{S3Error, S3ErrorCode, S3Result};
use s3s_sigv4::CredentialV4;

use crate::error::{Detail as _, says};

/// The only supported signing algorithm.
pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Names the region to clients that signed for another.
const BUCKET_REGION: HeaderName = HeaderName::from_static("x-amz-bucket-region");

const SERVICE: &str = "s3";

/// Where a signature stands.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Header,
    Url,
}

impl Place {
    /// The error for a bad credential.
    pub(super) fn refuse(self, words: &str) -> S3Error {
        let (code, opening) = match self {
            Self::Header => (S3ErrorCode::AuthorizationHeaderMalformed, "The authorization header is malformed"),
            Self::Url => {
                (S3ErrorCode::AuthorizationQueryParametersError, "Error parsing the X-Amz-Credential parameter")
            }
        };
        says(code, format!("{opening}; {words}"))
    }
}

/// The scope of a signature, and the headers it covers.
pub(super) struct Scope<'a> {
    pub(super) place: Place,
    pub(super) credential: &'a CredentialV4<'a>,
    /// The day of the request's date, as YYYYMMDD.
    pub(super) day: &'a str,
    /// The signed headers.
    pub(super) signed: &'a [&'a str],
}

impl Scope<'_> {
    /// Compares the scope with this endpoint.
    pub(super) fn check(&self, region: &str) -> S3Result<()> {
        let CredentialV4 { date, aws_region, aws_service, .. } = *self.credential;
        if aws_service != SERVICE {
            let words = format!("incorrect service {aws_service:?}. This endpoint belongs to {SERVICE:?}.");
            return Err(self.place.refuse(&words));
        }
        if aws_region != region {
            let words = format!("the region '{aws_region}' is wrong; expecting '{region}'");
            return Err(with_region(self.place.refuse(&words), region));
        }
        if date != self.day {
            let words =
                format!("Invalid credential date {date:?}. This date is not the same as X-Amz-Date: {:?}.", self.day);
            return Err(self.place.refuse(&words));
        }
        // If the host were not signed, the signature would be valid for the same path of every other endpoint.
        if !self.signed.iter().any(|name| name.eq_ignore_ascii_case("host")) {
            let words = "There were headers present in the request which were not signed";
            return Err(says(S3ErrorCode::AccessDenied, words).with("HeadersNotSigned", "host"));
        }
        Ok(())
    }
}

/// Adds the region to an error; clients then sign again for it (S3 API, HeadBucket).
fn with_region(error: S3Error, region: &str) -> S3Error {
    let mut error = error.with("Region", region);
    if let Ok(region) = HeaderValue::from_str(region) {
        error.set_headers(HeaderMap::from_iter([(BUCKET_REGION, region)]));
    }
    error
}
