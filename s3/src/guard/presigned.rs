//! Presigned URLs of Version 4: malformed ones that `s3s` accepts, or refuses with another code than AWS.

use s3s::{S3Error, S3ErrorCode, S3Result};
use s3s_sigv4::PresignedUrlV4;

use super::scope::{ALGORITHM, Place, Scope};
use crate::error::{Detail as _, plain, says};
use crate::query::Query;

/// The query parameters of a presigned URL.
pub(super) const PARAMETERS: [&str; 6] =
    ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature"];
/// Parameters that mark a URL as presigned. `s3s` looks for the signature alone, and would treat a URL without it as
/// anonymous.
const CLAIMS: [&str; 3] = ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature"];
/// Seven days.
pub(crate) const EXPIRES_SECONDS_MAX: u32 = 7 * 24 * 60 * 60;

/// Whether a query claims a signature of Version 4.
pub(super) fn is_claimed(query: &Query) -> bool {
    CLAIMS.iter().any(|name| query.has_in_any_case(name))
}

/// Checks the parameters, if the URL claims a signature.
pub(super) fn check(query: &Query, region: &str) -> S3Result<()> {
    if !is_claimed(query) {
        return Ok(());
    }
    if let Some(missing) = PARAMETERS.iter().find(|name| !query.has(name)) {
        let error = plain(S3ErrorCode::AuthorizationQueryParametersError);
        return Err(error.hint(format!("The parameter {missing} is missing.")));
    }
    let url = PresignedUrlV4::parse(query.pairs(), EXPIRES_SECONDS_MAX).map_err(|_| {
        bad(
            "The X-Amz- parameters are given once each: X-Amz-Credential as KEY/YYYYMMDD/REGION/s3/aws4_request, X-Amz-Date as \
             20260131T120000Z, X-Amz-Expires in seconds up to a week, X-Amz-Signature in 64 digits.",
        )
    })?;
    if url.algorithm != ALGORITHM {
        return Err(bad(format!("X-Amz-Algorithm only supports {ALGORITHM:?}.")));
    }
    let day = url.amz_date.fmt_date();
    Scope { place: Place::Url, credential: &url.credential, day: &day, signed: &url.signed_headers }.check(region)
}

fn bad(words: impl Into<String>) -> S3Error {
    says(S3ErrorCode::AuthorizationQueryParametersError, words)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{code, presigned};

    #[test]
    fn broken_parameters_are_told_as_aws_tells_them() {
        let whole = presigned();
        let bad = "AuthorizationQueryParametersError";
        let table = [
            (whole.clone(), ""),
            ("prefix=x".to_owned(), ""),
            ("X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=x".to_owned(), bad),
            ("x-amz-credential=x&x-amz-signature=0".to_owned(), bad),
            (whole.replace("X-Amz-Signature", "x"), bad),
            (whole.replace("SHA256", "SHA512"), bad),
            (whole.replace("=60", "=604801"), bad),
            (whole.replace("us-east-1", "eu-west-1"), bad),
            (whole.replace("%2Fs3%2F", "%2Fec2%2F"), bad),
            (whole.replace("%2F20260131", "%2F20260130"), bad),
            (format!("{whole}&X-Amz-Date=20260131T120000Z"), bad),
            (whole.replace("SignedHeaders=host", "SignedHeaders=range"), "AccessDenied"),
            (whole.replace("SignedHeaders=host", "SignedHeaders="), "AccessDenied"),
            (whole.replace("X-Amz-", "X%2DAmz%2D").replace("=host", "=range"), "AccessDenied"),
        ];
        for (query, expected) in table {
            assert_eq!(code("GET", &format!("/abc/k?{query}"), &[]), expected, "{query}");
        }
    }
}
