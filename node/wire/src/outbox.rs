//! The frames of one connection on their way out: a queue, the task that writes it, and writes past the queue.
//!
//! - A small frame that finds nothing before it is written by the thread that sends it. No other thread has to wake up for
//!   it, which would take longer than the write.
//! - What the system does not take of it is left to the task, and the frames after it queue.
//! - Frames that one thread sends one after the other are written in that order.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::frame::Frame;
use crate::header::{Kind, Role};
use crate::io::{Broken, within};
use crate::output::{COPIED_BYTES, Outgoing, Output};
use crate::traffic::Traffic;

/// How many frames wait in the queue of a connection.
const QUEUE_FRAMES: usize = 64;
/// How long the last bytes of a connection may take.
const CLOSE: Duration = Duration::from_secs(1);

/// Whether a connection asks for signs of life.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ping {
    Never,
    /// After so long without a frame in the queue.
    AfterSilence(Duration),
}

/// The connection writes nothing any more.
#[derive(Debug)]
pub(crate) struct Gone;

/// Sends frames over a connection; a cheap handle.
#[derive(Clone)]
pub(crate) struct Outbox {
    queue: mpsc::Sender<Outgoing>,
    past: Arc<dyn Past>,
}

/// The way past the queue.
trait Past: Send + Sync {
    /// Writes a frame if nothing is before it; otherwise returns it.
    fn write(&self, outgoing: Outgoing) -> Option<Outgoing>;

    /// A frame is about to be queued.
    fn queued(&self);
}

/// What the senders and the task share.
struct Shared<W> {
    output: Mutex<Output<W>>,
    /// Frames in the queue.
    queued: AtomicUsize,
    /// Something is left of a write past the queue.
    left: Notify,
}

/// The task that writes what is queued, before it runs. When it is dropped, the stream is too.
pub(crate) struct Drain<W: AsyncWrite + Unpin> {
    shared: Arc<Shared<W>>,
    queue: mpsc::Receiver<Outgoing>,
    /// How long a write may make no progress.
    stall: Duration,
}

/// The outbox of a connection over this stream, and the task that it needs.
pub(crate) fn outbox<W>(stream: W, stall: Duration, traffic: Arc<Traffic>) -> (Outbox, Drain<W>)
where
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (sender, queue) = mpsc::channel(QUEUE_FRAMES);
    let output = Mutex::new(Output::new(stream, traffic));
    let shared = Arc::new(Shared { output, queued: AtomicUsize::new(0), left: Notify::new() });
    let past = Arc::clone(&shared);
    (Outbox { queue: sender, past }, Drain { shared, queue, stall })
}

impl Outbox {
    /// Writes or queues a frame; waits while the queue is full.
    pub(crate) async fn send(&self, outgoing: Outgoing) -> Result<(), Gone> {
        let Err(outgoing) = self.try_send(outgoing) else { return Ok(()) };
        let place = self.queue.reserve().await.map_err(|_| Gone)?;
        self.past.queued();
        place.send(outgoing);
        Ok(())
    }

    /// Writes or queues a frame, or returns it if the queue is full or the connection writes nothing any more.
    pub(crate) fn try_send(&self, outgoing: Outgoing) -> Result<(), Outgoing> {
        let Some(outgoing) = self.past.write(outgoing) else { return Ok(()) };
        let Ok(place) = self.queue.try_reserve() else { return Err(outgoing) };
        self.past.queued();
        place.send(outgoing);
        Ok(())
    }

    /// Completes when the connection writes nothing any more.
    pub(crate) async fn closed(&self) {
        self.queue.closed().await;
    }
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Outbox").finish_non_exhaustive()
    }
}

impl<W: AsyncWrite + Unpin + Send> Past for Shared<W> {
    fn write(&self, outgoing: Outgoing) -> Option<Outgoing> {
        // The task ends with the last frame, so it writes that one.
        if outgoing.frame.payload.len() > COPIED_BYTES || outgoing.frame.kind == Kind::Refusal {
            return Some(outgoing);
        }
        let mut output = self.output.lock();
        if self.queued.load(Ordering::Acquire) > 0 || !output.is_idle() {
            return Some(outgoing);
        }
        output.add(outgoing);
        if !output.write_now() {
            self.left.notify_one();
        }
        None
    }

    fn queued(&self) {
        self.queued.fetch_add(1, Ordering::AcqRel);
    }
}

impl<W: AsyncWrite + Unpin> Drain<W> {
    /// Writes what is queued until the queue closes, a refusal was written, or the connection breaks.
    pub(crate) async fn write(mut self, role: Role, ping: Ping) -> Broken {
        let ended = loop {
            match self.step(role, ping).await {
                Ok(true) => {}
                Ok(false) => break Broken::Closed,
                Err(broken) => break broken,
            }
        };
        // The peer may be away already.
        let shutdown = poll_fn(|context| self.shared.output.lock().poll_shutdown(context));
        let _ = timeout(self.stall.min(CLOSE), shutdown).await;
        ended
    }

    /// Waits for something to write, and writes it; whether the connection goes on.
    async fn step(&mut self, role: Role, ping: Ping) -> Result<bool, Broken> {
        let something = async {
            tokio::select! {
                next = self.queue.recv() => next.map(Some),
                () = self.shared.left.notified() => Some(None),
            }
        };
        let something = match ping {
            Ping::Never => something.await,
            Ping::AfterSilence(silence) => match timeout(silence, something).await {
                Ok(something) => something,
                Err(_) => {
                    self.shared.queued.fetch_add(1, Ordering::AcqRel);
                    Some(Some(Frame::new(Kind::Ping, role, "").into()))
                }
            },
        };
        let Some(next) = something else { return Ok(false) };
        self.gather(next);
        while !within(self.stall, "a write", poll_fn(|context| self.shared.output.lock().poll_part(context))).await? {}
        Ok(!self.shared.output.lock().is_ended())
    }

    /// Adds this frame and those that are queued behind it.
    fn gather(&mut self, next: Option<Outgoing>) {
        let mut output = self.shared.output.lock();
        let mut next = next;
        while let Some(outgoing) = next.take() {
            output.add(outgoing);
            self.shared.queued.fetch_sub(1, Ordering::AcqRel);
            if output.takes_more() {
                next = self.queue.try_recv().ok();
            }
        }
    }
}

impl<W: AsyncWrite + Unpin> Drop for Drain<W> {
    fn drop(&mut self) {
        let taken = self.shared.output.lock().take();
        // Outside of the lock.
        drop(taken);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;
    use crate::budget::Held;
    use crate::header::HEADER_BYTES;

    fn frame(number: u64, bytes: usize) -> Outgoing {
        let payload = Bytes::from(vec![number as u8; bytes]);
        Frame::new(Kind::Notice, Role::Bulk, "").numbered(number).with_payload(payload).into()
    }

    async fn read(stream: &mut tokio::io::DuplexStream, bytes: usize) -> Frame {
        let mut read = vec![0; HEADER_BYTES + bytes];
        stream.read_exact(&mut read).await.expect("a frame");
        Frame::decode(&Bytes::from(read), Role::Bulk.bounds()).expect("a frame").0
    }

    #[tokio::test]
    async fn a_small_frame_is_written_without_the_task() {
        let (ours, mut theirs) = duplex(64 << 10);
        let (outbox, drain) = outbox(ours, CLOSE, Arc::default());
        outbox.send(frame(1, 100)).await.expect("it is written");
        assert_eq!(read(&mut theirs, 100).await.number, 1);
        drop(drain);
        assert!(outbox.send(frame(2, 100)).await.is_err(), "the stream is gone with the task");
        assert_eq!(theirs.read(&mut [0]).await.expect("the end"), 0);
    }

    #[tokio::test]
    async fn what_a_stream_does_not_take_is_written_by_the_task_in_order_and_keeps_its_memory_until_then() {
        let (ours, mut theirs) = duplex(1000);
        let (outbox, drain) = outbox(ours, CLOSE, Arc::default());
        let budget = crate::budget::Budget::new(1 << 20);
        let held: Held = vec![budget.take(1 << 20).await].into();
        outbox.send(Outgoing { held, ..frame(1, 10_000) }).await.expect("a part of it is written");
        assert_eq!(budget.free_bytes(), 0);
        let sizes = [10_000, 100, 100_000, 100, 20_000, 0];
        for (number, bytes) in (2..).zip(&sizes[1..]) {
            outbox.send(frame(number, *bytes)).await.expect("it is queued");
        }
        let task = tokio::spawn(drain.write(Role::Bulk, Ping::Never));
        for (number, bytes) in (1..).zip(sizes) {
            let Frame { number: read, payload, .. } = read(&mut theirs, bytes).await;
            assert_eq!((read, payload), (number, vec![number as u8; bytes].into()));
        }
        assert_eq!(budget.free_bytes(), 1 << 20);
        // Past the queue again, once it is empty.
        outbox.send(frame(7, 10)).await.expect("it is written");
        assert_eq!(read(&mut theirs, 10).await.number, 7);
        outbox.send(Frame::new(Kind::Refusal, Role::Bulk, "").into()).await.expect("the last frame");
        assert!(matches!(task.await, Ok(Broken::Closed)));
        assert!(outbox.send(frame(8, 10)).await.is_err());
    }

    #[tokio::test]
    async fn a_stream_that_takes_nothing_ends_its_connection() {
        let (ours, _theirs) = duplex(1000);
        let (outbox, drain) = outbox(ours, Duration::from_millis(50), Arc::default());
        outbox.send(frame(1, 10_000)).await.expect("a part of it is written");
        assert!(matches!(drain.write(Role::Bulk, Ping::Never).await, Broken::Slow(_)));
    }
}
