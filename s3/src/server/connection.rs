//! One connection, from its handshake to its end.
//!
//! - Handshakes run here and not in the accept loop, so a slow one delays no other.
//! - A connection ends when its client closes it, when `activity` finds it idle or overdue, when a new connection needs
//!   its slot, or at a shutdown. Except for overdue ones, it is first asked to end (`Connection: close`, GOAWAY) and
//!   given some time.
//! - If a new connection needs the slot, that time is shorter than the new one waits: on HTTP/2 one round trip for the
//!   GOAWAY; on HTTP/1 almost none, since at most the beginning of a head is lost.

use std::future::{Future as _, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::activity::{Activity, Verdict};
use super::connection_service::ConnectionService;
use super::slots::{ConnectionSlots, Ticket};
use super::stream::{Socket, Stream};
use super::{Tls, protocol};
use crate::layer::Layer;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::outbound::ReplyLedger;
use crate::peer::Peer;

/// How long a connection that was asked to end may stay without a request.
const GRACE: Duration = Duration::from_secs(5);
/// How long a connection may stay whose slot a new one needs: over HTTP/1 or before its first request; and over HTTP/2.
/// The new connection waits one second.
const GIVING_WAY: Duration = Duration::from_millis(20);
const GIVING_WAY_HTTP2: Duration = Duration::from_millis(300);

/// The answer to plain HTTP on a TLS port, usually a URL with the wrong scheme.
const NOT_TLS: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/xml\r\nconnection: close\r\n\r\n\
    <?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>InvalidRequest</Code>\
    <Message>This port speaks TLS: use https:// in place of http://.</Message></Error>";

/// State shared by all connections.
pub(super) struct EndpointState {
    pub(super) metrics: Metrics,
    pub(super) tls: Option<Tls>,
    pub(super) places: ConnectionSlots,
    layer: Layer,
    limits: Limits,
    requests: Arc<Semaphore>,
    http: auto::Builder<TokioExecutor>,
}

impl EndpointState {
    pub(super) fn new(layer: Layer, metrics: Metrics, tls: Option<Tls>, limits: Limits) -> Self {
        let places = ConnectionSlots::new(limits.connections);
        let requests = Arc::new(Semaphore::new(limits.requests.clamp(1, Semaphore::MAX_PERMITS)));
        Self { metrics, tls, places, layer, limits, requests, http: protocol::http() }
    }
}

/// Serves a connection until it ends.
pub(super) async fn serve(
    shared: Arc<EndpointState>,
    socket: TcpStream,
    (from, website): (SocketAddr, bool),
    ticket: Ticket,
    mut stop: watch::Receiver<bool>,
) {
    let _counted = shared.metrics.connected();
    let admission = shared.places.admit(ticket).await;
    let socket = tokio::select! {
        socket = open(&shared, socket) => socket,
        () = stopped(&mut stop) => None,
    };
    let Some(socket) = socket else { return };
    if admission.turned_away {
        shared.metrics.turned_away();
    }
    let (activity, ledger) = (Activity::new(), Arc::<ReplyLedger>::default());
    let door = ConnectionService {
        layer: shared.layer.clone(),
        activity: Arc::clone(&activity),
        ledger: Arc::clone(&ledger),
        peer: Peer {
            address: from,
            secure: matches!(socket, Socket::Tls(_)),
            tls_version: socket.tls_version(),
            cipher_suite: socket.cipher_suite(),
            website,
        },
        turned_away: admission.turned_away,
        requests: Arc::clone(&shared.requests),
    };
    drive(&shared, Stream { socket, activity, ledger }, door, &mut stop).await;
}

/// Performs the TLS handshake, if TLS is configured.
async fn open(shared: &EndpointState, socket: TcpStream) -> Option<Socket> {
    let Some(tls) = &shared.tls else { return Some(Socket::Plain(socket)) };
    let why = match tokio::time::timeout(shared.limits.handshake, shake_hands(tls, socket)).await {
        Ok(Ok(socket)) => return Some(socket),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it took too long".to_owned(),
    };
    shared.metrics.handshake_failed();
    tracing::debug!(why, "a TLS handshake failed");
    None
}

async fn shake_hands(tls: &Tls, mut socket: TcpStream) -> io::Result<Socket> {
    let mut first = [0];
    if socket.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase() {
        // Unread input would turn the close into a reset, and the response would be lost.
        let _ = socket.read(&mut [0; 16 * 1024]).await?;
        socket.write_all(NOT_TLS.as_bytes()).await?;
        socket.shutdown().await?;
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the client speaks plain HTTP"));
    }
    tls.accept(socket).await.map(|stream| Socket::Tls(Box::new(stream)))
}

/// Runs a connection and enforces its deadlines.
async fn drive(shared: &EndpointState, stream: Stream, door: ConnectionService, stop: &mut watch::Receiver<bool>) {
    let (activity, ledger) = (Arc::clone(&stream.activity), Arc::clone(&stream.ledger));
    let limits = if door.turned_away { shared.limits.turned_away() } else { shared.limits };
    let seated = !door.turned_away;
    let mut connection = pin!(shared.http.serve_connection(TokioIo::new(stream), door));
    let mut timer = pin!(tokio::time::sleep(limits.head));
    // Recreated when the connection becomes idle: it then queues behind connections that were idle before.
    let mut wanted = pin!(shared.places.wanted());
    let mut place_wanted = false;
    let mut ends: Option<Instant> = None;
    loop {
        let stopping = place_wanted || *stop.borrow();
        let until = match next(&activity, &limits, ends, stopping) {
            Next::Wait(until) => until,
            Next::AskToEnd => {
                connection.as_mut().graceful_shutdown();
                ends = Some(Instant::now() + grace(place_wanted, &activity));
                continue;
            }
            Next::Cut => return ledger.expire(),
        };
        // A deadline that moved later is checked when the timer ends: resetting it for each request would wake a thread
        // each time.
        if until < timer.deadline() || timer.is_elapsed() {
            timer.as_mut().reset(until);
        }
        let end = poll_fn(|context| activity.poll(context, |context| connection.as_mut().poll(context)));
        let turn = poll_fn(|_| if activity.has_turned() { Poll::Ready(()) } else { Poll::Pending });
        tokio::select! {
            biased;
            ended = end => return told(ended),
            () = turn => wanted.set(shared.places.wanted()),
            () = stopped(stop), if ends.is_none() => {}
            () = wanted.as_mut(), if seated && ends.is_none() && activity.is_idle() => place_wanted = true,
            () = timer.as_mut() => {}
        }
    }
}

/// How long a connection that was just asked to end may stay without a request.
fn grace(place_wanted: bool, activity: &Activity) -> Duration {
    match (place_wanted, activity.is_http2()) {
        (false, _) => GRACE,
        (true, true) => GIVING_WAY_HTTP2,
        (true, false) => GIVING_WAY,
    }
}

/// The next action on a connection.
enum Next {
    /// Wait until this time.
    Wait(Instant),
    /// Ask it to end.
    AskToEnd,
    /// Close it.
    Cut,
}

/// The next action. `ends` is the deadline of a connection that was asked to end.
fn next(activity: &Activity, limits: &Limits, ends: Option<Instant>, stopping: bool) -> Next {
    let now = Instant::now();
    match (activity.verdict(limits, now), ends) {
        (Verdict::Overdue, _) => {
            tracing::debug!("closing a connection whose client is too slow");
            Next::Cut
        }
        (Verdict::Idle, None) => Next::AskToEnd,
        (Verdict::Fine(_), None) if stopping => Next::AskToEnd,
        (_, Some(end)) if activity.is_idle() => {
            if now < end {
                Next::Wait(end)
            } else {
                Next::Cut
            }
        }
        (Verdict::Fine(until), _) => Next::Wait(until),
        // It became busy between the two checks.
        (Verdict::Idle, Some(end)) => Next::Wait(end),
    }
}

fn told(ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::debug!(error, "a connection ended early");
    }
}

/// Completes when all connections have to end.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A dropped sender means the same.
    let _ = stop.wait_for(|stop| *stop).await;
}
