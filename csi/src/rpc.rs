//! Execution of gRPC calls: logged without secrets, and run to their end even if the caller disconnects (`rpc`).

use std::fmt::Debug;
use std::future::Future;

use rpc::Log;
use tonic::{Request, Response, Status};
use tracing::{debug, debug_span};

const LOG: Log = Log {
    span: |method| debug_span!("csi", method),
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

/// Runs a call on a thread that may block.
pub(crate) async fn answer_blocking<Q, A>(
    method: &'static str,
    request: Request<Q>,
    call: impl FnOnce(Q) -> Result<A, Status> + Send + 'static,
) -> Result<Response<A>, Status>
where
    Q: Debug + Send + 'static,
    A: Debug + Send + 'static,
{
    rpc::answer_blocking(LOG, method, request, call).await
}
