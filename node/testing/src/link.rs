//! Connections that a test cuts or lets fall silent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::task::{Context, Poll};

use node_wire::client::{Tls, Transport};
use node_wire::credential::Binding;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What happens to the connections of a node; a cheap handle.
#[derive(Clone)]
pub struct Weather(Arc<State>);

struct State {
    /// How many more reads and writes succeed before one fails.
    left: AtomicI64,
    is_silent: AtomicBool,
}

impl Default for Weather {
    fn default() -> Self {
        Self(Arc::new(State { left: AtomicI64::new(i64::MAX), is_silent: AtomicBool::new(false) }))
    }
}

impl Weather {
    /// Cuts a connection after so many more reads and writes on all of them, once.
    pub fn cut_after(&self, steps: i64) {
        self.0.left.store(steps, Ordering::SeqCst);
    }

    /// Whether the cut has happened.
    pub fn is_cut(&self) -> bool {
        self.0.left.load(Ordering::SeqCst) < 0
    }

    /// From now on nothing arrives and nothing leaves, without an error: a partition.
    pub fn fall_silent(&self) {
        self.0.is_silent.store(true, Ordering::SeqCst);
    }

    fn step(&self) -> Poll<io::Result<()>> {
        if self.0.is_silent.load(Ordering::SeqCst) {
            return Poll::Pending;
        }
        if self.0.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Poll::Ready(Ok(()))
    }
}

/// TLS over connections that a test cuts.
pub(crate) struct Fragile {
    pub(crate) tls: Tls,
    pub(crate) weather: Weather,
}

impl Transport for Fragile {
    type Stream = Stream<<Tls as Transport>::Stream>;

    async fn connect(&self) -> io::Result<(Self::Stream, Binding)> {
        if self.weather.0.is_silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let (inner, binding) = self.tls.connect().await?;
        Ok((Stream { inner, weather: self.weather.clone(), is_cut: false }, binding))
    }
}

/// A stream of which a read or write fails when its weather says so. After that all fail.
pub(crate) struct Stream<S> {
    inner: S,
    weather: Weather,
    is_cut: bool,
}

impl<S> Stream<S> {
    fn step(&mut self) -> Poll<io::Result<()>> {
        if self.is_cut {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let step = self.weather.step();
        self.is_cut = matches!(step, Poll::Ready(Err(_)));
        step
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.step())?;
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        std::task::ready!(self.step())?;
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
