//! The HTTP endpoint for `/metrics`, `/healthz` and `/readyz`.
//!
//! - `/healthz` succeeds while the process serves at all; `/readyz` only while the store accepts writes.
//! - Its clients are machines that retry: connections are few, short, and closed when silent.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use objstore::Store;
use prometheus_client::registry::Registry;
use rpc::connection_limit::{LimitedConnection, LimitedListener, Timeouts};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::metrics::{Format, encode};

/// The most connections.
const CONNECTIONS_MAX: usize = 256;
/// How long a connection may be silent, and how long it may last. Its client opens another.
const PATIENCE: Timeouts = Timeouts { silence: Duration::from_secs(20), life: Some(Duration::from_secs(5 * 60)) };
/// The most responses built at a time, since each reads all metrics.
const ANSWERS_MAX: usize = 8;

/// The sources of the responses.
#[derive(Clone)]
pub(crate) struct Source {
    /// `None`: a node, which is ready while it serves.
    store: Option<Store>,
    registry: Arc<Registry>,
    stopping: watch::Receiver<bool>,
    answers: Arc<Semaphore>,
}

/// Serves the endpoint until `stopped` completes and its requests are answered.
pub(crate) async fn serve(
    listener: TcpListener,
    source: Source,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    axum::serve(Listener::new(listener), routes(source)).with_graceful_shutdown(stopped).await
}

/// Serves the endpoint of a standby until `stopped` completes: it is alive and not ready, and `why` says what it waits
/// for.
pub(crate) async fn serve_standby(
    listener: TcpListener,
    why: watch::Receiver<String>,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let not_ready = move || {
        let text = format!("{}\n", *why.borrow());
        async { (StatusCode::SERVICE_UNAVAILABLE, text) }
    };
    let routes = Router::new().route("/healthz", get(async || "ok\n")).route("/readyz", get(not_ready));
    axum::serve(Listener::new(listener), routes).with_graceful_shutdown(stopped).await
}

/// The endpoint's listener in axum's form.
struct Listener(LimitedListener<TcpListener>);

impl Listener {
    fn new(listener: TcpListener) -> Self {
        Self(LimitedListener::new(listener, CONNECTIONS_MAX, PATIENCE))
    }
}

impl axum::serve::Listener for Listener {
    type Io = LimitedConnection<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        let seated = std::future::poll_fn(|context| self.0.poll_next(context)).await;
        // The peer's address is not used.
        (seated, SocketAddr::from(([0, 0, 0, 0], 0)))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.listener().local_addr()
    }
}

impl Source {
    pub(crate) fn new(store: Option<&Store>, registry: Registry, stopping: watch::Receiver<bool>) -> Self {
        let answers = Arc::new(Semaphore::new(ANSWERS_MAX));
        Self { store: store.cloned(), registry: Arc::new(registry), stopping, answers }
    }
}

/// The routes.
fn routes(source: Source) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .with_state(source)
}

async fn metrics(State(source): State<Source>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let format = Format::of(accept);
    let Ok(place) = Arc::clone(&source.answers).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many concurrent requests for metrics\n").into_response();
    };
    let encoded = tokio::task::spawn_blocking(move || {
        let _place = place;
        encode(&source.registry, format)
    });
    match encoded.await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be encoded\n").into_response(),
    }
}

async fn ready(State(source): State<Source>) -> Response {
    if *source.stopping.borrow() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the server is stopping\n").into_response();
    }
    let Some(store) = source.store else { return "ready\n".into_response() };
    let stats = tokio::task::spawn_blocking(move || store.stats()).await;
    match stats.map(|stats| (stats.poisoned, stats.disk_full)) {
        Ok((None, false)) => "ready\n".into_response(),
        // The store still reads and deletes; a restart elsewhere would not help.
        Ok((None, true)) => "ready; the disk is full: writes are refused but for deletions\n".into_response(),
        Ok((Some(why), _)) => {
            let text = format!("the store refuses writes since one failed: {why}\n");
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n").into_response(),
    }
}
