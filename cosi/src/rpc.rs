//! Execution of gRPC calls: logged without secrets, and run to their end even if the caller disconnects.

use std::fmt::Debug;
use std::future::Future;

use objstore::{Result, Store};
use tonic::{Request, Response, Status};
use tracing::{Instrument, debug, debug_span};

/// Runs a call in a separate task, so that a caller that disconnects does not leave half of it done.
///
/// `Debug` of the messages omits their secrets, so both sides can be logged.
pub(crate) async fn answer<Q, A, F>(
    method: &'static str,
    request: Request<Q>,
    call: impl FnOnce(Q) -> F,
) -> Result<Response<A>, Status>
where
    Q: Debug,
    A: Debug + Send + 'static,
    F: Future<Output = Result<A, Status>> + Send + 'static,
{
    let request = request.into_inner();
    let span = debug_span!("cosi", method);
    span.in_scope(|| debug!(?request));
    let answer = tokio::spawn(call(request).instrument(span.clone())).await;
    let answer = answer.unwrap_or_else(|_| Err(Status::internal(format!("{method} broke off; see the log"))));
    span.in_scope(|| match &answer {
        Ok(answer) => debug!(?answer),
        Err(status) => debug!(code = ?status.code(), message = status.message()),
    });
    answer.map(Response::new)
}

/// Reads from the store on a thread that may block.
pub(crate) async fn read<T: Send + 'static>(
    store: &Store,
    read: impl FnOnce(&Store) -> Result<T> + Send + 'static,
) -> Result<T> {
    let store = store.clone();
    let broken = |_| objstore::Error::Indeterminate { why: "a read of the store broke off; see the log".into() };
    tokio::task::spawn_blocking(move || read(&store)).await.map_err(broken)?
}
