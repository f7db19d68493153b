//! Connection limits of an endpoint: how many connections, and how long one may be silent.
//!
//! - A connection beyond the limit is closed at once: the services behind it need no protection beyond that.
//! - After accept(2) failed for lack of descriptors or memory, the next attempt waits a moment.
//! - A connection that is silent for longer than the endpoint's [`Timeouts`] is closed, and some endpoints close each
//!   connection after a fixed time.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::transport::server::{Connected, UdsConnectInfo};

/// The pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// How long it may be silent.
    pub silence: Duration,
    /// How long it may last, if limited.
    pub life: Option<Duration>,
}

/// A listening socket.
pub trait Accept: Send + 'static {
    /// The type of its connections.
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Polls for the next connection.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Self::Io>>;
}

impl Accept for UnixListener {
    type Io = UnixStream;

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
        self.poll_accept(context).map_ok(|(stream, _)| stream)
    }
}

impl Accept for TcpListener {
    type Io = TcpStream;

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        self.poll_accept(context).map_ok(|(stream, _)| stream)
    }
}

/// An endpoint's listener with a connection limit.
pub struct LimitedListener<L> {
    listener: L,
    free: Arc<Semaphore>,
    timeouts: Timeouts,
    /// Set after a failed accept.
    pause: Option<Pin<Box<Sleep>>>,
}

impl<L: Accept> LimitedListener<L> {
    /// A listener with at most `count` connections at a time.
    pub fn new(listener: L, count: usize, timeouts: Timeouts) -> Self {
        Self { listener, free: Arc::new(Semaphore::new(count)), timeouts, pause: None }
    }

    /// Polls for the next connection within the limit.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<LimitedConnection<L::Io>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            match ready!(self.listener.poll(context)) {
                Ok(io) => {
                    if let Ok(seat) = Arc::clone(&self.free).try_acquire_owned() {
                        return Poll::Ready(LimitedConnection::new(io, seat, self.timeouts));
                    }
                    tracing::debug!("closing a connection: the endpoint's connection limit is reached");
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    self.pause = Some(Box::pin(tokio::time::sleep(ACCEPT_PAUSE)));
                }
            }
        }
    }

    /// The underlying listener.
    pub fn listener(&self) -> &L {
        &self.listener
    }
}

/// The stream of connections in tonic's form.
impl<L: Accept + Unpin> tokio_stream::Stream for LimitedListener<L> {
    type Item = io::Result<LimitedConnection<L::Io>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        LimitedListener::poll_next(&mut self, context).map(|seated| Some(Ok(seated)))
    }
}

/// A connection that counts against the limit until it is dropped.
pub struct LimitedConnection<S> {
    io: S,
    clock: Clock,
    _seat: OwnedSemaphorePermit,
}

/// The timers of a connection.
struct Clock {
    timeouts: Timeouts,
    ends: Option<Instant>,
    alarm: Pin<Box<Sleep>>,
}

impl Clock {
    fn new(timeouts: Timeouts) -> Self {
        let now = Instant::now();
        let ends = timeouts.life.map(|life| now + life);
        Self { timeouts, ends, alarm: Box::pin(sleep_until(now + timeouts.silence)) }
    }

    fn moved(&mut self) {
        let until = Instant::now() + self.timeouts.silence;
        self.alarm.as_mut().reset(self.ends.map_or(until, |ends| until.min(ends)));
    }

    fn rings(&mut self, context: &mut Context<'_>) -> bool {
        self.alarm.as_mut().poll(context).is_ready()
    }
}

impl<S> LimitedConnection<S> {
    fn new(io: S, seat: OwnedSemaphorePermit, timeouts: Timeouts) -> Self {
        Self { io, clock: Clock::new(timeouts), _seat: seat }
    }

    /// The connection's result, or a timeout.
    fn timed<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match polled {
            Poll::Ready(moved) => {
                self.clock.moved();
                Poll::Ready(moved)
            }
            Poll::Pending if self.clock.rings(context) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedConnection<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_read(context, room);
        self.timed(context, polled)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedConnection<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(context, bytes);
        self.timed(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(context, parts);
        self.timed(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

/// The peer's credentials, for the check of each call (`peer`).
impl Connected for LimitedConnection<UnixStream> {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> UdsConnectInfo {
        self.io.connect_info()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn seats(count: usize, silence: Duration) -> (LimitedListener<TcpListener>, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        (LimitedListener::new(listener, count, Timeouts { silence, life: None }), address)
    }

    #[tokio::test]
    async fn one_too_many_is_closed_and_a_seat_is_free_again() {
        let (mut seats, address) = seats(1, Duration::from_secs(60)).await;
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(TcpStream::connect(address).await.expect("connected"));
        }
        let first = poll_fn(|context| seats.poll_next(context)).await;
        let more = tokio::time::timeout(Duration::from_millis(50), poll_fn(|context| seats.poll_next(context)));
        assert!(more.await.is_err(), "a connection beyond the limit is not accepted");
        assert_eq!(clients[2].read(&mut [0]).await.expect("closed"), 0);
        drop(first);
        let _next = TcpStream::connect(address).await.expect("connected");
        poll_fn(|context| seats.poll_next(context)).await;
    }

    #[tokio::test]
    async fn a_silent_connection_ends() {
        let (mut seats, address) = seats(1, Duration::from_millis(50)).await;
        let _client = TcpStream::connect(address).await.expect("connected");
        let mut seated = poll_fn(|context| seats.poll_next(context)).await;
        let ended = seated.read(&mut [0]).await.expect_err("it was silent");
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
    }
}
