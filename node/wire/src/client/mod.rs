//! The connections of a node to its store: one of each role, kept open and opened again.
//!
//! - Calls are numbered and answered in any order. A call ends with an answer or with a [`CallError`].
//! - A call waits a bounded time for a connection. This module never sends a call twice.
//! - Dropping a call cancels it at the store, which may have done it already.

mod connection;
mod counts;
mod lane;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::mpsc;
use tokio_rustls::client::TlsStream;

use crate::Random;
use crate::credential::{Binding, Credential};
use crate::header::{Role, SMALL_PAYLOAD_BYTES};
use crate::refusal::Refusal;
use crate::service::Answer;
use crate::tls::{Connector, Pair, Trust};
use crate::version::{SPOKEN, Versions};
use counts::Counts;
pub use counts::Stats;
use lane::Lane;

/// Makes streams to the store.
pub trait Transport: Send + Sync + 'static {
    /// What it makes.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Opens a stream, and returns the keying material of its TLS connection.
    fn connect(&self) -> impl Future<Output = io::Result<(Self::Stream, Binding)>> + Send;

    /// Whether only the proof of an access key unmasks an impostor.
    fn trusts_any_certificate(&self) -> bool {
        false
    }
}

/// TCP and TLS 1.3 to a host and port; a name is looked up at each attempt.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The server as `HOST:PORT`.
    pub server: String,
    /// The TLS side.
    pub connector: Connector,
}

impl Tls {
    /// To the volume listener at `HOST:PORT`; a node with a certificate shows it.
    ///
    /// # Errors
    /// [`tls::Error`](crate::tls::Error): the server is not named so, or the authority cannot be used.
    pub fn to(server: &str, trust: Trust<'_>, own: Option<Pair<'_>>) -> Result<Self, crate::tls::Error> {
        let connector = Connector::new(crate::tls::host(server)?, trust, own)?;
        Ok(Self { server: server.to_owned(), connector })
    }
}

impl Transport for Tls {
    type Stream = TlsStream<TcpStream>;

    async fn connect(&self) -> io::Result<(Self::Stream, Binding)> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{} has no address", self.server));
        for address in lookup_host(&self.server).await? {
            match self.connector.connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn trusts_any_certificate(&self) -> bool {
        self.connector.trusts_any_certificate()
    }
}

/// The identity of a node, its credential and its timeouts.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's name.
    pub node: String,
    /// The id of the session, chosen at random by the node, so that opening it twice opens it once.
    pub session: Bytes,
    /// The credential of the node.
    pub credential: Credential,
    /// The versions that the node speaks.
    pub versions: Versions,
    /// The optional features that the node knows.
    pub features: u64,
    /// How many calls of one connection run at once, if the store allows as many.
    pub requests: u32,
    /// How long an attempt may take to reach the store, at most, and again from then to the admission. Early attempts
    /// have less time for the first part.
    pub connect: Duration,
    /// How long a call waits for a connection.
    pub wait: Duration,
    /// The first and the longest pause between attempts to connect.
    pub pauses: (Duration, Duration),
    /// After how much silence of its own the node sends a ping.
    pub ping: Duration,
    /// After how much silence of the store the connection is given up: several pings.
    pub silence: Duration,
    /// How long a frame may take from its first byte to its last, and a write without progress.
    pub frame: Duration,
}

impl Config {
    /// A configuration with the usual timeouts.
    pub fn new(node: impl Into<String>, session: Bytes, credential: Credential) -> Self {
        Self {
            node: node.into(),
            session,
            credential,
            versions: SPOKEN,
            features: 0,
            requests: 256,
            connect: Duration::from_secs(10),
            wait: Duration::from_secs(10),
            pauses: (Duration::from_millis(20), Duration::from_secs(2)),
            ping: Duration::from_secs(3),
            silence: Duration::from_secs(10),
            frame: Duration::from_secs(30),
        }
    }
}

/// What happens on the connections, in order for each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection is admitted: resend on it what has an unknown outcome, and resume the changes.
    Connected(Role),
    /// The store sent a notice.
    Notice(Role, Bytes),
    /// A connection broke; it is opened again.
    Lost(Role),
    /// The store refused a connection, or ended it with this reason.
    Refused(Role, Refusal),
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The call was not sent: the store has not done it.
    #[error("the call was not sent: no connection to the store for {0:?}")]
    NotSent(Duration),
    /// The connection ended before the answer: the store may have done the call, or may do it yet. The slot of the call
    /// decides by resending it.
    #[error("the outcome of the call is unknown: the connection to the store ended before the answer")]
    Unknown,
    /// The store did not serve the call.
    #[error(transparent)]
    Refused(Refusal),
    /// A part of the call is longer than a frame can be.
    #[error("the call is longer than a frame can be: split it")]
    TooLong,
    /// The client was closed.
    #[error("the connections to the store were closed")]
    Closed,
}

/// A client cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("without a certificate authority only an access key can prove the server: give the authority's file")]
pub struct Unproven;

/// The connections of one session: a cheap handle. The last one that is dropped closes them.
#[derive(Clone)]
pub struct Client {
    lanes: Arc<[Lane; 3]>,
    counts: Arc<Counts>,
}

impl Client {
    /// Opens the connections in the background; what happens on them goes to `events`, whose receiver has to be read
    /// promptly: a full queue stops the reading of the connection.
    ///
    /// # Errors
    /// [`Unproven`]. Must be called in a runtime of tokio.
    pub fn start<T: Transport>(
        transport: T,
        config: Config,
        events: &mpsc::Sender<Event>,
        random: &Random,
    ) -> Result<Self, Unproven> {
        if transport.trusts_any_certificate() && !matches!(config.credential, Credential::AccessKey { .. }) {
            return Err(Unproven);
        }
        let (transport, config) = (Arc::new(transport), Arc::new(config));
        let counts = Arc::<Counts>::default();
        let lane = |role| Lane::start(role, &transport, (&config, &counts), events, random);
        Ok(Self { lanes: Arc::new(Role::ALL.map(lane)), counts })
    }

    /// Sends a call and waits for its answer, whose payload has at most `reply_bytes`. Much payload in either direction
    /// takes the connection for large transfers.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call(&self, head: Bytes, payload: Bytes, reply_bytes: u32) -> Result<Answer, CallError> {
        let small = |bytes: usize| bytes <= SMALL_PAYLOAD_BYTES as usize;
        let is_small = small(payload.len()) && reply_bytes <= SMALL_PAYLOAD_BYTES;
        let role = if is_small { Role::Calls } else { Role::Bulk };
        let trip = self.counts.begin();
        let answer = self.lane(role).call(head, payload, reply_bytes).await;
        if matches!(answer, Ok(_) | Err(CallError::Refused(_))) {
            trip.answered();
        }
        answer
    }

    /// The counts of the connections and calls.
    pub fn stats(&self) -> Stats {
        self.counts.read()
    }

    /// Sends a call over the control connection, which transfers and calls never delay: a renewal, for example.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn control(&self, head: Bytes) -> Result<Answer, CallError> {
        self.lane(Role::Control).call(head, Bytes::new(), 0).await
    }

    /// Sends a message without an answer over the control connection: an acknowledgement, for example.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn notice(&self, head: Bytes) -> Result<(), CallError> {
        self.lane(Role::Control).notice(head).await
    }

    fn lane(&self, role: Role) -> &Lane {
        self.lanes.iter().find(|lane| lane.role() == role).expect("there is a lane of each role")
    }
}
