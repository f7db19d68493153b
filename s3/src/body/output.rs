//! The content of an object on its way out.
//!
//! - A small object comes with its head from one trip to the store; of a larger one the first block does, and each
//!   further block is read while the one before it is sent: at most two blocks are held.
//! - A read that fails ends the connection: damaged bytes are never sent as data.

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

/// Bytes read in one step: a block of the store's memory.
const STEP_BYTES: u64 = BLOCK_BYTES as u64;

type Block = objstore::Result<Bytes>;

/// A range of an object's content: the first block read, the rest to come.
pub(crate) struct Output {
    reader: Arc<Reader>,
    first: Bytes,
    rest: Range<u64>,
}

/// Reads the beginning of `range`. Blocking.
pub(crate) fn open(reader: Reader, range: Range<u64>) -> objstore::Result<Output> {
    let reader = Arc::new(reader);
    let end = range.end.min(range.start + STEP_BYTES);
    let first = read(&reader, range.start..end)?;
    Ok(Output { reader, first, rest: end..range.end })
}

fn read(reader: &Reader, range: Range<u64>) -> Block {
    // A step is short, so its length fits.
    let len = usize::try_from(range.end - range.start).unwrap_or(0);
    if len == 0 { Ok(Bytes::new()) } else { reader.read(range.start, len) }
}

impl Output {
    /// As a body. Has to be called on the runtime.
    pub(crate) fn into_blob(self) -> StreamingBlob {
        if self.rest.is_empty() {
            return StreamingBlob::from_bytes(self.first);
        }
        let mut blocks = Blocks { reader: self.reader, first: Some(self.first), ahead: None, rest: self.rest };
        blocks.read_ahead();
        StreamingBlob::new(blocks)
    }
}

struct Blocks {
    reader: Arc<Reader>,
    first: Option<Bytes>,
    ahead: Option<(u64, JoinHandle<Block>)>,
    rest: Range<u64>,
}

impl Blocks {
    fn read_ahead(&mut self) {
        if self.rest.is_empty() {
            return;
        }
        let end = self.rest.end.min(self.rest.start + STEP_BYTES);
        let range = self.rest.start..end;
        let (len, reader) = (end - self.rest.start, Arc::clone(&self.reader));
        self.rest.start = end;
        self.ahead = Some((len, tokio::task::spawn_blocking(move || read(&reader, range))));
    }
}

impl Stream for Blocks {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
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
                tracing::error!(%error, "an answer was cut off: its content cannot be read");
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
