//! Tokens of OpenID Connect: which configured issuer signed one, for whom, and until when.
//!
//! - Only configured issuers count. A token chooses among them by its exact `iss`; no address in a token is ever fetched.
//! - A token is accepted after its signature was verified with a key of its issuer, and its `exp`, `nbf`, `iat` and `aud`
//!   were checked. The type of the key determines the algorithms; there is neither `none` nor HMAC.
//! - Keys of an issuer are cached. An unknown key id has them fetched again, at most once in [`REFETCH`] for each issuer;
//!   all requests that wait for keys wait for one fetch.
//! - Everything read is bounded: the token, the documents of the issuer, their number of keys, the time of a fetch.
//! - No error contains a token.
//!
//! This crate knows neither the store nor S3. (RFC 7515, RFC 7517, RFC 7518, RFC 7519; OpenID Connect Discovery 1.0.)

mod cache;
mod encoding;
mod fetch;
mod file;
mod issuer;
mod jwk;
mod jws;
mod refusal;
mod source;
#[cfg(test)]
mod tests;
mod time;

pub use cache::REFETCH;
pub use issuer::{Issuer, Issuers, Misconfigured, VerifiedToken};
pub use jws::TOKEN_BYTES_MAX;
pub use refusal::Refusal;
pub use source::KeySource;
pub use time::LEEWAY_SECONDS;

/// Parses foreign bytes as a token and as a set of keys, for the fuzz targets.
#[doc(hidden)]
pub fn parse_foreign(bytes: &[u8]) {
    let _ = jwk::KeySet::parse(bytes).is_ok();
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(token) = jws::Token::parse(text) else { return };
    let _ = token.claims.check(&["audience".to_owned()], 1_800_000_000).is_ok();
}
