//! Completeness of a request body: detects a truncated or altered body at its end.
//!
//! - For a chunked body, `s3s` stops once it has all content and would accept a body without its final chunk.
//! - For a document that does not match its hash, `s3s` reports an internal error.

use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use s3s::crypto::{Checksum as _, Sha256};
use s3s::{S3Error, S3ErrorCode};

use super::Kind;
use super::elements::ELEMENTS_MAX;
use super::memory::DOCUMENT_BYTES_MAX;
use crate::document::Malformed;
use crate::error::{Detail as _, custom, refuse};

const HASH: &str = "x-amz-content-sha256";
/// The bytes that end each chunk, and a chunked body.
const END: &[u8] = b"\r\n\r\n";
/// The longest end of a chunked body: the last chunk `0;chunk-signature=` with 64 digits, and the end before it.
const TAIL_BYTES: usize = 128;

/// Why a body could not be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// The client sent nothing for too long.
    #[error("the client stopped sending the request body")]
    Stalled,
    /// The client sent too slowly while others waited for memory.
    #[error("the client sent the request body too slowly")]
    Slow,
    /// The body was truncated.
    #[error("the request body is incomplete")]
    Cut,
    /// The body does not match `x-amz-content-sha256`.
    #[error("the request body does not match x-amz-content-sha256")]
    Another,
    /// A document with too many bytes.
    #[error("the XML or JSON document is too long")]
    Long,
    /// A document with too many elements.
    #[error("the XML document has too many elements")]
    Crowded,
    /// A document with content that would be ignored.
    #[error(transparent)]
    Malformed(Malformed),
    /// Request bodies in progress take all the memory for them.
    #[error("the memory limit of request bodies is reached")]
    NoRoom,
    /// Responses in progress take all the memory for them.
    #[error("the memory limit of responses is reached")]
    NoRoomToAnswer,
}

impl Fault {
    /// The error response.
    pub(crate) fn refuse(self) -> S3Error {
        match self {
            Self::Stalled => {
                refuse(S3ErrorCode::RequestTimeout, "No data of the body arrived for too long; send it again.")
            }
            Self::Slow => {
                let words = "The body arrived too slowly while other uploads waited for memory; send it again.";
                refuse(S3ErrorCode::RequestTimeout, words)
            }
            Self::Cut => {
                refuse(S3ErrorCode::IncompleteBody, "The body ended before its declared length or its final chunk.")
            }
            Self::Another => {
                refuse(custom("XAmzContentSHA256Mismatch"), "The body does not match x-amz-content-sha256.")
            }
            Self::Long => refuse(
                S3ErrorCode::MaxMessageLengthExceeded,
                format!("A document has at most {DOCUMENT_BYTES_MAX} bytes."),
            )
            .with("MaxMessageLengthBytes", DOCUMENT_BYTES_MAX),
            Self::Crowded => refuse(
                S3ErrorCode::MalformedXML,
                format!("The document has more than {ELEMENTS_MAX} elements; split it into several requests."),
            ),
            Self::Malformed(why) => refuse(S3ErrorCode::MalformedXML, why.to_string()),
            Self::NoRoom => later("The memory for uploads is in use; try again in a moment."),
            Self::NoRoomToAnswer => later("The memory for downloads is in use; try again in a moment."),
        }
    }
}

fn later(words: &'static str) -> S3Error {
    let mut error = refuse(S3ErrorCode::SlowDown, words);
    error.set_headers(HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("1"))]));
    error
}

/// What is inspected in a body until its end.
pub(crate) enum Whole {
    /// Nothing: the length shows where it ends, and `s3s` hashes the content.
    Trusted,
    /// A document, and its expected hash.
    Document { hasher: Sha256, expected: Vec<u8> },
    /// The last bytes of a chunked body.
    Frames { tail: Vec<u8>, trailed: bool },
}

impl Whole {
    /// What to inspect in the body of a request.
    pub(crate) fn of(head: &Parts, kind: Kind) -> Self {
        let Some(hash) = head.headers.get(HASH).and_then(|value| value.to_str().ok()) else { return Self::Trusted };
        if hash.starts_with("STREAMING-") {
            return Self::Frames { tail: Vec::new(), trailed: hash.ends_with("-TRAILER") };
        }
        match hex_simd::decode_to_vec(hash) {
            Ok(expected) if kind == Kind::Document => Self::Document { hasher: Sha256::new(), expected },
            _ => Self::Trusted,
        }
    }

    /// Inspects the next bytes.
    pub(crate) fn saw(&mut self, data: &[u8]) {
        match self {
            Self::Trusted => {}
            Self::Document { hasher, .. } => hasher.update(data),
            Self::Frames { tail, .. } => {
                let kept = &data[data.len().saturating_sub(TAIL_BYTES)..];
                tail.drain(..(tail.len() + kept.len()).saturating_sub(TAIL_BYTES));
                tail.extend_from_slice(kept);
            }
        }
    }

    /// Inspects the end.
    pub(crate) fn end(self) -> Result<(), Fault> {
        let (ended, fault) = match self {
            Self::Trusted => return Ok(()),
            Self::Document { hasher, expected } => (hasher.finalize().as_slice() == expected, Fault::Another),
            Self::Frames { tail, trailed } => (ends_frames(&tail, trailed), Fault::Cut),
        };
        if ended { Ok(()) } else { Err(fault) }
    }
}

/// Whether a chunked body that arrives in these pieces is complete.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn ended<'a>(trailed: bool, pieces: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut whole = Whole::Frames { tail: Vec::new(), trailed };
    pieces.for_each(|piece| whole.saw(piece));
    whole.end().is_ok()
}

/// Whether this is the end of a chunked body: an empty chunk, or trailers, which are checked one by one.
fn ends_frames(tail: &[u8], trailed: bool) -> bool {
    let Some(rest) = tail.strip_suffix(END) else { return false };
    let line = rest.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
    trailed || !size.is_empty() && size.iter().all(|byte| *byte == b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(method: &str, uri: &str, hash: &str, pieces: &[&[u8]]) -> Result<(), Fault> {
        let request = http::Request::builder().method(method).uri(uri).header(HASH, hash);
        let (head, ()) = request.body(()).unwrap().into_parts();
        let mut whole = Whole::of(&head, Kind::of(&head, uri.contains("/k")));
        pieces.iter().for_each(|piece| whole.saw(piece));
        whole.end()
    }

    #[test]
    fn a_document_is_the_one_its_hash_was_made_of() {
        // The hash of "abc" (FIPS 180-4).
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        for (method, uri) in [("POST", "/b?delete"), ("POST", "/b/k?uploadId=u"), ("PUT", "/b"), ("PUT", "/b/k?acl")] {
            assert_eq!(ended(method, uri, hash, &[b"a", b"bc"]), Ok(()), "{method} {uri}");
            assert_eq!(ended(method, uri, hash, &[b"abd"]), Err(Fault::Another), "{method} {uri}");
            assert_eq!(ended(method, uri, "UNSIGNED-PAYLOAD", &[b"abd"]), Ok(()));
        }
        // Content is hashed while it is stored.
        assert_eq!(ended("PUT", "/b/k", hash, &[b"abd"]), Ok(()));
    }

    #[test]
    fn frames_end_as_a_whole() {
        let last = format!("0;chunk-signature={}\r\n\r\n", "a".repeat(64));
        let body = [b"1c;chunk-signature=\r\n\r\n\r\n", &[b'x'; 300][..], b"\r\n\r\n\r\n", last.as_bytes()].concat();
        let payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
        for size in [1, 7, 127, 128, 129, body.len()] {
            let pieces = |body: &[u8]| ended("PUT", "/b/k", payload, &body.chunks(size).collect::<Vec<_>>());
            assert_eq!(pieces(&body), Ok(()), "{size}");
            // Content may happen to end like a body does.
            for cut in [1, 2, 3, 4, last.len() - 1, last.len()] {
                assert_eq!(pieces(&body[..body.len() - cut]), Err(Fault::Cut), "{size} {cut}");
            }
        }
        let trailed = |body: &[u8]| ended("PUT", "/b/k", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", &[body]);
        assert_eq!(trailed(b"1\r\nx\r\n0\r\na:b\r\n\r\n"), Ok(()));
        assert_eq!(trailed(b"1\r\nx\r\n0\r\na:b\r"), Err(Fault::Cut));
        assert_eq!(trailed(b""), Err(Fault::Cut));
    }
}
