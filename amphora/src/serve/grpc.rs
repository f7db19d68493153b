//! A gRPC door and its bounds: connections, streams, calls under way, sizes, times.
//!
//! - A call beyond [`CALLS_MAX`] is answered RESOURCE_EXHAUSTED before it is read, so nothing of it was done. One to
//!   CreateVolume is answered UNAVAILABLE: with any other code but a few the sidecar forgets a volume that an earlier
//!   try may have made (CSI v1.12, and the external-provisioner).
//! - A call whose client leaves is worked on to its end (the audit around it sees to that), and counts so long.
//! - All doors share the calls, so that one cannot take the threads of the others without bound.

use std::sync::Arc;
use std::time::Duration;

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
use super::peer;
use super::seats::{Patience, Seats};
use crate::audit::{self, Audit};
use crate::observed::{Observed, Observer};

/// Connections of one door. The sidecars have one each.
const CONNECTIONS_MAX: usize = 256;
/// Calls under way on one connection; more wait in the client.
const STREAMS_MAX: u32 = 64;
/// Calls under way, over all doors: twice the threads there are for them.
const CALLS_MAX: usize = 256;
/// The metadata of one call.
const METADATA_BYTES_MAX: u32 = 16 * 1024;
/// What may be on its way to one call, and on one connection. A message has 4 MiB at most, tonic's default.
const WINDOW_BYTES: u32 = 64 * 1024;
/// Streams that were opened and reset at once, before a connection is closed (CVE-2023-44487).
const RESETS_MAX: usize = 20;
/// How often a quiet connection is asked whether it lives, and how long it may take to say so.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);
/// How long nothing may move on a connection: longer than between two such questions, so it is who never says anything.
const PATIENCE: Patience = Patience { silence: Duration::from_secs(90), life: None };
/// How long a call may take until it answers; its work goes on. Callers have deadlines of their own, far below.
const CALL: Duration = Duration::from_secs(60 * 60);

const CREATE_VOLUME: &str = "/csi.v1.Controller/CreateVolume";

/// The calls that may be under way: a cheap handle.
#[derive(Clone)]
pub(super) struct Calls(Arc<Semaphore>);

impl Default for Calls {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(CALLS_MAX)))
    }
}

/// Serves `routes` until `stopped`.
pub(super) async fn serve(
    listener: UnixListener,
    routes: Routes,
    calls: Calls,
    audit: Audit,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> Result<(), tonic::transport::Error> {
    let connections = Seats::new(listener, CONNECTIONS_MAX, PATIENCE).map(|seated| seated.map(Authorities::new));
    Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .http2_max_header_list_size(METADATA_BYTES_MAX)
        .http2_max_pending_accept_reset_streams(Some(RESETS_MAX))
        .http2_keepalive_interval(Some(PING))
        .http2_keepalive_timeout(Some(PONG))
        .timeout(CALL)
        .add_routes(guarded(routes, calls, audit))
        .serve_with_incoming_shutdown(connections, stopped)
        .await
}

/// What surrounds the services: the audit outermost, so that a call has a line also if it is refused before one of them
/// sees it.
fn guarded(routes: Routes, calls: Calls, audit: Audit) -> Routes {
    let router = routes.into_axum_router().layer(from_fn_with_state(calls, admit)).layer(from_fn(peer::admit));
    Routes::from(router.layer(from_fn_with_state(audit, audit::record)))
}

async fn admit(State(Calls(free)): State<Calls>, request: Request, next: Next) -> Response {
    let Ok(permit) = free.try_acquire_owned() else {
        return refusal(request.uri().path()).into_http();
    };
    next.run(request).await.map(|body| Body::new(Observed::new(body, Place { _permit: permit })))
}

fn refusal(path: &str) -> Status {
    let words = format!("{CALLS_MAX} calls are under way already; try again in a moment");
    if path == CREATE_VOLUME { Status::unavailable(words) } else { Status::resource_exhausted(words) }
}

/// A place among the calls under way: it is free again when the answer's body drops.
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
