//! Execution of gRPC calls: logged without secrets, and run to their end even if the caller disconnects (`rpc`).

use std::fmt::Debug;
use std::future::Future;

use objstore::{Result, Store};
use rpc::Log;
use tonic::{Request, Response, Status};
use tracing::{debug, debug_span};

const LOG: Log = Log {
    span: |method| debug_span!("cosi", method),
    request: |request| debug!(?request),
    answer: |answer| match answer {
        Ok(answer) => debug!(?answer),
        Err(status) => debug!(code = ?status.code(), message = status.message()),
    },
};

/// Runs a call in a separate task.
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
    rpc::answer(LOG, method, request, call).await
}

/// Reads from the store on a thread that may block.
pub(crate) async fn read<T: Send + 'static>(
    store: &Store,
    read: impl FnOnce(&Store) -> Result<T> + Send + 'static,
) -> Result<T> {
    let store = store.clone();
    let broken = |_| objstore::Error::Indeterminate { why: "a read of the store failed; see the log".into() };
    tokio::task::spawn_blocking(move || read(&store)).await.map_err(broken)?
}
