//! The AWS SDK's signer, with every input as a public field.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use aws_sigv4::SigningOutput;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableRequest, SignatureLocation, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4::{SigningParams, sign_chunk, sign_trailer};
use aws_smithy_runtime_api::client::identity::Identity;
use aws_smithy_runtime_api::http::Headers;
use bytes::Bytes;

use super::{Request, Wire};
use crate::support::*;

/// A key, and the other inputs of a signature.
#[derive(Clone)]
pub struct Signer {
    pub host: String,
    pub key: Credentials,
    pub region: String,
    pub service: String,
    pub time: SystemTime,
    /// Headers left out of the signature.
    pub excluded: Vec<&'static str>,
}

impl Signer {
    /// A signer with the root key and the current time.
    pub fn new(server: &Server) -> Self {
        let host = server.s3().split_once("://").expect("a URL").1.to_owned();
        let (region, service) = ("us-east-1".to_owned(), "s3".to_owned());
        let (key, time) = (server.credentials(), SystemTime::UNIX_EPOCH);
        Self { host, key, region, service, time, excluded: Vec::new() }.now()
    }

    /// This signer with the current time.
    #[expect(clippy::disallowed_methods, reason = "the server under test uses the system clock")]
    pub fn now(&self) -> Self {
        Self { time: SystemTime::now(), ..self.clone() }
    }

    pub fn earlier(&self, by: Duration) -> Self {
        Self { time: self.time - by, ..self.clone() }
    }

    pub fn later(&self, by: Duration) -> Self {
        Self { time: self.time + by, ..self.clone() }
    }

    /// Signers whose signatures are invalid: with another secret, an unknown key, another region and another service.
    pub fn wrong(&self) -> [Self; 4] {
        let mut secret = self.clone();
        secret.key.secret_access_key = "x".repeat(40);
        let mut foreign = self.clone();
        foreign.key.access_key_id = "AKIAIOSFODNN7EXAMPLE".to_owned();
        let region = Self { region: "eu-west-1".to_owned(), ..self.clone() };
        let service = Self { service: "ec2".to_owned(), ..self.clone() };
        [secret, foreign, region, service]
    }

    /// Signs a request in its headers. A body in chunks is added by [`super::streams`].
    pub fn sign(&self, request: &Request) -> Wire {
        self.sign_with_seed(request).0
    }

    /// Signs a request in its headers; also returns the signature, which is an input of the first chunk's signature.
    pub fn sign_with_seed(&self, request: &Request) -> (Wire, String) {
        let (instructions, signature) = self.run(request, SignatureLocation::Headers, None).into_parts();
        let mut wire = self.unsigned(request);
        wire.headers.extend(instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned())));
        (wire, signature)
    }

    /// Signs a request in its query.
    pub fn presign(&self, request: &Request, expires: Duration) -> Wire {
        let output = self.run(request, SignatureLocation::QueryParams, Some(expires));
        let mut wire = self.unsigned(request);
        for (name, value) in output.output().params() {
            wire.add_query(name, value);
        }
        wire
    }

    /// The request without a signature.
    pub fn unsigned(&self, request: &Request) -> Wire {
        let headers = request.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let host = ("host".to_owned(), self.host.clone());
        Wire {
            method: request.method.to_owned(),
            path: request.path.clone(),
            query: request.query.clone(),
            headers: std::iter::once(host).chain(headers).collect(),
            body: request.body.clone(),
            length: None,
        }
    }

    /// The signature of a chunk; `before` is the signature before it.
    pub fn chunk(&self, content: &[u8], before: &str) -> String {
        let identity = self.identity();
        let params = self.params(&identity, ());
        sign_chunk(&Bytes::copy_from_slice(content), before, &params).expect("it is signed").into_parts().1
    }

    /// The signature of a trailer.
    pub fn trailer(&self, name: &str, value: &str, before: &str) -> String {
        let identity = self.identity();
        let mut headers = Headers::new();
        headers.insert(name.to_owned(), value.to_owned());
        sign_trailer(&headers, before, &self.params(&identity, ())).expect("it is signed").into_parts().1
    }

    fn run(
        &self,
        request: &Request,
        location: SignatureLocation,
        expires: Option<Duration>,
    ) -> SigningOutput<aws_sigv4::http_request::SigningInstructions> {
        let mut settings = SigningSettings::default();
        // Only S3 signs the path unchanged, and has the hash of the body in a header.
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        settings.signature_location = location;
        settings.expires_in = expires;
        let excluded = self.excluded.iter().map(|name| Cow::Borrowed(*name));
        settings.excluded_headers.get_or_insert_default().extend(excluded);
        let identity = self.identity();
        let params = self.params(&identity, settings).into();
        let separator = if request.query.is_empty() { "" } else { "?" };
        let url = format!("http://{}{}{separator}{}", self.host, request.path, request.query);
        let headers = request.headers.iter().map(|(name, value)| (*name, value.as_str()));
        let signable = SignableRequest::new(request.method, url, headers, request.signable());
        sign(signable.expect("a URL"), &params).expect("it is signed")
    }

    fn identity(&self) -> Identity {
        let Credentials { access_key_id, secret_access_key } = self.key.clone();
        aws_sdk_s3::config::Credentials::new(access_key_id, secret_access_key, None, None, "tests").into()
    }

    fn params<'a, S: Default>(&'a self, identity: &'a Identity, settings: S) -> SigningParams<'a, S> {
        let params = SigningParams::builder().identity(identity).region(&self.region).name(&self.service);
        params.time(self.time).settings(settings).build().expect("nothing is missing")
    }
}
