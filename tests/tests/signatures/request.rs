//! A request before it is signed.

use aws_sigv4::http_request::SignableBody;

/// A request, and how its signature covers the body.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: &'static str,
    /// The path, percent-encoded as it is sent.
    pub path: String,
    /// The query without the `?`, percent-encoded, in the order in which it is sent.
    pub query: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    pub payload: Payload,
}

/// The value of `x-amz-content-sha256`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The hash of the body.
    Hashed,
    /// `UNSIGNED-PAYLOAD`.
    Unsigned,
    /// `STREAMING-AWS4-HMAC-SHA256-PAYLOAD`: chunks, each with a signature.
    Chunks,
    /// `STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER`: chunks and a trailer, each with a signature.
    ChunksAndTrailer,
    /// `STREAMING-UNSIGNED-PAYLOAD-TRAILER`: chunks and a trailer without signatures.
    UnsignedTrailer,
}

impl Request {
    /// A request without a body.
    pub fn new(method: &'static str, path: impl Into<String>) -> Self {
        let (path, query) = (path.into(), String::new());
        Self { method, path, query, headers: Vec::new(), body: Vec::new(), payload: Payload::Hashed }
    }

    pub fn query(mut self, query: &str) -> Self {
        query.clone_into(&mut self.query);
        self
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub fn payload(mut self, payload: Payload) -> Self {
        self.payload = payload;
        self
    }

    /// The body as the signer needs it.
    pub fn signable(&self) -> SignableBody<'_> {
        match self.payload {
            Payload::Hashed => SignableBody::Bytes(&self.body),
            Payload::Unsigned => SignableBody::UnsignedPayload,
            Payload::Chunks => SignableBody::Precomputed("STREAMING-AWS4-HMAC-SHA256-PAYLOAD".to_owned()),
            Payload::ChunksAndTrailer => SignableBody::StreamingSignedPayloadTrailer,
            Payload::UnsignedTrailer => SignableBody::StreamingUnsignedPayloadTrailer,
        }
    }
}
