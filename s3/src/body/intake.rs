//! Receiving a request body into the store.
//!
//! - Reading, hashing and writing run in parallel: one block is filled while the one before is hashed and written. So a
//!   request holds at most two blocks, and no thread waits for a slow client.
//! - A byte is copied once, from the network's buffer into a block that the disk writes as it is.
//! - Content is only staged: until the operation names it, a refused, truncated or wrong body leaves nothing.
//! - The body is read to its end, where signatures and trailers are verified.

use std::ops::RangeInclusive;

use bytes::{Buf as _, Bytes};
use futures::StreamExt as _;
use objstore::Store;
use objstore::content::{StageWriter, Staged};
use s3s::dto::StreamingBlob;
use s3s::stream::aws_chunked_stream::AwsChunkedStreamError;
use s3s::stream::upload_stream::UploadStreamError;
use s3s::{BodySizeLimitExceeded, S3Error, S3ErrorCode, S3Result, StdError, TrailingHeaders};

use super::Fault;
use crate::checksum::{Claims, Digest, Sums};
use crate::error::{Detail as _, OrRefuse as _, lost, plain, refuse};

/// The largest body that is collected in memory and staged at once.
const SMALL_BYTES: u64 = 128 * 1024;
/// The largest upload (S3 API, PutObject); `s3s` limits other bodies.
const UPLOAD_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;

/// A body to receive.
pub(crate) struct Body {
    /// The content as decoded by `s3s`.
    pub(crate) stream: Option<StreamingBlob>,
    /// Its declared length, in bytes.
    pub(crate) length: Option<i64>,
    /// The client's claims about it.
    pub(crate) claims: Claims,
    /// The trailers that follow it.
    pub(crate) trailers: Option<TrailingHeaders>,
}

/// Content that was received, verified and staged.
pub(crate) struct Received {
    /// The staged content, which no object names yet.
    pub(crate) content: Staged,
    /// Its digests.
    pub(crate) sums: Sums,
}

/// Whether a body of this declared length is large enough to check the store before it is read.
pub(crate) fn is_large(length: Option<i64>) -> bool {
    length.and_then(|length| u64::try_from(length).ok()).is_none_or(|length| length > SMALL_BYTES)
}

/// Receives a body of `PutObject` or `UploadPart`.
pub(crate) async fn receive(store: &Store, body: Body) -> S3Result<Received> {
    let length = body.length.and_then(|length| u64::try_from(length).ok());
    let Some(length) = length else {
        return Err(refuse(S3ErrorCode::MissingContentLength, "Say how long the body is, with Content-Length."));
    };
    let mut source = Source::new(body.stream.unwrap_or_else(|| StreamingBlob::from_bytes(Bytes::new())), length);
    let (content, sums) = if length <= SMALL_BYTES {
        stage_small(store, &mut source, body.claims.digest()).await?
    } else {
        stage_large(store, &mut source, body.claims.digest()).await?
    };
    body.claims.verify(&sums, body.trailers.as_ref())?;
    Ok(Received { content, sums })
}

/// Receives a body of at most the given size that ends where its stream ends: the file of a form.
pub(crate) async fn receive_within(
    store: &Store,
    stream: StreamingBlob,
    claims: &Claims,
    size: RangeInclusive<u64>,
) -> S3Result<Received> {
    let mut source = Source::open(stream, (*size.end()).min(UPLOAD_BYTES_MAX));
    let first = source.block(store).await?;
    let (content, sums) = if source.is_read() && first.len() as u64 <= SMALL_BYTES {
        source.finish().await?;
        stage_whole(store, first, claims.digest()).await?
    } else {
        stage_blocks(store, &mut source, first, claims.digest()).await?
    };
    if sums.size < *size.start() {
        let error = plain(S3ErrorCode::EntityTooSmall).with("ProposedSize", sums.size);
        return Err(error.with("MinSizeAllowed", *size.start()));
    }
    claims.verify(&sums, None)?;
    Ok(Received { content, sums })
}

async fn stage_small(store: &Store, source: &mut Source, digest: Digest) -> S3Result<(Staged, Sums)> {
    let content = source.all().await?;
    source.finish().await?;
    stage_whole(store, content, digest).await
}

async fn stage_whole(store: &Store, content: Bytes, mut digest: Digest) -> S3Result<(Staged, Sums)> {
    // Polled first, so that the store begins to write before this thread hashes.
    let staging = store.stage(content.clone());
    let hashing = async {
        digest.update(&content);
        digest.finish()
    };
    let (staged, sums) = tokio::join!(staging, hashing);
    Ok((staged.or_refuse()?, sums))
}

async fn stage_large(store: &Store, source: &mut Source, digest: Digest) -> S3Result<(Staged, Sums)> {
    let first = source.block(store).await?;
    stage_blocks(store, source, first, digest).await
}

async fn stage_blocks(
    store: &Store,
    source: &mut Source,
    mut block: Bytes,
    mut digest: Digest,
) -> S3Result<(Staged, Sums)> {
    let mut writer = Box::new(store.stage_writer());
    loop {
        let last = source.is_read();
        let hashing = digest.update_beside(block.clone());
        let writing = tokio::task::spawn_blocking(move || write(writer, &block, last));
        let reading =
            async { if last { source.finish().await.map(|()| Bytes::new()) } else { source.block(store).await } };
        let (hashed, written, read) = tokio::join!(hashing, writing, reading);
        digest = hashed?;
        let written = written.map_err(|error| lost(&error))?.or_refuse()?;
        block = read?;
        match written {
            Written::Part(rest) => writer = rest,
            Written::All(staged) => return Ok((staged, digest.finish())),
        }
    }
}

enum Written {
    Part(Box<StageWriter>),
    All(Staged),
}

fn write(mut writer: Box<StageWriter>, block: &[u8], last: bool) -> objstore::Result<Written> {
    writer.write(block)?;
    if last { writer.finish().map(Written::All) } else { Ok(Written::Part(writer)) }
}

fn join(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.len() {
        0 => Bytes::new(),
        1 => pieces.remove(0),
        _ => Bytes::from(pieces.concat()),
    }
}

/// The body, and how many bytes of it are still to come.
struct Source {
    stream: StreamingBlob,
    /// The rest of a chunk that did not fit into a block.
    rest: Bytes,
    left: u64,
    /// Whether the end of the stream ends the body; `left` is then its largest size.
    open: bool,
}

impl Source {
    fn new(stream: StreamingBlob, left: u64) -> Self {
        Self { stream, rest: Bytes::new(), left, open: false }
    }

    /// A body of any length up to `most`.
    fn open(stream: StreamingBlob, most: u64) -> Self {
        Self { open: true, ..Self::new(stream, most) }
    }

    /// Whether all of it was read.
    fn is_read(&self) -> bool {
        self.left == 0 && self.rest.is_empty()
    }

    /// All of it in one piece.
    async fn all(&mut self) -> S3Result<Bytes> {
        let mut pieces = Vec::new();
        while self.left > 0 {
            pieces.push(self.take().await?);
        }
        Ok(join(pieces))
    }

    /// The next block; only the last one may be shorter than a full block.
    async fn block(&mut self, store: &Store) -> S3Result<Bytes> {
        let mut block = store.block();
        while !block.is_full() && !self.is_read() {
            if self.rest.is_empty() {
                self.rest = self.take().await?;
            }
            let taken = block.fill(&self.rest);
            self.rest.advance(taken);
        }
        Ok(block.freeze())
    }

    /// The next chunk; empty at the end of an open body.
    async fn take(&mut self) -> S3Result<Bytes> {
        let Some(piece) = self.piece().await? else {
            if !self.open {
                return Err(refuse(S3ErrorCode::IncompleteBody, "The body is shorter than its declared length."));
            }
            self.left = 0;
            return Ok(Bytes::new());
        };
        self.left = self.left.checked_sub(piece.len() as u64).ok_or_else(|| self.too_long())?;
        Ok(piece)
    }

    /// Reads the end of the stream; no content may follow.
    async fn finish(&mut self) -> S3Result<()> {
        while let Some(piece) = self.piece().await? {
            if !piece.is_empty() {
                return Err(self.too_long());
            }
        }
        Ok(())
    }

    fn too_long(&self) -> S3Error {
        if self.open {
            plain(S3ErrorCode::EntityTooLarge)
        } else {
            refuse(S3ErrorCode::IncompleteBody, "The body is longer than its declared length.")
        }
    }

    async fn piece(&mut self) -> S3Result<Option<Bytes>> {
        self.stream.next().await.transpose().map_err(|error| broken(&error))
    }
}

/// The client's error for a body that failed while it was received.
fn broken(error: &StdError) -> S3Error {
    let error: &(dyn std::error::Error + 'static) = error.as_ref();
    if let Some(chunked) = error.downcast_ref::<AwsChunkedStreamError>() {
        return broken_chunks(chunked);
    }
    if let Some(upload) = error.downcast_ref::<UploadStreamError>() {
        return broken_upload(upload);
    }
    if error.is::<BodySizeLimitExceeded>() {
        let error = refuse(S3ErrorCode::EntityTooLarge, "Use a multipart upload for larger objects.");
        return error.with("MaxSizeAllowed", UPLOAD_BYTES_MAX);
    }
    Fault::Cut.refuse()
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
        UploadStreamError::Sha256Mismatch => Fault::Another.refuse(),
        other => refuse(other.to_s3_error_code(), "The body is not of its declared length."),
    }
}

#[cfg(test)]
mod tests {
    use objstore::content::BLOCK_BYTES;

    use super::*;

    fn source(pieces: Vec<Result<Bytes, std::io::Error>>, left: u64) -> Source {
        Source::new(StreamingBlob::wrap(futures::stream::iter(pieces)), left)
    }

    async fn read(pieces: &[&'static [u8]], left: u64) -> Result<Vec<u8>, String> {
        let mut source = source(pieces.iter().map(|piece| Ok(Bytes::from_static(piece))).collect(), left);
        let read = async {
            let content = source.all().await?;
            source.finish().await?;
            Ok::<_, S3Error>(content.to_vec())
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
    async fn an_open_body_ends_with_its_stream_and_has_to_be_in_its_range() {
        let dir = tempfile::tempdir().unwrap();
        let options = objstore::store::Options::new(dir.path());
        let store = tokio::task::spawn_blocking(|| objstore::open(options)).await.unwrap().unwrap();
        for len in [0usize, 1, 200_000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 2 << 20] {
            let content = vec![7u8; len];
            let range = |range: RangeInclusive<u64>| {
                let pieces: Vec<_> = content.chunks(64 * 1024).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
                let stream = StreamingBlob::wrap(futures::stream::iter(pieces as Vec<Result<Bytes, std::io::Error>>));
                let store = store.clone();
                async move { receive_within(&store, stream, &Claims::default(), range).await }
            };
            let len = len as u64;
            let code = |received: S3Result<Received>| {
                received.map(|received| received.sums.size).map_err(|error| error.code().as_str().to_owned())
            };
            assert_eq!(code(range(0..=u64::MAX).await), Ok(len));
            assert_eq!(code(range(len..=len).await), Ok(len), "{len}");
            assert_eq!(code(range(len + 1..=u64::MAX).await), Err("EntityTooSmall".into()), "{len}");
            if len > 0 {
                assert_eq!(code(range(0..=len - 1).await), Err("EntityTooLarge".into()), "{len}");
            }
        }
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
    async fn blocks_are_full_but_for_the_last_and_hold_all_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let options = objstore::store::Options::new(dir.path());
        let store = tokio::task::spawn_blocking(|| objstore::open(options)).await.unwrap().unwrap();
        let content: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
        let pieces = content.chunks(300_000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let mut source = source(pieces, content.len() as u64);
        let mut blocks = Vec::new();
        while !source.is_read() {
            blocks.push(source.block(&store).await.unwrap());
        }
        let (last, full) = blocks.split_last().unwrap();
        assert!(full.iter().all(|block| block.len() == BLOCK_BYTES) && last.len() == content.len() % BLOCK_BYTES);
        assert!(blocks.concat() == content);
    }
}
