//! The session token of a request: in a header, or in a URL.
//!
//! - It is given once, and only with a signature, which covers it: `s3s` refuses unsigned `x-amz-…` headers, and a
//!   signature in a URL covers all parameters. So a token cannot be added to a signed request, or taken from it.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use s3s::{S3ErrorCode, S3Result};

use super::{presigned, text};
use crate::error::refuse;
use crate::query::{Query, signature_v2};

/// The name of the header, and of the URL parameter in any case.
const NAME: &str = "x-amz-security-token";

/// The session token, if the request has one.
pub(crate) fn find(query: &Query, headers: &HeaderMap) -> S3Result<Option<String>> {
    let in_url =
        query.pairs().iter().filter(|(name, _)| name.eq_ignore_ascii_case(NAME)).map(|(_, value)| value.as_str());
    let in_headers = headers.get_all(NAME).iter().map(|value| value.to_str().unwrap_or_default());
    let mut given = in_url.chain(in_headers);
    let Some(token) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(refuse(S3ErrorCode::InvalidToken, "The request has more than one session token."));
    }
    let signed = text(headers, AUTHORIZATION.as_str()).is_some()
        || presigned::is_claimed(query)
        || signature_v2::is_claimed(query);
    if !signed {
        let words = "The request has a session token and no signature: sign it with the keys of the session.";
        return Err(refuse(S3ErrorCode::InvalidToken, words));
    }
    Ok(Some(token.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{code, presigned};

    #[test]
    fn a_token_is_given_once_and_with_a_signature() {
        let token = [("x-amz-security-token", "t")];
        assert_eq!(code("GET", "/abc", &token), "InvalidToken");
        assert_eq!(code("GET", "/abc?X-Amz-Security-Token=t", &[]), "InvalidToken");
        assert_eq!(code("GET", "/abc?x%2Damz-security-tokeN=t", &[]), "InvalidToken");
        let url = format!("/abc/k?{}&X-Amz-Security-Token=t", presigned());
        assert_eq!(code("GET", &url, &[]), "");
        assert_eq!(code("GET", &format!("{url}&X-Amz-Security-Token=t"), &[]), "InvalidToken");
        assert_eq!(code("GET", &url, &token), "InvalidToken");
        assert_eq!(
            code("GET", "/abc/k?AWSAccessKeyId=AKID&Signature=c2ln&Expires=1&x-amz-security-token=t", &[]),
            "InvalidRequest"
        );
    }
}
