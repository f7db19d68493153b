//! A gRPC endpoint and its limits: connections, streams, calls in progress, sizes and times.
//!
//! - A call beyond [`CALLS_MAX`] is answered RESOURCE_EXHAUSTED before it is read, so it has no effect. A call to
//!   CreateVolume is answered UNAVAILABLE instead: with most other codes the sidecar forgets a volume that an earlier
//!   attempt may have created (CSI v1.12, and the external-provisioner).
//! - A call whose client disconnects runs to its end (what is around the services ensures that), and counts until then.
//! - All endpoints share the call limit, so that one cannot take all threads from the others.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use tokio::net::UnixListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::StreamExt as _;
use tonic::Status;
use tonic::service::Routes;
use tonic::transport::Server;

use super::authority::Authorities;
use super::connection_limit::{LimitedListener, Timeouts};
use super::observed::{Observed, Observer};
use super::peer;

/// The most connections of one endpoint. Each sidecar has one.
const CONNECTIONS_MAX: usize = 256;
/// The most calls in progress on one connection; further ones wait in the client. It is not below 100, since a client
/// may open that many before it knows the limit, and a call beyond it would fail (RFC 9113, section 6.5.2).
const STREAMS_MAX: u32 = 100;
/// The most calls in progress over all endpoints: twice the number of their threads.
const CALLS_MAX: usize = 256;
/// The largest metadata of one call in bytes.
const METADATA_BYTES_MAX: u32 = 16 * 1024;
/// The flow-control windows of a call and of a connection. A message has at most 4 MiB, tonic's default.
const WINDOW_BYTES: u32 = 64 * 1024;
/// The most streams that a client may open and reset at once; then the connection is closed (CVE-2023-44487).
const RESETS_MAX: usize = 20;
/// The interval of pings on a quiet connection, and the time limit for their answers.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);
/// How long a connection may be silent: longer than the ping interval, so only a client that never answers is closed.
const PATIENCE: Timeouts = Timeouts { silence: Duration::from_secs(90), life: None };
/// The time limit of a call's answer; its work goes on. Callers' own deadlines are far shorter.
const CALL: Duration = Duration::from_secs(60 * 60);

const CREATE_VOLUME: &str = "/csi.v1.Controller/CreateVolume";

/// The limit of calls in progress: a cheap handle.
#[derive(Clone, Debug)]
pub struct Calls(Arc<Semaphore>);

impl Default for Calls {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(CALLS_MAX)))
    }
}

/// Serves `routes` until `stopped`. The layers that `around` adds also see the calls that are refused here.
///
/// # Errors
/// The transport's, if it cannot go on.
pub async fn serve(
    listener: UnixListener,
    routes: Routes,
    calls: Calls,
    around: impl FnOnce(Router) -> Router,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> Result<(), tonic::transport::Error> {
    let connections =
        LimitedListener::new(listener, CONNECTIONS_MAX, PATIENCE).map(|seated| seated.map(Authorities::new));
    Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .http2_max_header_list_size(METADATA_BYTES_MAX)
        .http2_max_pending_accept_reset_streams(Some(RESETS_MAX))
        .http2_keepalive_interval(Some(PING))
        .http2_keepalive_timeout(Some(PONG))
        .timeout(CALL)
        .add_routes(guarded(routes, calls, around))
        .serve_with_incoming_shutdown(connections, stopped)
        .await
}

/// The layers around the services: `around` is outermost, so that it sees a call which another layer refuses.
fn guarded(routes: Routes, calls: Calls, around: impl FnOnce(Router) -> Router) -> Routes {
    let router = routes.into_axum_router().layer(from_fn_with_state(calls, admit)).layer(from_fn(peer::admit));
    Routes::from(around(router))
}

async fn admit(State(Calls(free)): State<Calls>, request: Request, next: Next) -> Response {
    let Ok(permit) = free.try_acquire_owned() else {
        return refusal(request.uri().path()).into_http();
    };
    next.run(request).await.map(|body| Body::new(Observed::new(body, Place { _permit: permit })))
}

fn refusal(path: &str) -> Status {
    let words = format!("{CALLS_MAX} calls are in progress already; try again in a moment");
    if path == CREATE_VOLUME { Status::unavailable(words) } else { Status::resource_exhausted(words) }
}

/// A permit of a call in progress, released when the response body is dropped.
struct Place {
    _permit: OwnedSemaphorePermit,
}

impl Observer for Place {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_never_has_a_sidecar_forget_a_volume() {
        assert_eq!(refusal(CREATE_VOLUME).code(), tonic::Code::Unavailable);
        for path in ["/csi.v1.Controller/DeleteVolume", "/cosi.v1alpha1.Provisioner/DriverCreateBucket", "/"] {
            assert_eq!(refusal(path).code(), tonic::Code::ResourceExhausted, "{path}");
        }
    }
}
