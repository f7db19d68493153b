//! Renewal of a request's signature after its signed headers were rewritten.
//!
//! - The original signature is verified over the original headers. Only if it is valid, the headers are changed, and
//!   the signature of the same key for the new headers replaces it. Everything else (age, scope, unsigned headers)
//!   `s3s` checks afterwards as usual.
//! - Where chunks of the body are signed, their signatures continue from the head's: such a request stays unchanged.

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use s3s_sigv4::{
    AmzContentSha256, AmzDate, AuthorizationV4, CredentialV4, Payload, PresignedUrlV4, calculate_signature_with_key,
    create_canonical_request, create_canonical_request_with_raw_uri_path, create_presigned_canonical_request,
    create_presigned_canonical_request_with_raw_uri_path, create_string_to_sign, derive_signing_key,
};
use subtle::ConstantTimeEq as _;

use super::Change;
use crate::auth::secret_key;
use crate::guard::EXPIRES_SECONDS_MAX;
use crate::query::Query;
use crate::service::Call;
use crate::signed_headers::collect;

/// Applies the changes if the signature allows it.
pub(super) async fn apply(call: &Call, head: &mut Parts, changes: &[Change]) {
    let mut headers = head.headers.clone();
    for (name, value) in changes {
        headers.insert(name.clone(), value.clone());
    }
    let query = Query::of(&head.uri);
    let Some(seal) = Seal::of(head, &query) else {
        // A request without a signature can be changed freely. One with a malformed signature is refused by `s3s`.
        head.headers = headers;
        return;
    };
    if !changes.iter().any(|(name, _)| seal.signed.iter().any(|signed| signed.eq_ignore_ascii_case(name.as_str()))) {
        head.headers = headers;
        return;
    }
    let CredentialV4 { access_key_id, aws_region, aws_service, .. } = seal.credential;
    let Ok(secret) = secret_key(call, access_key_id).await else { return };
    let key = derive_signing_key(secret.expose(), &seal.date, aws_region, aws_service);
    let Some(renewed) = seal.renew(&key, head, &query, &headers) else { return };
    let given = seal.signature.to_owned();
    if replace(&mut headers, &mut head.uri, &given, &renewed).is_some() {
        head.headers = headers;
    }
}

/// Replaces the original signature by the new one.
fn replace(headers: &mut HeaderMap, uri: &mut Uri, given: &str, renewed: &str) -> Option<()> {
    if let Some(header) = headers.get_mut(AUTHORIZATION) {
        *header = HeaderValue::try_from(header.to_str().ok()?.replacen(given, renewed, 1)).ok()?;
        return Some(());
    }
    let query = uri.query().filter(|query| query.matches(given).count() == 1)?.replacen(given, renewed, 1);
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{}?{query}", uri.path()).parse().ok()?);
    *uri = Uri::from_parts(parts).ok()?;
    Some(())
}

/// A signature of version 4 in the head of a request.
struct Seal<'a> {
    credential: CredentialV4<'a>,
    date: AmzDate,
    signed: Vec<&'a str>,
    signature: &'a str,
    /// The value of `x-amz-content-sha256`; `None` where the signature is in the URL.
    payload: Option<&'a str>,
}

impl<'a> Seal<'a> {
    fn of(head: &'a Parts, query: &'a Query) -> Option<Self> {
        let text = |name| head.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        if let Some(header) = head.headers.get(AUTHORIZATION) {
            let found = AuthorizationV4::parse(header.to_str().ok()?.trim()).ok()?;
            let (date, payload) = (AmzDate::parse(text("x-amz-date")?).ok()?, text("x-amz-content-sha256")?);
            let AuthorizationV4 { credential, signed_headers: signed, signature, .. } = found;
            return Some(Self { credential, date, signed, signature, payload: Some(payload) });
        }
        let found = PresignedUrlV4::parse(query.pairs(), EXPIRES_SECONDS_MAX).ok()?;
        let PresignedUrlV4 { credential, amz_date: date, signed_headers, signature, .. } = found;
        Some(Self { credential, date, signed: signed_headers.into_iter().collect(), signature, payload: None })
    }

    /// The signature of the same request with `headers`; `None` if the original signature is not valid.
    fn renew(&self, key: &[u8; 32], head: &Parts, query: &Query, headers: &HeaderMap) -> Option<String> {
        // `s3s` also accepts a signature over the path as it was sent.
        [false, true].into_iter().find_map(|raw| {
            let made = self.make(key, head, query, &head.headers, raw)?;
            let good: bool = made.as_bytes().ct_eq(self.signature.as_bytes()).into();
            if good { self.make(key, head, query, headers, raw) } else { None }
        })
    }

    fn make(&self, key: &[u8; 32], head: &Parts, query: &Query, headers: &HeaderMap, raw: bool) -> Option<String> {
        let signed = collect(&self.signed, headers, &head.uri, head.version)?;
        let (method, pairs) = (head.method.as_str(), query.pairs());
        let decoded = percent_decode_str(head.uri.path()).decode_utf8().ok()?;
        let canonical = match (self.payload, raw) {
            (None, false) => create_presigned_canonical_request(method, &decoded, pairs, &signed),
            (None, true) => {
                create_presigned_canonical_request_with_raw_uri_path(method, head.uri.path(), pairs, &signed)
            }
            (Some(given), raw) => {
                let mut hash = String::new();
                let payload = payload(given, &mut hash)?;
                match raw {
                    false => create_canonical_request(method, &decoded, pairs, &signed, payload),
                    true => {
                        create_canonical_request_with_raw_uri_path(method, head.uri.path(), pairs, &signed, payload)
                    }
                }
            }
        };
        let CredentialV4 { aws_region, aws_service, .. } = self.credential;
        let text = create_string_to_sign(&canonical, &self.date, aws_region, aws_service);
        Some(hex_simd::encode_to_string(calculate_signature_with_key(&text, key), hex_simd::AsciiCase::Lower))
    }
}

/// What is signed of the body together with the head; `None` where the chunks of the body are signed separately.
fn payload<'a>(given: &str, hash: &'a mut String) -> Option<Payload<'a>> {
    match AmzContentSha256::parse(given).ok()? {
        AmzContentSha256::UnsignedPayload => Some(Payload::Unsigned),
        AmzContentSha256::StreamingUnsignedPayloadTrailer => Some(Payload::UnsignedMultipleChunksWithTrailer),
        AmzContentSha256::SingleChunk(bytes) => {
            *hash = hex_simd::encode_to_string(bytes, hex_simd::AsciiCase::Lower);
            Some(Payload::SingleChunk(hash))
        }
        _ => None,
    }
}
