//! One connection, from its handshake to its end.
//!
//! - Handshakes run here, off the accept path, so a slow one delays nobody.
//! - A connection ends when its client leaves, when `activity` finds it idle or overdue, when its place is wanted, or at
//!   a shutdown. All but the overdue are asked to end (`Connection: close`, GOAWAY) and get a moment to.
//! - One whose place is wanted gets a shorter moment than the new one waits: HTTP/2 a round trip for its GOAWAY, HTTP/1
//!   none, since all that is left of it then is the beginning of a head.

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
use super::door::{Door, Peer};
use super::places::{Places, Ticket};
use super::stream::{Socket, Stream};
use super::{Limits, Tls, protocol};
use crate::body::Ledger;
use crate::layer::Layer;
use crate::metrics::Metrics;

/// How long a connection that was asked to end may stay without a request.
const GRACE: Duration = Duration::from_secs(5);
/// The same of one whose place is wanted, over HTTP/1 and before its first request; and over HTTP/2. A new connection
/// waits for a second.
const GIVING_WAY: Duration = Duration::from_millis(20);
const GIVING_WAY_HTTP2: Duration = Duration::from_millis(300);

/// For who sends plain HTTP to a TLS port: the usual case is a URL with the wrong scheme.
const NOT_TLS: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/xml\r\nconnection: close\r\n\r\n\
    <?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>InvalidRequest</Code>\
    <Message>This port speaks TLS: use https:// in place of http://.</Message></Error>";

/// What all connections share.
pub(super) struct Shared {
    pub(super) metrics: Metrics,
    pub(super) tls: Option<Tls>,
    pub(super) places: Places,
    layer: Layer,
    limits: Limits,
    requests: Arc<Semaphore>,
    http: auto::Builder<TokioExecutor>,
}

impl Shared {
    pub(super) fn new(layer: Layer, metrics: Metrics, tls: Option<Tls>, limits: Limits) -> Self {
        let places = Places::new(limits.connections);
        let requests = Arc::new(Semaphore::new(limits.requests.clamp(1, Semaphore::MAX_PERMITS)));
        Self { metrics, tls, places, layer, limits, requests, http: protocol::http() }
    }
}

/// Serves a connection to its end.
pub(super) async fn serve(
    shared: Arc<Shared>,
    socket: TcpStream,
    from: SocketAddr,
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
    let (activity, ledger) = (Activity::new(), Arc::<Ledger>::default());
    let door = Door {
        layer: shared.layer.clone(),
        activity: Arc::clone(&activity),
        ledger: Arc::clone(&ledger),
        peer: Peer { address: from, secure: matches!(socket, Socket::Tls(_)), tls_version: socket.tls_version() },
        turned_away: admission.turned_away,
        requests: Arc::clone(&shared.requests),
    };
    drive(&shared, Stream { socket, activity, ledger }, door, &mut stop).await;
}

/// The handshake, where there is one.
async fn open(shared: &Shared, socket: TcpStream) -> Option<Socket> {
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
        // What was not read would turn the close into a reset, and the answer would be lost.
        let _ = socket.read(&mut [0; 16 * 1024]).await?;
        socket.write_all(NOT_TLS.as_bytes()).await?;
        socket.shutdown().await?;
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the client speaks plain HTTP"));
    }
    tls.accept(socket).await.map(|stream| Socket::Tls(Box::new(stream)))
}

/// Runs a connection, and ends it in time.
async fn drive(shared: &Shared, stream: Stream, door: Door, stop: &mut watch::Receiver<bool>) {
    let (activity, ledger) = (Arc::clone(&stream.activity), Arc::clone(&stream.ledger));
    let limits = if door.turned_away { shared.limits.turned_away() } else { shared.limits };
    let seated = !door.turned_away;
    let mut connection = pin!(shared.http.serve_connection(TokioIo::new(stream), door));
    let mut timer = pin!(tokio::time::sleep(limits.head));
    // One for as long as it is idle: a new one waits behind those of all others.
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
        // A deadline that moved further off is looked at when the timer ends: to set it anew for each request would wake
        // a thread for each.
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

/// What to do with a connection now.
enum Next {
    /// Nothing, until then.
    Wait(Instant),
    /// Ask it to end.
    AskToEnd,
    /// End it.
    Cut,
}

/// The next step. `ends` is when the grace of a connection ends that was asked to end.
fn next(activity: &Activity, limits: &Limits, ends: Option<Instant>, stopping: bool) -> Next {
    let now = Instant::now();
    match (activity.verdict(limits, now), ends) {
        (Verdict::Overdue, _) => {
            tracing::debug!("a connection is cut: its client is too slow");
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
        // It turned busy between the two looks.
        (Verdict::Idle, Some(end)) => Next::Wait(end),
    }
}

fn told(ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::debug!(error, "a connection ended early");
    }
}

/// Ends when connections are to end.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone means the same.
    let _ = stop.wait_for(|stop| *stop).await;
}
