//! Reading and writing frames on a stream, with deadlines.
//!
//! - A connection may be silent for its idle time, but a frame that began has to be complete before its own deadline.

use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::frame::{Frame, body_bytes};
use crate::header::{Bounds, HEADER_BYTES, Header, Invalid};

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

/// Takes a step within a time limit.
pub(crate) async fn within<T>(
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
