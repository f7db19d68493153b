//! Signature Version 4, implemented from its specification and independently of the code under test.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, Mac};
use objstore::clock::{Clock as _, SystemClock};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::macros::format_description;

pub const REGION: &str = "us-east-1";
pub const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A key to sign with.
#[derive(Clone)]
pub struct Key {
    pub id: String,
    pub secret: String,
}

/// The headers of a signed request, and the inputs of its chunks' signatures.
pub struct Signed {
    pub headers: Vec<(String, String)>,
    date: String,
    scope: String,
    key: Vec<u8>,
    signature: String,
}

/// The credential scope of a signature, and whether the signature covers the host.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// The day, if it is not that of the request.
    pub day: Option<&'a str>,
    pub region: &'a str,
    pub service: &'a str,
    pub host: bool,
}

impl Scope<'_> {
    /// The scope of the endpoint.
    pub const HERE: Scope<'static> = Scope { day: None, region: REGION, service: "s3", host: true };

    fn text(&self, date: &str) -> String {
        format!("{}/{}/{}/aws4_request", self.day.unwrap_or(&date[..8]), self.region, self.service)
    }
}

/// Signs a request with the payload hash `payload`. `query` is sorted and encoded, as it is signed.
pub fn sign(key: &Key, method: &str, path: &str, query: &str, headers: &[(&str, &str)], payload: &str) -> Signed {
    sign_for(Scope::HERE, key, method, path, query, headers, payload)
}

/// Signs a request for another scope.
pub fn sign_for(
    scope: Scope<'_>,
    key: &Key,
    method: &str,
    path: &str,
    query: &str,
    headers: &[(&str, &str)],
    payload: &str,
) -> Signed {
    let date = now();
    let signing = signing_key(key, &scope.text(&date));
    let (covers_host, scope) = (scope.host, scope.text(&date));
    let mut headers: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    if !headers.iter().any(|(name, _)| name == "host") {
        headers.push(("host".into(), "localhost".into()));
    }
    headers.push(("x-amz-content-sha256".into(), payload.into()));
    headers.push(("x-amz-date".into(), date.clone()));
    headers.sort();
    let covered: Vec<_> = headers.iter().filter(|(name, _)| covers_host || name != "host").collect();
    let names: Vec<&str> = covered.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(";");
    let listed: String = covered.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let request = format!("{method}\n{path}\n{query}\n{listed}\n{names}\n{payload}");
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", sha256(request.as_bytes()));
    let signature = hex(&mac(&signing, &text));
    let credential =
        format!("AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", key.id);
    headers.push(("authorization".into(), credential));
    Signed { headers, date, scope, key: signing, signature }
}

/// The query of a presigned URL for `method` on `path`, valid for a minute.
pub fn presign(scope: Scope<'_>, key: &Key, method: &str, path: &str) -> String {
    presign_with(scope, key, method, path, "")
}

/// The query of a presigned URL with more parameters, which are sorted, encoded and in lower case.
pub fn presign_with(scope: Scope<'_>, key: &Key, method: &str, path: &str, more: &str) -> String {
    let date = now();
    let credential = format!("{}/{}", key.id, scope.text(&date)).replace('/', "%2F");
    // At least one header has to be signed: without the host, another header of the request.
    let (name, value) = if scope.host { ("host", "localhost") } else { ("accept", "*/*") };
    let query = format!(
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={date}&X-Amz-Expires=60\
         &X-Amz-SignedHeaders={name}{}{more}",
        if more.is_empty() { "" } else { "&" }
    );
    let request = format!("{method}\n{path}\n{query}\n{name}:{value}\n\n{name}\nUNSIGNED-PAYLOAD");
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{}\n{}", scope.text(&date), sha256(request.as_bytes()));
    let signature = hex(&mac(&signing_key(key, &scope.text(&date)), &text));
    format!("{query}&X-Amz-Signature={signature}")
}

/// The query of a URL of Signature Version 2 for `method` on `resource` (path and signed parameters), valid for
/// `seconds`. `lines` are the MD5, the content type and the `x-amz-…` headers that it covers.
pub fn presign_v2(key: &Key, method: &str, lines: [&str; 3], resource: &str, seconds: i64) -> String {
    let expires = OffsetDateTime::from(std::time::SystemTime::from(SystemClock.now())).unix_timestamp() + seconds;
    let [md5, kind, amz] = lines;
    let text = format!("{method}\n{md5}\n{kind}\n{expires}\n{amz}{resource}");
    let signature = s3s_sigv2::calculate_signature(&key.secret, &text);
    let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    format!("AWSAccessKeyId={}&Expires={expires}&Signature={signature}", key.id)
}

impl Signed {
    /// An unsigned request.
    pub fn bare(headers: &[(&str, &str)]) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { headers, date: String::new(), scope: String::new(), key: Vec::new(), signature: String::new() }
    }

    /// The request with one more header, which is not signed.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The body with `content` in signed chunks of `size` bytes, and with a signed trailer if one is given.
    pub fn chunks(&self, content: &[u8], size: usize, trailer: Option<(&str, &str)>) -> Vec<u8> {
        let mut body = Vec::new();
        let mut before = self.signature.clone();
        for chunk in content.chunks(size).chain([&[][..]]) {
            let text = format!("{before}\n{EMPTY}\n{}", sha256(chunk));
            before = self.sign_text("AWS4-HMAC-SHA256-PAYLOAD", &text);
            body.extend(format!("{:x};chunk-signature={before}\r\n", chunk.len()).into_bytes());
            body.extend(chunk);
            if !chunk.is_empty() || trailer.is_none() {
                body.extend(b"\r\n");
            }
        }
        if let Some((name, value)) = trailer {
            let text = format!("{before}\n{}", sha256(format!("{name}:{value}\n").as_bytes()));
            let signature = self.sign_text("AWS4-HMAC-SHA256-TRAILER", &text);
            body.extend(format!("{name}:{value}\r\nx-amz-trailer-signature:{signature}\r\n\r\n").into_bytes());
        }
        body
    }

    fn sign_text(&self, algorithm: &str, text: &str) -> String {
        hex(&mac(&self.key, &format!("{algorithm}\n{}\n{}\n{text}", self.date, self.scope)))
    }
}

/// `query` with one more parameter, in the order in which it is signed.
pub fn with(query: &str, more: &str) -> String {
    let mut all: Vec<&str> = query.split('&').chain([more]).filter(|pair| !pair.is_empty()).collect();
    all.sort_unstable();
    all.join("&")
}

/// SHA-256 in hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The fields of a signed form. `conditions` are added to the policy's conditions about those fields.
pub fn sign_form(key: &Key, conditions: &str) -> Vec<(&'static str, String)> {
    let date = now();
    let mut fields = vec![
        ("x-amz-algorithm", "AWS4-HMAC-SHA256".to_owned()),
        ("x-amz-credential", format!("{}/{}/{REGION}/s3/aws4_request", key.id, &date[..8])),
        ("x-amz-date", date.clone()),
    ];
    let own: String = fields.iter().map(|(name, value)| format!(", {{\"{name}\": \"{value}\"}}")).collect();
    let policy = format!("{{\"expiration\": \"2099-12-31T00:00:00Z\", \"conditions\": [{conditions}{own}]}}");
    let policy = BASE64.encode(policy);
    fields.push(("x-amz-signature", hex(&mac(&signing_key(key, &Scope::HERE.text(&date)), &policy))));
    fields.push(("policy", policy));
    fields
}

fn signing_key(key: &Key, scope: &str) -> Vec<u8> {
    scope.split('/').fold(format!("AWS4{}", key.secret).into_bytes(), |signing, part| mac(&signing, part))
}

fn hex(bytes: &[u8]) -> String {
    hex_simd::encode_to_string(bytes, hex_simd::AsciiCase::Lower)
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn now() -> String {
    let now = OffsetDateTime::from(std::time::SystemTime::from(SystemClock.now()));
    now.format(format_description!("[year][month][day]T[hour][minute][second]Z")).expect("a date")
}
