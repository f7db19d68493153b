//! A request body on its way into the store.
//!
//! - Reading, hashing and writing run side by side on one batch each, so a request holds at most two batches, and no
//!   thread waits for a slow client.
//! - Content is staged only: until the operation names it, a refused, cut or lying body leaves nothing.
//! - The body is read to its end, since signatures and trailers are proved there.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::StatusCode;
use objstore::Store;
use objstore::content::{StageWriter, Staged};
use s3s::dto::StreamingBlob;
use s3s::stream::aws_chunked_stream::AwsChunkedStreamError;
use s3s::stream::upload_stream::UploadStreamError;
use s3s::{BodySizeLimitExceeded, S3Error, S3ErrorCode, S3Result, StdError, TrailingHeaders};

use crate::checksum::{Claims, Digest, Sums};
use crate::error::{OrRefuse as _, custom, lost, refuse};

/// Up to this many bytes a body is collected and staged at once.
const SMALL_BYTES: u64 = 128 * 1024;
/// Bytes hashed and written in one step.
const BATCH_BYTES: usize = 1024 * 1024;
/// How long a client may send nothing.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// A body to receive.
pub(crate) struct Body {
    /// The content as `s3s` decoded it.
    pub(crate) stream: Option<StreamingBlob>,
    /// Its declared length, in bytes.
    pub(crate) length: Option<i64>,
    /// What is claimed of it.
    pub(crate) claims: Claims,
    /// What follows it.
    pub(crate) trailers: Option<TrailingHeaders>,
}

/// Content received, proved and staged.
pub(crate) struct Received {
    /// The content, not yet named.
    pub(crate) content: Staged,
    /// Its sums.
    pub(crate) sums: Sums,
}

/// Whether a body of this declared length is worth a look at the store before it is read.
pub(crate) fn is_large(length: Option<i64>) -> bool {
    length.and_then(|length| u64::try_from(length).ok()).is_none_or(|length| length > SMALL_BYTES)
}

/// Receives a body of `PutObject` or `UploadPart`.
pub(crate) async fn receive(store: &Store, body: Body) -> S3Result<Received> {
    let length = body.length.and_then(|length| u64::try_from(length).ok());
    let Some(length) = length else {
        return Err(refuse(S3ErrorCode::MissingContentLength, "Say how long the body is, with Content-Length."));
    };
    let mut source =
        Source { stream: body.stream.unwrap_or_else(|| StreamingBlob::from_bytes(Bytes::new())), left: length };
    let (content, sums) = if length <= SMALL_BYTES {
        stage_small(store, &mut source, body.claims.digest()).await?
    } else {
        stage_large(store, &mut source, body.claims.digest()).await?
    };
    body.claims.verify(&sums, body.trailers.as_ref())?;
    Ok(Received { content, sums })
}

async fn stage_small(store: &Store, source: &mut Source, mut digest: Digest) -> S3Result<(Staged, Sums)> {
    let pieces = source.batch().await?;
    source.finish().await?;
    let content = join(pieces);
    // Polled first, the store begins to write before this thread hashes.
    let staging = store.stage(content.clone());
    let hashing = async {
        digest.update(&content);
        digest.finish()
    };
    let (staged, sums) = tokio::join!(staging, hashing);
    Ok((staged.or_refuse()?, sums))
}

async fn stage_large(store: &Store, source: &mut Source, mut digest: Digest) -> S3Result<(Staged, Sums)> {
    let mut writer = store.stage_writer();
    let mut batch = source.batch().await?;
    while !batch.is_empty() {
        let hashing = tokio::task::spawn_blocking({
            let batch = batch.clone();
            move || hash(digest, &batch)
        });
        let writing = tokio::task::spawn_blocking(move || write(writer, &batch));
        let (hashed, written, next) = tokio::join!(hashing, writing, source.batch());
        digest = hashed.map_err(|error| lost(&error))?;
        writer = written.map_err(|error| lost(&error))?.or_refuse()?;
        batch = next?;
    }
    source.finish().await?;
    let staged = tokio::task::spawn_blocking(move || writer.finish()).await.map_err(|error| lost(&error))?;
    Ok((staged.or_refuse()?, digest.finish()))
}

fn hash(mut digest: Digest, batch: &[Bytes]) -> Digest {
    for piece in batch {
        digest.update(piece);
    }
    digest
}

fn write(mut writer: StageWriter, batch: &[Bytes]) -> objstore::Result<StageWriter> {
    for piece in batch {
        writer.write(piece)?;
    }
    Ok(writer)
}

fn join(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.len() {
        0 => Bytes::new(),
        1 => pieces.remove(0),
        _ => Bytes::from(pieces.concat()),
    }
}

/// The body, and how much of it is still to come.
struct Source {
    stream: StreamingBlob,
    left: u64,
}

impl Source {
    /// The next batch; empty when the declared length is reached.
    async fn batch(&mut self) -> S3Result<Vec<Bytes>> {
        let mut pieces = Vec::new();
        let mut held = 0;
        while self.left > 0 && held < BATCH_BYTES {
            let Some(piece) = self.piece().await? else {
                return Err(refuse(S3ErrorCode::IncompleteBody, "The body is shorter than its declared length."));
            };
            let len = piece.len() as u64;
            self.left = self.left.checked_sub(len).ok_or_else(too_long)?;
            held += piece.len();
            pieces.push(piece);
        }
        Ok(pieces)
    }

    /// Reads the end: nothing may follow.
    async fn finish(&mut self) -> S3Result<()> {
        while let Some(piece) = self.piece().await? {
            if !piece.is_empty() {
                return Err(too_long());
            }
        }
        Ok(())
    }

    async fn piece(&mut self) -> S3Result<Option<Bytes>> {
        let next = tokio::time::timeout(STALL_TIMEOUT, self.stream.next()).await;
        let next = next.map_err(|_| refuse(S3ErrorCode::RequestTimeout, "The body stopped coming; send it again."))?;
        next.transpose().map_err(|error| broken(&error))
    }
}

fn too_long() -> S3Error {
    refuse(S3ErrorCode::IncompleteBody, "The body is longer than its declared length.")
}

/// What a body that failed on its way means to the client.
fn broken(error: &StdError) -> S3Error {
    let error: &(dyn std::error::Error + 'static) = error.as_ref();
    if let Some(chunked) = error.downcast_ref::<AwsChunkedStreamError>() {
        return broken_chunks(chunked);
    }
    if let Some(upload) = error.downcast_ref::<UploadStreamError>() {
        return broken_upload(upload);
    }
    if error.is::<BodySizeLimitExceeded>() {
        return refuse(S3ErrorCode::EntityTooLarge, "One upload takes at most 5 GiB; use a multipart upload.");
    }
    tracing::debug!(%error, "a request body broke off");
    refuse(S3ErrorCode::IncompleteBody, "The body broke off before its end.")
}

fn broken_chunks(error: &AwsChunkedStreamError) -> S3Error {
    match error {
        AwsChunkedStreamError::Underlying(inner) => broken(inner),
        AwsChunkedStreamError::SignatureMismatch => {
            refuse(S3ErrorCode::SignatureDoesNotMatch, "The signature of a chunk or of the trailers does not match.")
        }
        other => refuse(other.to_s3_error_code(), "The aws-chunked framing is broken or not of the declared length."),
    }
}

fn broken_upload(error: &UploadStreamError) -> S3Error {
    match error {
        UploadStreamError::Underlying(inner) => broken(inner),
        UploadStreamError::Sha256Mismatch => custom(
            "XAmzContentSHA256Mismatch",
            StatusCode::BAD_REQUEST,
            "The body is not the one x-amz-content-sha256 was made of.",
        ),
        other => refuse(other.to_s3_error_code(), "The body is not of its declared length."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(pieces: Vec<Result<Bytes, std::io::Error>>, left: u64) -> Source {
        Source { stream: StreamingBlob::wrap(futures::stream::iter(pieces)), left }
    }

    async fn read(pieces: &[&'static [u8]], left: u64) -> Result<Vec<u8>, String> {
        let mut source = source(pieces.iter().map(|piece| Ok(Bytes::from_static(piece))).collect(), left);
        let read = async {
            let batch = source.batch().await?;
            source.finish().await?;
            Ok::<_, S3Error>(join(batch).to_vec())
        };
        read.await.map_err(|error| error.code().as_str().to_owned())
    }

    #[tokio::test]
    async fn a_body_has_to_be_of_its_declared_length() {
        assert_eq!(read(&[b"ab", b"c"], 3).await, Ok(b"abc".to_vec()));
        assert_eq!(read(&[], 0).await, Ok(Vec::new()));
        assert_eq!(read(&[b"ab"], 3).await, Err("IncompleteBody".into()));
        assert_eq!(read(&[b"ab", b"cd"], 3).await, Err("IncompleteBody".into()));
        assert_eq!(read(&[b"abc", b"d"], 3).await, Err("IncompleteBody".into()));
    }

    #[tokio::test]
    async fn a_broken_body_is_told_as_what_broke_it() {
        let table: [(StdError, &str); 4] = [
            (Box::new(UploadStreamError::Sha256Mismatch), "XAmzContentSHA256Mismatch"),
            (Box::new(AwsChunkedStreamError::SignatureMismatch), "SignatureDoesNotMatch"),
            (Box::new(AwsChunkedStreamError::Underlying(Box::new(UploadStreamError::Incomplete))), "IncompleteBody"),
            (Box::new(BodySizeLimitExceeded { size: 2, limit: 1 }), "EntityTooLarge"),
        ];
        for (error, code) in table {
            assert_eq!(broken(&error).code().as_str(), code, "{error}");
        }
    }

    #[tokio::test]
    async fn batches_are_bounded() {
        let piece = Bytes::from(vec![7; 300 * 1024]);
        let mut source = source((0..10).map(|_| Ok(piece.clone())).collect(), 10 * 300 * 1024);
        while source.left > 0 {
            let held: usize = source.batch().await.unwrap().iter().map(Bytes::len).sum();
            assert!(held < BATCH_BYTES + piece.len());
        }
    }
}
