//! Signature Version 4 of a request to STS (IAM User Guide, AWS Signature Version 4 for API requests).
//!
//! - It stands in the `Authorization` header, for the service `sts`, and covers the host, the date, the session token and
//!   the body. SDKs sign for the region of the endpoint, or for us-east-1, that of AWS's global endpoint.
//! - It is valid for 15 minutes around its date. It is compared in constant time.

use std::collections::BTreeSet;

use http::header::AUTHORIZATION;
use http::request::Parts;
use objstore::clock::Timestamp;
use s3s_sigv4::{
    AmzDate, AuthorizationV4, Payload, calculate_signature, create_canonical_request, create_string_to_sign,
};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::fault::Fault;
use super::seconds;
use crate::address::host;
use crate::auth::secret_key;
use crate::guard;
use crate::query::Query;
use crate::service::Call;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SERVICE: &str = "sts";
/// The region that SDKs sign for where they use AWS's global endpoint.
const GLOBAL_REGION: &str = "us-east-1";
/// How far a signature's date may differ from now, in seconds.
const SKEW_SECONDS: i64 = 15 * 60;
/// Headers that a signature has to cover if they are sent.
const REQUIRED: [&str; 3] = ["host", "x-amz-date", "x-amz-security-token"];

/// Verifies the signature of a request. The owner of its key becomes the caller of the request.
pub(super) async fn verify(call: &Call, head: &Parts, body: &[u8], now: Timestamp) -> Result<(), Fault> {
    let query = Query::of(&head.uri);
    let token = guard::session_token(&query, &head.headers).map_err(|error| Fault::of_keys(&error))?;
    let given = single(head, AUTHORIZATION.as_str())?.ok_or_else(Fault::unsigned)?;
    if given.split_ascii_whitespace().next() != Some(ALGORITHM) {
        return Err(Fault::incomplete(format!("sign the request with {ALGORITHM}")));
    }
    let signature = AuthorizationV4::parse(given)
        .map_err(|_| Fault::incomplete("the Authorization header has no Credential, SignedHeaders and Signature"))?;
    let text = single(head, "x-amz-date")?.ok_or_else(|| Fault::incomplete("the header x-amz-date is missing"))?;
    let date = AmzDate::parse(text)
        .map_err(|_| Fault::incomplete("x-amz-date is no date: write it as in 20260131T120000Z"))?;
    check_scope(&signature, &date, &call.region)?;
    check_date(&date, seconds(now))?;
    let headers = signed_headers(head, &signature)?;
    if let Some(token) = token {
        call.request.set_session_token(token);
    }
    let access_key = signature.credential.access_key_id;
    let secret = secret_key(call, access_key).await.map_err(|error| Fault::of_keys(&error))?;
    let hash = hex_simd::encode_to_string(Sha256::digest(body), hex_simd::AsciiCase::Lower);
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let canonical = create_canonical_request("POST", "/", query.pairs(), &headers, Payload::SingleChunk(&hash));
    let region = signature.credential.aws_region;
    let to_sign = create_string_to_sign(&canonical, &date, region, SERVICE);
    let made = calculate_signature(&to_sign, secret.expose(), &date, region, SERVICE);
    if made.as_bytes().ct_eq(signature.signature.as_bytes()).into() {
        return Ok(());
    }
    Err(Fault::signature(
        "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access \
         Key and signing method. Consult the service documentation for details.",
    ))
}

/// A header that is given at most once.
fn single<'a>(head: &'a Parts, name: &str) -> Result<Option<&'a str>, Fault> {
    let mut all = head.headers.get_all(name).iter();
    let Some(value) = all.next() else { return Ok(None) };
    match (value.to_str(), all.next()) {
        (Ok(text), None) => Ok(Some(text.trim())),
        _ => Err(Fault::incomplete(format!("the header {name} is given twice, or is no text"))),
    }
}

fn check_scope(signature: &AuthorizationV4<'_>, date: &AmzDate, region: &str) -> Result<(), Fault> {
    let credential = &signature.credential;
    if credential.aws_service != SERVICE {
        return Err(Fault::signature("Credential should be scoped to correct service: 'sts'."));
    }
    if credential.aws_region != region && credential.aws_region != GLOBAL_REGION {
        return Err(Fault::signature("Credential should be scoped to a valid region."));
    }
    if credential.date != date.fmt_date().as_str() {
        let words = "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP";
        return Err(Fault::signature(words));
    }
    Ok(())
}

fn check_date(date: &AmzDate, now: i64) -> Result<(), Fault> {
    let Some(time) = date.to_time() else {
        return Err(Fault::incomplete("x-amz-date is no date: write it as in 20260131T120000Z"));
    };
    let (signed, shown) = (time.as_second(), date.fmt_iso8601());
    if (now - signed).abs() <= SKEW_SECONDS {
        return Ok(());
    }
    Err(Fault::signature(match signed < now {
        true => format!("Signature expired: {shown} is more than 15 minutes ago"),
        false => format!("Signature not yet current: {shown} is more than 15 minutes ahead"),
    }))
}

/// The signed headers with their values, in the order of their names.
fn signed_headers(head: &Parts, signature: &AuthorizationV4<'_>) -> Result<Vec<(String, String)>, Fault> {
    let names: BTreeSet<String> = signature.signed_headers.iter().map(|name| name.to_ascii_lowercase()).collect();
    let missing = REQUIRED.iter().find(|name| {
        let sent = **name == "host" || head.headers.contains_key(**name);
        sent && !names.contains(**name)
    });
    if let Some(missing) = missing {
        return Err(Fault::signature(format!("'{missing}' must be a 'SignedHeader' in the AWS Authorization.")));
    }
    let mut headers = Vec::new();
    for name in names {
        if name == "host" {
            headers.push((name, host(head).to_owned()));
            continue;
        }
        for value in head.headers.get_all(&name) {
            let value = value.to_str().map_err(|_| Fault::incomplete(format!("the header {name} is no text")))?;
            headers.push((name.clone(), value.to_owned()));
        }
    }
    Ok(headers)
}
