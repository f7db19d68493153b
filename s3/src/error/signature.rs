//! Details of a refused signature: what the server compared, so that clients can find their mistake.
//!
//! - The canonical request and the string to sign are computed again from the same head as `s3s` did. They consist of
//!   what the client sent and contain no secret: the correct signature and the key are never shown.
//! - Headers that a browser adds to another site's script's request (cookies, a password) are not sent back: otherwise
//!   a script could read them by naming them as signed.
//! - Texts longer than [`WHOLE_BYTES_MAX`] are omitted, so that the response stays small.

use std::borrow::Cow;
use std::fmt::Write as _;

use http::header::AUTHORIZATION;
use objstore::clock::Timestamp;
use percent_encoding::percent_decode_str;
use s3s::dto::TimestampFormat;
use s3s::{S3Error, S3ErrorCode};
use s3s_sigv4::{
    AmzDate, AuthorizationV4, CredentialV4, Payload, PresignedUrlV4, create_canonical_request,
    create_presigned_canonical_request, create_string_to_sign,
};

use super::document::Failure;
use super::particulars::Particulars;
use super::sent::Sent;
use crate::query::Query;
use crate::signed_headers::collect;

/// The message of `s3s`, and of AWS, for an expired URL.
pub(super) const EXPIRED: &str = "Request has expired";
/// The message of `s3s`, and of AWS, for headers outside the signature.
pub(super) const NOT_SIGNED: &str = "There were headers present in the request which were not signed";

/// The longest text that is shown, in bytes; it is never truncated.
const WHOLE_BYTES_MAX: usize = 8 * 1024;
/// The largest accepted clock skew (S3 API, "Error responses", RequestTimeTooSkewed).
const SKEW_MILLIS_MAX: u32 = 15 * 60 * 1000;
/// Headers whose values are never sent back, even to the signer.
const WITHHELD: [&str; 6] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "x-amz-copy-source-server-side-encryption-customer-key",
    "x-amz-security-token",
    "x-amz-server-side-encryption-customer-key",
];
/// The text in place of such a value.
const REDACTED: &str = "REDACTED";

/// Adds AWS's details of a refused signature.
pub(super) fn explain(failure: &mut Failure, sent: &Sent, now: Timestamp) {
    let particulars = &mut failure.particulars;
    match (failure.code.as_str(), failure.message.as_str()) {
        ("SignatureDoesNotMatch", _) => compared(particulars, sent),
        ("RequestTimeTooSkewed", _) => {
            let in_url = sent.parameter("X-Amz-Date");
            particulars.add("RequestTime", sent.header("x-amz-date").unwrap_or(&in_url));
            particulars.add("ServerTime", &written(now));
            particulars.add("MaxAllowedSkewMilliseconds", &SKEW_MILLIS_MAX.to_string());
        }
        ("AccessDenied", EXPIRED) => expired(particulars, sent, now),
        ("AccessDenied", NOT_SIGNED) => particulars.add("HeadersNotSigned", &unsigned(sent)),
        _ => {}
    }
}

/// A signature, with the texts that it was computed from.
struct Signature<'a> {
    credential: CredentialV4<'a>,
    date: AmzDate,
    provided: &'a str,
    /// The canonical request as `s3s` computed it, and with secret values replaced; `None` if a signed header is not
    /// text.
    canonical: Option<(String, String)>,
}

/// Adds the string to sign and the canonical request (S3 User Guide, "SignatureDoesNotMatch").
fn compared(particulars: &mut Particulars, sent: &Sent) {
    let query = Query::of(&sent.uri);
    let whole = sent.header(AUTHORIZATION.as_str()).map(with_any_signature);
    let found = match &whole {
        Some((authorization, provided)) => of_header(sent, &query, authorization, provided),
        None => of_url(sent, &query),
    };
    let Some(Signature { credential, date, provided, canonical }) = found else { return };
    particulars.add("AWSAccessKeyId", credential.access_key_id);
    let Some((canonical, told)) = canonical.filter(|(canonical, _)| canonical.len() <= WHOLE_BYTES_MAX) else {
        particulars.add("SignatureProvided", provided);
        particulars.hint = Some("The canonical request has no valid text, or is too long to be shown.".to_owned());
        return;
    };
    let string = create_string_to_sign(&canonical, &date, credential.aws_region, credential.aws_service);
    particulars.add_whole("StringToSign", &string);
    particulars.add("SignatureProvided", provided);
    particulars.add_whole("StringToSignBytes", &hex(&string));
    particulars.add_whole("CanonicalRequest", &told);
    particulars.add_whole("CanonicalRequestBytes", &hex(&told));
    if told != canonical {
        particulars.hint = Some(format!("Secret values in CanonicalRequest are shown as {REDACTED}."));
    }
}

/// The error for a form whose policy has a wrong signature; the policy is the string to sign (S3 API, "Browser-based
/// uploads using POST").
pub(crate) fn of_policy(access_key: &str, policy: &str, provided: &str) -> S3Error {
    let mut particulars = Particulars::default();
    particulars.add("AWSAccessKeyId", access_key);
    if policy.len() <= WHOLE_BYTES_MAX {
        particulars.add_whole("StringToSign", policy);
        particulars.add_whole("StringToSignBytes", &hex(policy));
    }
    particulars.add("SignatureProvided", provided);
    let mut error = super::plain(S3ErrorCode::SignatureDoesNotMatch);
    error.set_source(Box::new(particulars));
    error
}

/// An `Authorization` header with a placeholder in place of its signature, so that it always parses; and the signature.
fn with_any_signature(authorization: &str) -> (Cow<'_, str>, &str) {
    const FIELD: &str = "Signature=";
    let Some((start, rest)) = authorization.split_once(FIELD) else { return (authorization.into(), "") };
    let (provided, more) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
    (format!("{start}{FIELD}{}{more}", "0".repeat(64)).into(), provided.trim())
}

fn of_header<'a>(sent: &Sent, query: &Query, authorization: &'a str, provided: &'a str) -> Option<Signature<'a>> {
    let AuthorizationV4 { credential, signed_headers, .. } = AuthorizationV4::parse(authorization).ok()?;
    let date = AmzDate::parse(sent.header("x-amz-date")?).ok()?;
    let payload = sent.header("x-amz-content-sha256")?;
    let canonical = canonical(sent, &signed_headers, |path, headers| {
        create_canonical_request(sent.method.as_str(), path, query.pairs(), headers, Payload::SingleChunk(payload))
    });
    Some(Signature { credential, date, provided, canonical })
}

fn of_url<'a>(sent: &Sent, query: &'a Query) -> Option<Signature<'a>> {
    let url = PresignedUrlV4::parse(query.pairs(), u32::MAX).ok()?;
    let canonical = canonical(sent, &url.signed_headers, |path, headers| {
        create_presigned_canonical_request(sent.method.as_str(), path, query.pairs(), headers)
    });
    Some(Signature { credential: url.credential, date: url.amz_date, provided: url.signature, canonical })
}

/// A canonical request as computed, and as shown.
fn canonical(
    sent: &Sent,
    signed: &[&str],
    create: impl Fn(&str, &[(&str, &str)]) -> String,
) -> Option<(String, String)> {
    let path = percent_decode_str(sent.uri.path()).decode_utf8().ok()?;
    let headers = collect(signed, &sent.headers, &sent.uri, sent.version)?;
    let told: Vec<_> = headers.iter().map(|(name, value)| (*name, shown(name, value))).collect();
    Some((create(&path, &headers), create(&path, &told)))
}

/// The value of a header, or the replacement for a secret one.
fn shown<'a>(name: &str, value: &'a str) -> &'a str {
    if WITHHELD.iter().any(|withheld| withheld.eq_ignore_ascii_case(name)) { REDACTED } else { value }
}

/// Adds how long a URL was valid.
fn expired(particulars: &mut Particulars, sent: &Sent, now: Timestamp) {
    let query = Query::of(&sent.uri);
    let seconds = query.get("X-Amz-Expires").unwrap_or_default();
    particulars.add("X-Amz-Expires", seconds);
    let began = query.get("X-Amz-Date").and_then(|date| AmzDate::parse(date).ok()?.to_time());
    if let (Some(began), Ok(seconds)) = (began, seconds.parse::<i64>()) {
        particulars.add("Expires", &written(Timestamp::from_parts(began.as_second().saturating_add(seconds), 0)));
    }
    particulars.add("ServerTime", &written(now));
}

/// The `x-amz-…` headers that the signature does not cover.
fn unsigned(sent: &Sent) -> String {
    let query = Query::of(&sent.uri);
    let whole = sent.header(AUTHORIZATION.as_str()).map(with_any_signature);
    let signed = match &whole {
        Some((authorization, _)) => AuthorizationV4::parse(authorization).map(|parsed| parsed.signed_headers).ok(),
        None => query.get("X-Amz-SignedHeaders").map(|names| names.split(';').collect()),
    };
    let signed = signed.unwrap_or_default();
    let named = |name: &str| signed.iter().any(|signed| signed.eq_ignore_ascii_case(name));
    let names = sent.headers.keys().map(http::HeaderName::as_str);
    let missing = names.filter(|name| name.starts_with("x-amz-") && *name != "x-amz-content-sha256" && !named(name));
    missing.collect::<Vec<_>>().join(", ")
}

/// A text's bytes in hexadecimal, as AWS writes them.
fn hex(text: &str) -> String {
    let mut written = String::with_capacity(text.len() * 3);
    for (index, byte) in text.bytes().enumerate() {
        let blank = if index == 0 { "" } else { " " };
        // Writing to a string cannot fail.
        let _ = write!(written, "{blank}{byte:02x}");
    }
    written
}

/// A time as AWS writes it in errors, to the second.
fn written(time: Timestamp) -> String {
    let whole = Timestamp::from_parts(time.parts().0, 0);
    let mut text = Vec::new();
    let formatted = crate::response::time(whole).format(TimestampFormat::DateTime, &mut text);
    let text = formatted.ok().and_then(|()| String::from_utf8(text).ok()).unwrap_or_default();
    text.replace(".000Z", "Z")
}
