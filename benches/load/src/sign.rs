//! AWS Signature Version 4, of a request and of the chunks of its body.

use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};

/// SHA-256 of empty content.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A signing key for one day and region.
pub struct Signer {
    key: String,
    scope: String,
    signing: [u8; 32],
}

/// A request to be signed.
pub struct Unsigned<'a> {
    pub method: &'a str,
    /// The path, encoded as it is sent.
    pub path: &'a str,
    /// The query, sorted and encoded as it is sent.
    pub query: &'a str,
    pub host: &'a str,
    /// The value of `x-amz-content-sha256`.
    pub content: &'a str,
    pub stamp: &'a str,
    /// The length of a body whose chunks are signed.
    pub decoded: Option<usize>,
}

impl Signer {
    /// The signing key for the day of `stamp`.
    pub fn new(key: &str, secret: &str, region: &str, stamp: &str) -> Self {
        let day = &stamp[..8];
        let mut signing = mac(format!("AWS4{secret}").as_bytes(), day.as_bytes());
        for part in [region, "s3", "aws4_request"] {
            signing = mac(&signing, part.as_bytes());
        }
        Self { key: key.into(), scope: format!("{day}/{region}/s3/aws4_request"), signing }
    }

    /// The `Authorization` header, and its signature, which is an input of the first chunk's signature.
    pub fn sign(&self, request: &Unsigned<'_>) -> (String, String) {
        let Unsigned { method, path, query, host, content, stamp, decoded } = request;
        let mut names = "host;x-amz-content-sha256;x-amz-date".to_owned();
        let mut headers = format!("host:{host}\nx-amz-content-sha256:{content}\nx-amz-date:{stamp}\n");
        if let Some(length) = decoded {
            names += ";x-amz-decoded-content-length";
            headers += &format!("x-amz-decoded-content-length:{length}\n");
        }
        let canonical = format!("{method}\n{path}\n{query}\n{headers}\n{names}\n{content}");
        let hashed = hex(&Sha256::digest(canonical));
        let signature = self.seal(&format!("AWS4-HMAC-SHA256\n{stamp}\n{}\n{hashed}", self.scope));
        let (key, scope) = (&self.key, &self.scope);
        let header = format!("AWS4-HMAC-SHA256 Credential={key}/{scope},SignedHeaders={names},Signature={signature}");
        (header, signature)
    }

    /// The signature of a chunk; `before` is the signature before it.
    pub fn sign_chunk(&self, stamp: &str, before: &str, chunk: &[u8]) -> String {
        let (scope, hashed) = (&self.scope, hex(&Sha256::digest(chunk)));
        self.seal(&format!("AWS4-HMAC-SHA256-PAYLOAD\n{stamp}\n{scope}\n{before}\n{EMPTY}\n{hashed}"))
    }

    fn seal(&self, text: &str) -> String {
        hex(&mac(&self.signing, text.as_bytes()))
    }
}

fn mac(key: &[u8], data: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(data);
    mac.finalize().into_bytes().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
