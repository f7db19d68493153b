//! The keys of an issuer (RFC 7517), and the verification of signatures with them (RFC 7518, section 3).
//!
//! - The type of a key determines the algorithms that it verifies, so a token cannot have an RSA key used as a secret of
//!   HMAC, nor have its signature left out.
//! - Keys of other types and uses are passed over: issuers may have some.

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

use crate::encoding::decode;
use crate::jws::{Algorithm, Token};

/// The most keys of an issuer.
pub(crate) const KEYS_MAX: usize = 64;

/// A key of an issuer.
#[derive(Debug)]
struct Key {
    id: Option<String>,
    /// The only algorithm that it is for, if it names one.
    algorithm: Option<String>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    P384(Vec<u8>),
}

/// The keys of an issuer.
#[derive(Debug)]
pub(crate) struct KeySet(Vec<Key>);

#[derive(Deserialize)]
struct Document {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Given {
    kty: String,
    #[serde(default, rename = "use")]
    usage: Option<String>,
    #[serde(default)]
    key_ops: Option<Vec<String>>,
    kid: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Parses a document of keys.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let Document { keys } =
            serde_json::from_slice(bytes).map_err(|error| format!("it is no set of keys: {error}"))?;
        if keys.len() > KEYS_MAX {
            return Err(format!("it has {} keys; at most {KEYS_MAX} are read", keys.len()));
        }
        let keys: Vec<Key> =
            keys.into_iter().filter_map(|key| serde_json::from_value::<Given>(key).ok()?.key()).collect();
        if keys.is_empty() {
            return Err("it has no RSA, P-256 or P-384 key for signatures".into());
        }
        Ok(Self(keys))
    }

    /// Whether a key could have signed this token.
    pub(crate) fn has_key_for(&self, token: &Token<'_>) -> bool {
        self.0.iter().any(|key| key.is_for(token))
    }

    /// Whether a key verifies the signature.
    pub(crate) fn verifies(&self, token: &Token<'_>) -> bool {
        self.0.iter().filter(|key| key.is_for(token)).any(|key| key.verifies(token))
    }
}

impl Given {
    fn key(self) -> Option<Key> {
        let signs = self.usage.as_ref().is_none_or(|usage| usage == "sig");
        let verifies = self.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !signs || !verifies {
            return None;
        }
        let bytes = |text: &Option<String>| decode(text.as_deref()?);
        let material = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => Material::Rsa { modulus: bytes(&self.n)?, exponent: bytes(&self.e)? },
            ("EC", Some("P-256")) => Material::P256(point(&bytes(&self.x)?, &bytes(&self.y)?, 32)?),
            ("EC", Some("P-384")) => Material::P384(point(&bytes(&self.x)?, &bytes(&self.y)?, 48)?),
            _ => return None,
        };
        Some(Key { id: self.kid, algorithm: self.alg, material })
    }
}

/// An uncompressed point: the byte 4 and both coordinates, each of full length (RFC 7518, section 6.2.1).
fn point(x: &[u8], y: &[u8], length: usize) -> Option<Vec<u8>> {
    (x.len() == length && y.len() == length).then(|| [&[4], x, y].concat())
}

impl Key {
    /// Whether id and algorithm of a token allow this key. A token without a key id may be of any key.
    fn is_for(&self, token: &Token<'_>) -> bool {
        let named = token.key_id.is_none() || token.key_id == self.id;
        let algorithm = self.algorithm.as_ref().is_none_or(|algorithm| *algorithm == token.algorithm.name());
        let fits = matches!(
            (&self.material, token.algorithm),
            (Material::Rsa { .. }, Algorithm::Rs256 | Algorithm::Rs384 | Algorithm::Rs512)
                | (Material::P256(_), Algorithm::Es256)
                | (Material::P384(_), Algorithm::Es384)
        );
        named && algorithm && fits
    }

    fn verifies(&self, token: &Token<'_>) -> bool {
        let (text, signature) = (token.signed.as_bytes(), token.signature.as_slice());
        let rsa = |modulus: &[u8], exponent: &[u8], parameters| {
            RsaPublicKeyComponents { n: modulus, e: exponent }.verify(parameters, text, signature).is_ok()
        };
        match (&self.material, token.algorithm) {
            (Material::Rsa { modulus, exponent }, Algorithm::Rs256) => {
                rsa(modulus, exponent, &RSA_PKCS1_2048_8192_SHA256)
            }
            (Material::Rsa { modulus, exponent }, Algorithm::Rs384) => {
                rsa(modulus, exponent, &RSA_PKCS1_2048_8192_SHA384)
            }
            (Material::Rsa { modulus, exponent }, Algorithm::Rs512) => {
                rsa(modulus, exponent, &RSA_PKCS1_2048_8192_SHA512)
            }
            (Material::P256(point), Algorithm::Es256) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(text, signature).is_ok()
            }
            (Material::P384(point), Algorithm::Es384) => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(text, signature).is_ok()
            }
            _ => false,
        }
    }
}

impl Algorithm {
    /// Its name in tokens and keys.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_other_types_and_uses_are_passed_over() {
        let refused = |keys: &str| KeySet::parse(format!(r#"{{"keys":[{keys}]}}"#).as_bytes()).is_err();
        let rsa = r#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#;
        assert!(!refused(rsa));
        assert!(!refused(&format!(r#"7,{{"kty":"oct","k":"AA"}},{{}},{rsa}"#)));
        for keys in [
            "",
            r#"{"kty":"oct","k":"c2VjcmV0","alg":"HS256"}"#,
            r#"{"kty":"RSA","n":"AQAB","e":"AQAB","use":"enc"}"#,
            r#"{"kty":"RSA","n":"AQAB","e":"AQAB","key_ops":["encrypt"]}"#,
            r#"{"kty":"RSA","n":"AQAB"}"#,
            r#"{"kty":"RSA","n":"?","e":"AQAB"}"#,
            r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#,
            r#"{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}"#,
            r#"{"kty":"OKP","crv":"Ed25519","x":"AA"}"#,
        ] {
            assert!(refused(keys), "{keys}");
        }
        for document in ["", "[]", "{}", r#"{"keys":{}}"#, "<html>"] {
            assert!(KeySet::parse(document.as_bytes()).is_err(), "{document}");
        }
        assert!(refused(&vec![rsa; KEYS_MAX + 1].join(",")));
    }
}
