//! Frames on their way into a stream, as bytes.
//!
//! - Small frames that wait together are written together; a large payload is written without a copy.
//! - Everything that is left of a write is here and nowhere else: the next write goes on with it, from any thread.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::AsyncWrite;

use crate::budget::Held;
use crate::frame::Frame;
use crate::header::{HEADER_BYTES, Kind};
use crate::traffic::Traffic;

/// Payload up to here is copied behind its header; beyond, the copy costs more than a write of its own.
pub(crate) const COPIED_BYTES: usize = 16 << 10;
/// The bytes that are gathered before a write.
const GATHERED_BYTES: usize = 64 << 10;

/// A frame to be written, with the memory it holds until then.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) frame: Frame,
    pub(crate) held: Held,
}

impl From<Frame> for Outgoing {
    fn from(frame: Frame) -> Self {
        Self { frame, held: Held::default() }
    }
}

/// A stream, and the bytes that it has not taken yet.
pub(crate) struct Output<W> {
    /// `None` once nothing is written any more.
    stream: Option<W>,
    gathered: Vec<u8>,
    /// So many of the gathered bytes are written.
    written: usize,
    /// The payload behind them.
    large: Bytes,
    is_flushed: bool,
    /// Whether the last frame of the connection was added.
    is_ended: bool,
    /// Memory that is returned once the bytes are in the hands of the system.
    held: Vec<Held>,
    failed: Option<io::Error>,
    traffic: Arc<Traffic>,
}

impl<W: AsyncWrite + Unpin> Output<W> {
    pub(crate) fn new(stream: W, traffic: Arc<Traffic>) -> Self {
        Self {
            stream: Some(stream),
            gathered: Vec::new(),
            written: 0,
            large: Bytes::new(),
            is_flushed: true,
            is_ended: false,
            held: Vec::new(),
            failed: None,
            traffic,
        }
    }

    /// Whether nothing is left of earlier frames, and more may follow.
    pub(crate) fn is_idle(&self) -> bool {
        self.stream.is_some() && !self.is_ended && self.failed.is_none() && self.rest().is_empty() && self.is_flushed
    }

    /// Whether a frame may be added: what is gathered stays small.
    pub(crate) fn takes_more(&self) -> bool {
        self.large.is_empty() && !self.is_ended && self.gathered.len() < GATHERED_BYTES
    }

    /// Whether the last frame of the connection was added.
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Adds a frame; call it only if it [takes more](Self::takes_more).
    pub(crate) fn add(&mut self, Outgoing { frame, held }: Outgoing) {
        self.gathered.extend_from_slice(&frame.header().encode());
        let Frame { kind, head, payload, .. } = frame;
        self.gathered.extend_from_slice(&head);
        self.traffic.sent(HEADER_BYTES + head.len() + payload.len());
        if payload.len() <= COPIED_BYTES {
            self.gathered.extend_from_slice(&payload);
        } else {
            self.large = payload;
        }
        self.held.push(held);
        (self.is_flushed, self.is_ended) = (false, kind == Kind::Refusal);
    }

    /// Writes a part of the rest; `true` once the system has everything.
    pub(crate) fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if let Some(failed) = self.failed.take() {
            return Poll::Ready(Err(failed));
        }
        let Some(stream) = &mut self.stream else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        let gathered = &self.gathered[self.written..];
        if gathered.is_empty() && self.large.is_empty() {
            if !self.is_flushed {
                ready!(Pin::new(stream).poll_flush(context))?;
                self.is_flushed = true;
            }
            self.held.clear();
            return Poll::Ready(Ok(true));
        }
        // In pieces, so that a deadline is one of progress.
        let is_large = gathered.is_empty();
        let piece = if is_large { &self.large[..self.large.len().min(GATHERED_BYTES)] } else { gathered };
        let count = ready!(Pin::new(stream).poll_write(context, piece))?;
        if count == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        if is_large {
            self.large.advance(count);
        } else {
            self.written += count;
        }
        if self.written == self.gathered.len() {
            self.clear();
        }
        Poll::Ready(Ok(false))
    }

    /// Writes what the system takes now; whether that is everything. The next write meets an error again.
    pub(crate) fn write_now(&mut self) -> bool {
        let mut context = Context::from_waker(std::task::Waker::noop());
        loop {
            match self.poll_part(&mut context) {
                Poll::Ready(Ok(true)) => return true,
                Poll::Ready(Ok(false)) => {}
                Poll::Ready(Err(error)) => {
                    self.failed = Some(error);
                    return false;
                }
                Poll::Pending => return false,
            }
        }
    }

    /// Tells the peer that nothing follows.
    pub(crate) fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().map_or(Poll::Ready(Ok(())), |stream| Pin::new(stream).poll_shutdown(context))
    }

    /// Writes nothing any more. The caller drops the stream and the memory.
    pub(crate) fn take(&mut self) -> (Option<W>, Vec<Held>) {
        self.is_ended = true;
        (self.stream.take(), std::mem::take(&mut self.held))
    }

    fn rest(&self) -> &[u8] {
        if self.written < self.gathered.len() { &self.gathered[self.written..] } else { &self.large }
    }

    fn clear(&mut self) {
        self.written = 0;
        self.gathered.clear();
        if self.gathered.capacity() > 2 * GATHERED_BYTES {
            self.gathered = Vec::new();
        }
    }
}
