//! Presigned URLs of Signature Version 2 (S3 User Guide, "Signing and authenticating REST requests", query string
//! request authentication): an access key id, an expiry and an HMAC-SHA1 in the query.
//!
//! - Old signers create such URLs by default, so they are accepted, for URLs only. A server can be configured to refuse
//!   them (`Config::presigned_v2`, decision 0065).
//! - Everything that selects the operation is signed: method, path, every subresource, `response-…`, all `x-amz-…`,
//!   Content-Type and Content-MD5. AWS's signers leave out newer subresources (`?retention`, `?encryption`): such URLs
//!   do not verify, because otherwise anyone who holds the URL of a PUT could change what it does.
//! - A URL is valid for at most seven days, as with Version 4. No error contains a secret.

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderName};
use http::request::Parts;
use objstore::clock::{Clock as _, SystemClock, Timestamp};
use objstore::name::BucketName;
use s3s::auth::SecretKey;
use s3s::{S3ErrorCode, S3Result};
use subtle::ConstantTimeEq as _;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::auth::secret_key;
use crate::error::{Detail as _, plain, refuse, says};
use crate::guard::EXPIRES_SECONDS_MAX;
use crate::query::{Query, retain_parameters, signature_v2};
use crate::service::Call;

/// The suffix of headers whose values are not sent back in errors.
const CUSTOMER_KEY: &str = "-customer-key:";

/// Verifies the signature if the URL claims one, records the signer, and removes the parameters from the URL, because
/// `s3s` would compute the signature differently.
pub(crate) async fn verify(call: &Call, head: &mut Parts) -> S3Result<()> {
    let query = Query::of(&head.uri);
    if !signature_v2::is_claimed(&query) {
        return Ok(());
    }
    let request = &call.request;
    let bucket = request.bucket.as_ref().filter(|_| request.by_host).map(BucketName::as_str);
    let url = Signed::parse(head, &query, bucket, SystemClock.now())?;
    let secret = secret_key(call, &url.access_key).await?;
    url.verify(&secret)?;
    request.set_url_signer(url.access_key);
    retain_parameters(&mut head.uri, |name| !signature_v2::is_parameter(name));
    Ok(())
}

/// Parses a signature, for the fuzz targets.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn parse(head: &Parts) {
    let _ = Signed::parse(head, &Query::of(&head.uri), Some("abc"), Timestamp(0)).is_ok();
}

/// A signature in a URL, not yet verified.
struct Signed {
    access_key: String,
    signature: String,
    /// The string to sign.
    text: String,
}

impl Signed {
    fn parse(head: &Parts, query: &Query, bucket: Option<&str>, now: Timestamp) -> S3Result<Self> {
        let [Some(access_key), Some(expires), Some(signature)] = signature_v2::PARAMETERS.map(|name| query.only(name))
        else {
            let sentence = "Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters";
            return Err(says(S3ErrorCode::AccessDenied, sentence));
        };
        check_expiry(expires, now.parts().0)?;
        let text = string_to_sign(head, query, expires, bucket)?;
        // A plus sign that was not percent-encoded decodes to a blank, which Base64 does not have.
        Ok(Self { access_key: access_key.to_owned(), signature: signature.replace(' ', "+"), text })
    }

    fn verify(&self, secret: &SecretKey) -> S3Result<()> {
        let made = s3s_sigv2::calculate_signature(secret.expose(), &self.text);
        if made.as_bytes().ct_eq(self.signature.as_bytes()).into() {
            return Ok(());
        }
        let error = plain(S3ErrorCode::SignatureDoesNotMatch).with("AWSAccessKeyId", &self.access_key);
        let error = error.with("SignatureProvided", &self.signature);
        // A customer's encryption key is not sent back.
        Err(if self.text.contains(CUSTOMER_KEY) { error } else { error.with("StringToSign", &self.text) })
    }
}

fn check_expiry(expires: &str, now_seconds: i64) -> S3Result<()> {
    let digits = !expires.is_empty() && expires.bytes().all(|byte| byte.is_ascii_digit());
    let Some(until) = expires.parse::<i64>().ok().filter(|_| digits) else {
        let sentence = format!("Invalid date (should be seconds since epoch): {expires}");
        return Err(says(S3ErrorCode::AccessDenied, sentence));
    };
    if now_seconds > until {
        let error = says(S3ErrorCode::AccessDenied, "Request has expired");
        return Err(error.with("Expires", written(until)).with("ServerTime", written(now_seconds)));
    }
    if until - now_seconds > i64::from(EXPIRES_SECONDS_MAX) {
        let hint = format!("Expires is {until}, more than seven days ahead; presign the URL for less.");
        return Err(refuse(S3ErrorCode::AccessDenied, hint));
    }
    Ok(())
}

/// A second since 1970 in RFC 3339 format.
fn written(seconds: i64) -> String {
    let time = OffsetDateTime::from_unix_timestamp(seconds).ok().and_then(|time| time.format(&Rfc3339).ok());
    time.unwrap_or_else(|| seconds.to_string())
}

/// The signed text: method, MD5, type, expiry, `x-amz-…` headers, and the resource.
fn string_to_sign(head: &Parts, query: &Query, expires: &str, bucket: Option<&str>) -> S3Result<String> {
    let md5 = joined(&head.headers, &HeaderName::from_static("content-md5"))?;
    let kind = joined(&head.headers, &CONTENT_TYPE)?;
    let mut text = format!("{}\n{md5}\n{kind}\n{expires}\n", head.method);
    for (name, value) in amz_headers(&head.headers, query)? {
        text += &format!("{name}:{value}\n");
    }
    if let Some(bucket) = bucket {
        text += &format!("/{bucket}");
    }
    text += head.uri.path();
    let mut signed: Vec<_> = query.pairs().iter().filter(|(name, _)| signature_v2::covers(name)).collect();
    signed.sort();
    for (at, (name, value)) in signed.into_iter().enumerate() {
        text.push(if at == 0 { '?' } else { '&' });
        text += name;
        if !value.is_empty() {
            text += &format!("={value}");
        }
    }
    Ok(text)
}

/// The `x-amz-…` headers in order. Query parameters count as headers too, including those that are not turned into
/// headers.
fn amz_headers(headers: &HeaderMap, query: &Query) -> S3Result<BTreeMap<String, String>> {
    let is_amz = |name: &str| name.starts_with("x-amz-");
    let mut found = BTreeMap::new();
    for name in headers.keys().filter(|name| is_amz(name.as_str())) {
        found.insert(name.as_str().to_owned(), joined(headers, name)?);
    }
    for (name, value) in query.pairs() {
        let name = name.to_ascii_lowercase();
        if is_amz(&name) && !headers.contains_key(&name) {
            let values: &mut String = found.entry(name).or_default();
            *values = if values.is_empty() { value.trim().to_owned() } else { format!("{values},{}", value.trim()) };
        }
    }
    Ok(found)
}

/// All values of a header, joined as they are signed.
fn joined(headers: &HeaderMap, name: &HeaderName) -> S3Result<String> {
    let values = headers.get_all(name).iter().map(|value| std::str::from_utf8(value.as_bytes()).map(str::trim));
    let values: Result<Vec<&str>, _> = values.collect();
    Ok(values.map_err(|_| plain(S3ErrorCode::SignatureDoesNotMatch))?.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The string to sign of a request, addressed by `bucket`'s own host or by path.
    fn text(method: &str, uri: &str, headers: &[(&str, &str)], bucket: Option<&str>) -> String {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        string_to_sign(&head, &Query::of(&head.uri), "1175139620", bucket).unwrap()
    }

    #[test]
    fn the_string_to_sign_is_the_one_of_the_manual() {
        // S3 User Guide, Signing and authenticating REST requests: examples.
        assert_eq!(
            text("GET", "/photos/puppy.jpg", &[], Some("awsexamplebucket1")),
            "GET\n\n\n1175139620\n/awsexamplebucket1/photos/puppy.jpg"
        );
        let headers = [
            ("content-md5", "4gJE4saaMU4BqNR0kLY+lw=="),
            ("content-type", "application/x-download"),
            ("x-amz-meta-reviewedby", "joe@example.com"),
            ("x-amz-acl", "public-read"),
            ("x-amz-meta-reviewedby", "jane@example.com"),
            ("x-amz-meta-filechecksum", "0x02661779"),
        ];
        assert_eq!(
            text("PUT", "/db-backup.dat.gz", &headers, Some("static.example.com")),
            "PUT\n4gJE4saaMU4BqNR0kLY+lw==\napplication/x-download\n1175139620\nx-amz-acl:public-read\n\
             x-amz-meta-filechecksum:0x02661779\nx-amz-meta-reviewedby:joe@example.com,jane@example.com\n\
             /static.example.com/db-backup.dat.gz"
        );
    }

    #[test]
    fn all_that_chooses_an_operation_is_signed() {
        let signed =
            text("PUT", "/b/k%20?versionId=7&retention&prefix=x&response-expires=a%20b&x-amz-A=%20c", &[], None);
        assert_eq!(signed, "PUT\n\n\n1175139620\nx-amz-a:c\n/b/k%20?response-expires=a b&retention&versionId=7");
        let twice = text("GET", "/b/k?versionId=1&versionId=2", &[], None);
        assert!(twice.ends_with("/b/k?versionId=1&versionId=2"), "{twice}");
    }

    #[test]
    fn a_url_is_good_until_it_expires_and_for_seven_days() {
        let (now, longest) = (1_800_000_000, i64::from(EXPIRES_SECONDS_MAX));
        for (expires, good) in [
            (now.to_string(), true),
            ((now - 1).to_string(), false),
            ((now + longest).to_string(), true),
            ((now + longest + 1).to_string(), false),
            (String::new(), false),
            ("-1".into(), false),
            ("+1800000060".into(), false),
            (u128::MAX.to_string(), false),
            ("tomorrow".into(), false),
        ] {
            assert_eq!(check_expiry(&expires, now).is_ok(), good, "{expires}");
        }
    }
}
