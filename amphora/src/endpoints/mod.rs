//! What a server and a node have in common as processes: their endpoints, sockets and signals.

pub(crate) mod http;
mod listeners;
mod signals;
mod sockets;

use std::time::Duration;

pub(crate) use listeners::OpenListeners;
pub(crate) use signals::Signals;
pub(crate) use sockets::Sockets;

use crate::failure::Failure;

/// The time limit for requests in progress after a process received a signal to stop.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// Runs blocking work off the async workers.
pub(crate) async fn blocking<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Failure::failed(format!("{what}: {error}")))
}
