//! Streaming an object's content into a response.
//!
//! - A small object is read together with its head in one call to the store; of a larger one, the first block is.
//! - A further block that is in the page cache is copied when it is needed, which is cheaper than waking another
//!   thread. From the first block that has to be read from the disk, a thread reads each block while the one before is
//!   sent. At most two blocks are held.
//! - A failed read closes the connection: damaged bytes are never sent as data.

use std::future::Future as _;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use objstore::content::BLOCK_BYTES;
use objstore::store::Reader;
use s3s::StdError;
use s3s::dto::StreamingBlob;
use s3s::stream::{ByteStream, RemainingLength};
use tokio::task::JoinHandle;

/// Bytes read at a time: a block of the store's memory.
const STEP_BYTES: u64 = BLOCK_BYTES as u64;
/// The most blocks copied in a row before other connections are served.
const COPIED_MAX: u32 = 4;

type Block = objstore::Result<Bytes>;

/// A range of an object's content: the first block, and the range still to read.
pub(crate) struct Output {
    reader: Arc<Reader>,
    first: Bytes,
    rest: Range<u64>,
}

/// Reads the beginning of `range`. Blocking.
pub(crate) fn open(reader: Reader, range: Range<u64>) -> objstore::Result<Output> {
    let reader = Arc::new(reader);
    let mut rest = range;
    let first = read(&reader, step(&mut rest))?;
    Ok(Output { reader, first, rest })
}

/// Takes the next step off `rest`. Steps end at block boundaries, wherever the first begins.
fn step(rest: &mut Range<u64>) -> Range<u64> {
    let from = rest.start;
    rest.start = rest.end.min((from / STEP_BYTES + 1) * STEP_BYTES);
    from..rest.start
}

fn read(reader: &Reader, range: Range<u64>) -> Block {
    // A step is short, so its length fits.
    let len = usize::try_from(range.end - range.start).unwrap_or(0);
    if len == 0 { Ok(Bytes::new()) } else { reader.read(range.start, len) }
}

impl Output {
    /// Turns it into a response body. Has to be called on the runtime.
    pub(crate) fn into_blob(self) -> StreamingBlob {
        if self.rest.is_empty() {
            return StreamingBlob::from_bytes(self.first);
        }
        let Self { reader, first, rest } = self;
        StreamingBlob::new(Blocks { reader, first: Some(first), ahead: None, rest, copied: 0 })
    }
}

struct Blocks {
    reader: Arc<Reader>,
    first: Option<Bytes>,
    ahead: Option<(u64, JoinHandle<Block>)>,
    rest: Range<u64>,
    /// Blocks copied since other connections were served.
    copied: u32,
}

impl Blocks {
    fn read_ahead(&mut self) {
        if self.rest.is_empty() {
            return;
        }
        let (range, reader) = (step(&mut self.rest), Arc::clone(&self.reader));
        self.ahead = Some((range.end - range.start, tokio::task::spawn_blocking(move || read(&reader, range))));
    }

    /// The next block, if it is in memory.
    fn copy(&mut self) -> Option<Bytes> {
        let mut rest = self.rest.clone();
        let range = step(&mut rest);
        let block = self.reader.read_cached(range.start, usize::try_from(range.end - range.start).ok()?)?;
        self.rest = rest;
        self.copied += 1;
        Some(block)
    }
}

impl Stream for Blocks {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        if self.ahead.is_none() && !self.rest.is_empty() {
            if self.copied == COPIED_MAX {
                self.copied = 0;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            if let Some(block) = self.copy() {
                return Poll::Ready(Some(Ok(block)));
            }
            self.read_ahead();
        }
        let Some((_, reading)) = &mut self.ahead else { return Poll::Ready(None) };
        let block = ready!(Pin::new(reading).poll(context));
        self.ahead = None;
        match block {
            Ok(Ok(block)) => {
                self.read_ahead();
                Poll::Ready(Some(Ok(block)))
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "a response was cut off because its content cannot be read");
                Poll::Ready(Some(Err(Box::new(error))))
            }
            Err(died) => Poll::Ready(Some(Err(Box::new(died)))),
        }
    }
}

impl ByteStream for Blocks {
    fn remaining_length(&self) -> RemainingLength {
        let first = self.first.as_ref().map_or(0, |first| first.len() as u64);
        let ahead = self.ahead.as_ref().map_or(0, |(len, _)| *len);
        let left = first + ahead + (self.rest.end - self.rest.start);
        usize::try_from(left).map_or_else(|_| RemainingLength::unknown(), RemainingLength::new_exact)
    }
}
