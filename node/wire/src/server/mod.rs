//! The listener of a store: admits connections and hands their calls to a [`Service`].
//!
//! - Everything a peer can make the server hold is bounded: [`Limits`] has each bound and its reason.
//! - Peers that are not admitted yet (strangers) and admitted ones have separate limits, and strangers also one for
//!   each address. Where strangers hold all places, a newcomer takes one from them. So no stranger keeps a node out.
//! - The end of a session closes its connections, and drops its calls that are still running.

mod admission;
mod connection;
mod refused;
mod sessions;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use objstore_base::accept;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::Random;
use crate::budget::Budget;
use crate::credential::Binding;
use crate::handshake::Offer;
use crate::header::{HEAD_BYTES, PAYLOAD_BYTES};
use crate::refusal::{Reason, Refusal};
use crate::service::Service;
use crate::tls::Acceptor;
use crate::traffic::{self, Traffic};
use crate::version::{SPOKEN, Versions};
use admission::Admission;
pub use refused::{Refusals, Refused};
use sessions::Sessions;

/// The memory for calls of one control connection: one largest head, and as much for its notices that wait.
const CONTROL_CONNECTION_BYTES: u64 = 256 << 10;
/// The memory for calls of all control connections. It is apart, so that a renewal never waits for transfers, whose memory
/// may all be in use while the disk is slow.
const CONTROL_BYTES: u64 = 64 << 20;
/// What is logged of a stranger that ends for a newcomer.
const EVICTED: &str = "a connection is closed for a newer one: too many peers are not admitted yet";
/// How long connections may take to end at a shutdown.
const DRAIN: Duration = Duration::from_secs(2);

/// Limits on the connections, memory and time that peers can occupy.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most admitted connections: three for each session of a node.
    pub connections: usize,
    /// The most connections that are not admitted yet, from addresses that no peer was admitted from; and as many from
    /// those others.
    pub strangers: usize,
    /// The most of these from one address. Beyond, the oldest one ends.
    pub strangers_per_address: usize,
    /// The most calls of one connection that run at once.
    pub requests: u32,
    /// The memory for calls of one connection and their answers. At least a largest call with a largest answer. A control
    /// connection has less, and nothing of `total_bytes`.
    pub connection_bytes: u64,
    /// The memory for calls of all connections and their answers.
    pub total_bytes: u64,
    /// From accepting a connection to the end of its TLS handshake.
    pub tls: Duration,
    /// From there to its admission.
    pub hello: Duration,
    /// How long an admitted connection may be quiet; nodes send a ping more often.
    pub idle: Duration,
    /// How often a connection that waits for memory says that the server is alive, since it reads no ping then.
    pub alive: Duration,
    /// How long a frame may take from its first byte to its last: 4 MiB at 140 KB/s.
    pub frame: Duration,
    /// How long a write may make no progress.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            strangers: 256,
            strangers_per_address: 32,
            requests: 256,
            connection_bytes: 32 << 20,
            total_bytes: 512 << 20,
            tls: Duration::from_secs(5),
            hello: Duration::from_secs(5),
            idle: Duration::from_secs(60),
            alive: Duration::from_secs(2),
            frame: Duration::from_secs(30),
            stall: Duration::from_secs(30),
        }
    }
}

/// A listener with its service: a cheap handle.
pub struct Server<V: Service> {
    shared: Arc<Shared<V>>,
}

impl<V: Service> Clone for Server<V> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

/// What all connections share.
struct Shared<V> {
    service: V,
    limits: Limits,
    offer: Offer,
    random: Random,
    memory: Budget,
    control_memory: Budget,
    admission: Admission,
    sessions: Sessions,
    refusals: Refusals,
    traffic: Arc<Traffic>,
}

impl<V: Service> Server<V> {
    /// A server that speaks the versions of this release and knows these optional features.
    pub fn new(service: V, limits: Limits, features: u64, random: Random) -> Self {
        Self::speaking(SPOKEN, service, limits, features, random)
    }

    /// A server that speaks these versions, for tests of releases that are apart.
    pub fn speaking(versions: Versions, service: V, limits: Limits, features: u64, random: Random) -> Self {
        let largest = u64::from(HEAD_BYTES) + 2 * u64::from(PAYLOAD_BYTES);
        let limits = Limits { connection_bytes: limits.connection_bytes.max(largest), ..limits };
        let shared = Shared {
            service,
            limits,
            offer: Offer { versions, features },
            random,
            memory: Budget::new(limits.total_bytes),
            control_memory: Budget::new(CONTROL_BYTES),
            admission: Admission::new(&limits),
            sessions: Sessions::default(),
            refusals: Refusals::default(),
            traffic: Arc::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The service.
    pub fn service(&self) -> &V {
        &self.shared.service
    }

    /// How many connections are admitted.
    pub fn connections(&self) -> usize {
        self.shared.admission.admitted()
    }

    /// How many connections were not admitted, and why.
    pub fn refused(&self) -> Refused {
        self.shared.refusals.read()
    }

    /// The bytes of all connections that were admitted.
    pub fn traffic(&self) -> traffic::Bytes {
        self.shared.traffic.bytes()
    }

    /// How much memory for calls and answers is free, without that of control connections.
    pub fn free_bytes(&self) -> u64 {
        self.shared.memory.free_bytes()
    }

    /// Ends all connections of a session: their running calls are dropped, and the node receives the refusal. The session
    /// is fenced where its records are; this only makes the end known at once.
    pub fn end_session(&self, session: &Bytes, refusal: &Refusal) {
        self.shared.sessions.end(session, refusal);
    }

    /// Serves a listener until `shutdown` completes.
    ///
    /// # Errors
    /// The listening socket failed.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Acceptor,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, from)) => self.admit(socket, from, tls.clone()),
                Err(error) => accept::recover(error, "a connection of a node").await?,
            }
        }
        drop(listener);
        self.shared.sessions.end_all(&Refusal::new(Reason::Stopping, "the server is stopping; connect again"));
        // Connections that are still open then are closed with the process.
        let _ = timeout(DRAIN, self.shared.admission.empty()).await;
        Ok(())
    }

    fn admit(&self, socket: TcpStream, from: SocketAddr, tls: Acceptor) {
        let stranger = self.shared.admission.enter(from.ip());
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let handshake = async {
                socket.set_nodelay(true)?;
                tls.accept(socket).await
            };
            let accepted = tokio::select! {
                accepted = timeout(shared.limits.tls, handshake) => accepted,
                () = stranger.evicted() => {
                    shared.refusals.broken();
                    return tracing::debug!(%from, "{EVICTED}");
                }
            };
            let accepted = match accepted {
                Ok(Ok(accepted)) => accepted,
                failed => {
                    shared.refusals.broken();
                    return match failed {
                        Ok(Err(error)) => tracing::debug!(%from, %error, "a TLS handshake failed"),
                        _ => tracing::debug!(%from, "a TLS handshake took too long"),
                    };
                }
            };
            let (binding, certificate) = (accepted.binding, accepted.certificate);
            connection::serve(shared, accepted.stream, (binding, certificate), (stranger, from)).await;
        });
    }

    /// Serves one connection over a stream that the caller made, with the keying material of its TLS connection.
    pub async fn serve_stream<S>(&self, stream: S, binding: Binding, from: SocketAddr)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stranger = self.shared.admission.enter(from.ip());
        connection::serve(Arc::clone(&self.shared), stream, (binding, None), (stranger, from)).await;
    }
}
