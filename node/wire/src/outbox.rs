//! The queue of frames of one connection, and the task that writes them.

use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::budget::Held;
use crate::frame::Frame;
use crate::header::{Kind, Role};
use crate::io::{Broken, Writer};

/// How many frames wait in the queue of a connection.
pub(crate) const QUEUE_FRAMES: usize = 64;

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

/// Whether a connection asks for signs of life.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ping {
    Never,
    AfterSilence(Duration),
}

/// Writes what is queued until the queue closes, a refusal was written, or the connection breaks.
pub(crate) async fn write<W>(
    mut writer: Writer<W>,
    mut queue: mpsc::Receiver<Outgoing>,
    role: Role,
    ping: Ping,
) -> Broken
where
    W: AsyncWrite + Unpin,
{
    let ended = loop {
        let next = match ping {
            Ping::Never => queue.recv().await,
            Ping::AfterSilence(silence) => match timeout(silence, queue.recv()).await {
                Ok(next) => next,
                Err(_) => Some(Frame::new(Kind::Ping, role, "").into()),
            },
        };
        let Some(next) = next else { break Broken::Closed };
        match write_all(&mut writer, &mut queue, next).await {
            Ok(true) => {}
            Ok(false) => break Broken::Closed,
            Err(broken) => break broken,
        }
    };
    writer.close().await;
    ended
}

/// Writes this frame and all that are queued behind it; whether the connection goes on.
async fn write_all<W>(
    writer: &mut Writer<W>,
    queue: &mut mpsc::Receiver<Outgoing>,
    next: Outgoing,
) -> Result<bool, Broken>
where
    W: AsyncWrite + Unpin,
{
    // Memory is returned once the bytes are in the hands of the system.
    let mut all = Vec::new();
    let mut next = Some(next);
    while let Some(Outgoing { frame, held }) = next {
        all.push(held);
        writer.add(&frame).await?;
        if frame.kind == Kind::Refusal {
            writer.flush().await?;
            return Ok(false);
        }
        next = queue.try_recv().ok();
    }
    writer.flush().await?;
    Ok(true)
}
