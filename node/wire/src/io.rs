//! Reading and writing frames on a stream, with deadlines.
//!
//! - A connection may be silent for its idle time, but a frame that began has to be complete before its own deadline.
//! - Small frames that wait together are written together; a large payload is written without a copy.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::frame::{Frame, body_bytes};
use crate::header::{Bounds, HEADER_BYTES, Header, Invalid};
use crate::traffic::Traffic;

/// Payload up to here is copied behind its header; beyond, the copy costs more than a write of its own.
const COPIED_BYTES: usize = 16 << 10;
/// The bytes that are gathered before a write.
const GATHERED_BYTES: usize = 64 << 10;

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The peer closed it between two frames.
    #[error("the peer closed the connection")]
    Closed,
    /// The system or TLS failed.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// The bytes are not a frame.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The peer was silent for too long, or slower than a deadline.
    #[error("the peer was too slow: {0} took too long")]
    Slow(&'static str),
}

/// How long the parts of a read may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Until the first byte of a frame.
    pub(crate) idle: Duration,
    /// From the first byte of a frame to its end, without waiting for memory.
    pub(crate) frame: Duration,
}

/// Reads a header. [`Broken::Closed`] is returned only between two frames.
pub(crate) async fn read_header<R>(stream: &mut R, bounds: Bounds, pace: Pace) -> Result<Header, Broken>
where
    R: AsyncRead + Unpin,
{
    let mut bytes = [0; HEADER_BYTES];
    let first = within(pace.idle, "the next frame", stream.read(&mut bytes)).await?;
    if first == 0 {
        return Err(Broken::Closed);
    }
    within(pace.frame, "a frame header", stream.read_exact(&mut bytes[first..])).await?;
    Ok(Header::decode(&bytes, bounds)?)
}

/// Reads what follows a header; memory is taken here, once.
pub(crate) async fn read_body<R>(stream: &mut R, header: &Header, pace: Pace) -> Result<Frame, Broken>
where
    R: AsyncRead + Unpin,
{
    let length = body_bytes(header);
    let mut body = BytesMut::with_capacity(length);
    let fill = async {
        while body.len() < length {
            let mut rest = (&mut *stream).take((length - body.len()) as u64);
            if rest.read_buf(&mut body).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    };
    within(pace.frame, "a frame", fill).await?;
    Ok(Frame::of(header, body.freeze()))
}

/// Reads a whole frame of the handshake.
pub(crate) async fn read_frame<R>(stream: &mut R, bounds: Bounds, pace: Pace) -> Result<Frame, Broken>
where
    R: AsyncRead + Unpin,
{
    let header = read_header(stream, bounds, pace).await?;
    read_body(stream, &header, pace).await
}

async fn within<T>(
    limit: Duration,
    what: &'static str,
    step: impl Future<Output = io::Result<T>>,
) -> Result<T, Broken> {
    match timeout(limit, step).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Invalid::Short.into()),
        Ok(done) => Ok(done?),
        Err(_) => Err(Broken::Slow(what)),
    }
}

/// Frames on their way into a stream.
pub(crate) struct Writer<W> {
    stream: W,
    gathered: BytesMut,
    stall: Duration,
    traffic: Arc<Traffic>,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    /// A writer whose every write may take at most `stall`.
    pub(crate) fn new(stream: W, stall: Duration, traffic: Arc<Traffic>) -> Self {
        Self { stream, gathered: BytesMut::new(), stall, traffic }
    }

    /// Adds a frame, and writes what is gathered if it is much.
    pub(crate) async fn add(&mut self, frame: &Frame) -> Result<(), Broken> {
        self.gathered.extend_from_slice(&frame.header().encode());
        self.gathered.extend_from_slice(&frame.head);
        self.traffic.sent(HEADER_BYTES + frame.head.len() + frame.payload.len());
        if frame.payload.len() <= COPIED_BYTES {
            self.gathered.extend_from_slice(&frame.payload);
        }
        if frame.payload.len() > COPIED_BYTES || self.gathered.len() >= GATHERED_BYTES {
            self.write_gathered().await?;
        }
        if frame.payload.len() > COPIED_BYTES {
            // In pieces, so that the deadline is one of progress.
            for piece in frame.payload.chunks(GATHERED_BYTES) {
                within(self.stall, "a write", self.stream.write_all(piece)).await?;
            }
        }
        Ok(())
    }

    /// Writes everything that was added.
    pub(crate) async fn flush(&mut self) -> Result<(), Broken> {
        self.write_gathered().await?;
        within(self.stall, "a write", self.stream.flush()).await
    }

    /// Tells the peer that nothing follows.
    pub(crate) async fn close(&mut self) {
        // The peer may be away already.
        let _ = timeout(self.stall.min(Duration::from_secs(1)), self.stream.shutdown()).await;
    }

    async fn write_gathered(&mut self) -> Result<(), Broken> {
        within(self.stall, "a write", self.stream.write_all(&self.gathered)).await?;
        self.gathered.clear();
        if self.gathered.capacity() > 2 * GATHERED_BYTES {
            self.gathered = BytesMut::new();
        }
        Ok(())
    }
}

/// Writes one frame of the handshake.
pub(crate) async fn write_frame<W>(stream: &mut W, frame: &Frame, limit: Duration) -> Result<(), Broken>
where
    W: AsyncWrite + Unpin,
{
    let bytes: Bytes = frame.encode();
    let write = async {
        stream.write_all(&bytes).await?;
        stream.flush().await
    };
    within(limit, "a write", write).await
}
