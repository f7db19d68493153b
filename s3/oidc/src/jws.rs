//! A signed token in its compact form: header, claims and signature (RFC 7515, section 7.1; RFC 7519).
//!
//! - Nothing of a token may be trusted before its signature was verified, except for the choice of the keys to try.
//! - A header with `crit` is refused, because it asks for an extension, and this reader has none.
//! - A member that is given twice is refused: which of the two counts would depend on the reader.

use serde::{Deserialize, Deserializer};

use crate::encoding::decode;
use crate::refusal::Refusal;
use crate::time::{LEEWAY_SECONDS, NumericDate};

/// The longest token in bytes (AWS STS API, AssumeRoleWithWebIdentity).
pub const TOKEN_BYTES_MAX: usize = 20_000;
/// The longest key id in bytes.
const KEY_ID_BYTES_MAX: usize = 256;
/// The longest subject in bytes.
const SUBJECT_BYTES_MAX: usize = 1024;
/// The longest issuer in bytes.
const ISSUER_BYTES_MAX: usize = 1024;

/// The accepted algorithms (RFC 7518, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Algorithm {
    #[serde(rename = "RS256")]
    Rs256,
    #[serde(rename = "RS384")]
    Rs384,
    #[serde(rename = "RS512")]
    Rs512,
    #[serde(rename = "ES256")]
    Es256,
    #[serde(rename = "ES384")]
    Es384,
}

/// The header of a token.
#[derive(Debug, Deserialize)]
struct Header {
    alg: Algorithm,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    crit: Option<serde_json::Value>,
}

/// The claims of a token.
#[derive(Debug, Deserialize)]
pub(crate) struct Claims {
    pub(crate) iss: String,
    pub(crate) sub: String,
    pub(crate) aud: Audiences,
    pub(crate) exp: NumericDate,
    #[serde(default)]
    nbf: Option<NumericDate>,
    #[serde(default)]
    iat: Option<NumericDate>,
}

/// The audiences of a token: one text, or several.
#[derive(Debug)]
pub(crate) struct Audiences(pub(crate) Vec<String>);

impl<'de> Deserialize<'de> for Audiences {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            One(String),
            Several(Vec<String>),
        }
        Ok(match Given::deserialize(deserializer)? {
            Given::One(one) => Self(vec![one]),
            Given::Several(several) => Self(several),
        })
    }
}

/// A token that was parsed, and not yet verified.
#[derive(Debug)]
pub(crate) struct Token<'a> {
    pub(crate) algorithm: Algorithm,
    pub(crate) key_id: Option<String>,
    pub(crate) claims: Claims,
    /// The signed text: header and claims, as sent.
    pub(crate) signed: &'a str,
    pub(crate) signature: Vec<u8>,
}

impl<'a> Token<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, Refusal> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(Refusal::Malformed("it has more than 20,000 bytes"));
        }
        let parts: Vec<&str> = text.splitn(4, '.').collect();
        let [header, claims, signature] = parts[..] else {
            return Err(Refusal::Malformed("a signed token has three parts with dots between them"));
        };
        let signed = &text[..header.len() + 1 + claims.len()];
        let bytes = |part| decode(part).ok_or(Refusal::Malformed("a part is not base64url"));
        let Header { alg, kid, crit } = serde_json::from_slice(&bytes(header)?).map_err(|_| {
            Refusal::Malformed("its header has no algorithm of RS256, RS384, RS512, ES256 and ES384, or is no JSON")
        })?;
        if crit.is_some() {
            return Err(Refusal::Malformed("its header asks for an extension (crit)"));
        }
        if kid.as_ref().is_some_and(|kid| kid.len() > KEY_ID_BYTES_MAX) {
            return Err(Refusal::Malformed("its key id is too long"));
        }
        let claims: Claims = serde_json::from_slice(&bytes(claims)?)
            .map_err(|_| Refusal::Malformed("it has no valid iss, sub, aud and exp, or its claims are no JSON"))?;
        if claims.sub.is_empty() || claims.sub.len() > SUBJECT_BYTES_MAX || claims.iss.len() > ISSUER_BYTES_MAX {
            return Err(Refusal::Malformed("its subject or its issuer is empty or too long"));
        }
        Ok(Self { algorithm: alg, key_id: kid, claims, signed, signature: bytes(signature)? })
    }
}

impl Claims {
    /// Checks times and audience of a token whose signature was verified. Returns the audience that is accepted.
    pub(crate) fn check(&self, audiences: &[String], now: i64) -> Result<String, Refusal> {
        let expired = self.exp.0;
        if now >= expired.saturating_add(LEEWAY_SECONDS) {
            return Err(Refusal::Expired { now, expired });
        }
        let begins = self.nbf.into_iter().chain(self.iat).map(|date| date.0).max();
        if let Some(from) = begins.filter(|from| *from > now.saturating_add(LEEWAY_SECONDS)) {
            return Err(Refusal::NotYet { now, from });
        }
        let accepted = self.aud.0.iter().find(|audience| audiences.contains(audience));
        accepted.cloned().ok_or(Refusal::Audience)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn text(header: &str, claims: &str) -> String {
        format!("{}.{}.AAAA", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
    }

    fn why(header: &str, claims: &str) -> Option<Refusal> {
        Token::parse(&text(header, claims)).err()
    }

    const HEADER: &str = r#"{"alg":"RS256","kid":"a"}"#;
    const CLAIMS: &str = r#"{"iss":"https://i","sub":"s","aud":"a","exp":1800000600}"#;

    #[test]
    fn only_asymmetric_algorithms_are_read() {
        assert_eq!(why(HEADER, CLAIMS), None);
        for alg in
            ["none", "None", "NONE", "nOnE", "HS256", "HS384", "HS512", "PS256", "EdDSA", "ES512", "RS1", "", " RS256"]
        {
            assert!(why(&format!(r#"{{"alg":"{alg}","kid":"a"}}"#), CLAIMS).is_some(), "{alg}");
        }
        for header in [
            "{}",
            r#"{"alg":null}"#,
            r#"{"alg":["RS256"]}"#,
            r#"{"alg":"RS256","alg":"none"}"#,
            r#"{"alg":"RS256","crit":["exp"]}"#,
            r#"{"alg":"RS256","kid":7}"#,
            "[]",
            "",
        ] {
            assert!(why(header, CLAIMS).is_some(), "{header}");
        }
        assert!(why(&format!(r#"{{"alg":"RS256","kid":"{}"}}"#, "k".repeat(257)), CLAIMS).is_some());
    }

    #[test]
    fn a_token_has_three_parts_and_its_claims() {
        for bad in ["", ".", "..", "...", "a.b", "a.b.c.d", "e30.e30.", "!!.!!.!!"] {
            assert!(matches!(Token::parse(bad), Err(Refusal::Malformed(_))), "{bad}");
        }
        let padded = text(HEADER, CLAIMS).replace(".AAAA", ".AAA=");
        assert!(Token::parse(&padded).is_err(), "padding is not part of base64url here");
        for claims in [
            r#"{"sub":"s","aud":"a","exp":1}"#,
            r#"{"iss":"i","aud":"a","exp":1}"#,
            r#"{"iss":"i","sub":"s","exp":1}"#,
            r#"{"iss":"i","sub":"s","aud":"a"}"#,
            r#"{"iss":"i","sub":"","aud":"a","exp":1}"#,
            r#"{"iss":"i","sub":"s","aud":"a","exp":"1800000600"}"#,
            r#"{"iss":"i","sub":"s","aud":"a","exp":1800000600,"nbf":"never"}"#,
            r#"{"iss":"i","sub":"s","sub":"t","aud":"a","exp":1800000600}"#,
            r#"{"iss":"i","sub":"s","aud":{"a":1},"exp":1800000600}"#,
        ] {
            assert!(why(HEADER, claims).is_some(), "{claims}");
        }
        let huge = text(HEADER, &format!(r#"{{"iss":"i","sub":"{}"}}"#, "x".repeat(20_000)));
        assert_eq!(Token::parse(&huge).err(), Some(Refusal::Malformed("it has more than 20,000 bytes")));
        assert!(Token::parse(&text(HEADER, &"[".repeat(5_000))).is_err());
    }

    #[test]
    fn times_have_a_small_leeway_and_audiences_are_exact() {
        let check = |claims: &str, audience: &str| {
            let text = text(HEADER, claims);
            Token::parse(&text).unwrap().claims.check(&[audience.to_owned()], NOW).map_err(|refusal| match refusal {
                Refusal::Expired { .. } => "expired",
                Refusal::NotYet { .. } => "not yet",
                Refusal::Audience => "audience",
                _ => "another",
            })
        };
        let with = |more: &str, exp: i64| format!(r#"{{"iss":"i","sub":"s","aud":["a","b"],"exp":{exp}{more}}}"#);
        assert_eq!(check(&with("", NOW + 1), "b").as_deref(), Ok("b"));
        assert!(check(&with("", NOW - LEEWAY_SECONDS + 1), "a").is_ok());
        assert_eq!(check(&with("", NOW - LEEWAY_SECONDS), "a"), Err("expired"));
        for claim in ["nbf", "iat"] {
            let at = |second: i64| check(&with(&format!(r#","{claim}":{second}"#), NOW + 600), "a");
            assert!(at(NOW + LEEWAY_SECONDS).is_ok());
            assert_eq!(at(NOW + LEEWAY_SECONDS + 1), Err("not yet"), "{claim}");
        }
        for audience in ["A", "a ", "", "ab", "*"] {
            assert_eq!(check(&with("", NOW + 600), audience), Err("audience"), "{audience}");
        }
        assert_eq!(check(r#"{"iss":"i","sub":"s","aud":[],"exp":1800000600}"#, "a"), Err("audience"));
    }
}
