//! Whether a body came whole and as it was said to, told where it ends.
//!
//! - Of frames `s3s` does not ask for the end: once it has all content, a body cut short passes for a whole one.
//! - Of a document that is not the one its hash was made of, `s3s` says that the server failed.

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
/// Empty lines end each frame, and a body in frames.
const END: &[u8] = b"\r\n\r\n";
/// The end of a body, and the frame before it: `0;chunk-signature=` with 64 digits.
const TAIL_BYTES: usize = 128;

/// How a body failed to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// It sent nothing for too long.
    #[error("the body stopped coming")]
    Stalled,
    /// It came so slowly that others waited for its place.
    #[error("the body came too slowly")]
    Slow,
    /// It ended before its end.
    #[error("the body ended before its end")]
    Cut,
    /// It is not what `x-amz-content-sha256` was made of.
    #[error("the body is another than its hash says")]
    Another,
    /// It is a document of more bytes than are read.
    #[error("the document is too long")]
    Long,
    /// It is a document of more elements than any can have.
    #[error("the document has too many elements")]
    Crowded,
    /// It is a document that says something nobody reads.
    #[error(transparent)]
    Malformed(Malformed),
    /// Bodies under way take all the memory there is for them.
    #[error("there is no memory for the body")]
    NoRoom,
    /// Answers under way take all the memory there is for them.
    #[error("there is no memory for the answer")]
    NoRoomToAnswer,
}

impl Fault {
    /// What the client is told.
    pub(crate) fn refuse(self) -> S3Error {
        match self {
            Self::Stalled => refuse(S3ErrorCode::RequestTimeout, "The body stopped coming; send it again."),
            Self::Slow => {
                let words = "The body came so slowly that others waited for its place; send it again.";
                refuse(S3ErrorCode::RequestTimeout, words)
            }
            Self::Cut => refuse(S3ErrorCode::IncompleteBody, "The body broke off before its end."),
            Self::Another => {
                refuse(custom("XAmzContentSHA256Mismatch"), "The body is not the one x-amz-content-sha256 was made of.")
            }
            Self::Long => refuse(
                S3ErrorCode::MaxMessageLengthExceeded,
                format!("A document has at most {DOCUMENT_BYTES_MAX} bytes."),
            )
            .with("MaxMessageLengthBytes", DOCUMENT_BYTES_MAX),
            Self::Crowded => refuse(
                S3ErrorCode::MalformedXML,
                format!("The document has more than {ELEMENTS_MAX} elements; send what it says in several."),
            ),
            Self::Malformed(why) => refuse(S3ErrorCode::MalformedXML, why.to_string()),
            Self::NoRoom => later("Uploads under way take all the memory there is for them; try again in a moment."),
            Self::NoRoomToAnswer => {
                later("Downloads under way take all the memory there is for them; try again in a moment.")
            }
        }
    }
}

fn later(words: &'static str) -> S3Error {
    let mut error = refuse(S3ErrorCode::SlowDown, words);
    error.set_headers(HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("1"))]));
    error
}

/// What is looked at in a body, until it ends.
pub(crate) enum Whole {
    /// Nothing: the length says where it ends, and content is hashed by `s3s`.
    Trusted,
    /// A document, and the hash it has to have.
    Document { hasher: Sha256, expected: Vec<u8> },
    /// The last bytes of a body in frames.
    Frames { tail: Vec<u8>, trailed: bool },
}

impl Whole {
    /// What is to be looked at in the body of a request.
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

    /// More of it came.
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

    /// It ended.
    pub(crate) fn end(self) -> Result<(), Fault> {
        let (ended, fault) = match self {
            Self::Trusted => return Ok(()),
            Self::Document { hasher, expected } => (hasher.finalize().as_slice() == expected, Fault::Another),
            Self::Frames { tail, trailed } => (ends_frames(&tail, trailed), Fault::Cut),
        };
        if ended { Ok(()) } else { Err(fault) }
    }
}

/// Whether a body in frames that comes in these pieces has its end.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn ended<'a>(trailed: bool, pieces: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut whole = Whole::Frames { tail: Vec::new(), trailed };
    pieces.for_each(|piece| whole.saw(piece));
    whole.end().is_ok()
}

/// Whether this is how a body in frames ends: with an empty frame, or with trailers, which are asked for one by one.
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
        // Of "abc" (FIPS 180-4).
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        for (method, uri) in [("POST", "/b?delete"), ("POST", "/b/k?uploadId=u"), ("PUT", "/b"), ("PUT", "/b/k?acl")] {
            assert_eq!(ended(method, uri, hash, &[b"a", b"bc"]), Ok(()), "{method} {uri}");
            assert_eq!(ended(method, uri, hash, &[b"abd"]), Err(Fault::Another), "{method} {uri}");
            assert_eq!(ended(method, uri, "UNSIGNED-PAYLOAD", &[b"abd"]), Ok(()));
        }
        // Content is hashed on its way into the store.
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
            // The content may end like a body does.
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
