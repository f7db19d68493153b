//! Execution of gRPC calls: logged without secrets, and run to their end even if the caller disconnects.

use std::fmt::Debug;
use std::future::Future;

use tokio::task::JoinError;
use tonic::{Request, Response, Status};
use tracing::{Instrument, Span, debug, debug_span};

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
    let (request, span) = received(method, request);
    let answer = tokio::spawn(call(request).instrument(span.clone())).await;
    answered(method, &span, answer)
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
    let (request, span) = received(method, request);
    let inside = span.clone();
    let answer = tokio::task::spawn_blocking(move || inside.in_scope(|| call(request))).await;
    answered(method, &span, answer)
}

/// Splits a request and logs it. `Debug` of the messages omits their secrets.
fn received<Q: Debug>(method: &'static str, request: Request<Q>) -> (Q, Span) {
    let request = request.into_inner();
    let span = debug_span!("csi", method);
    span.in_scope(|| debug!(?request));
    (request, span)
}

fn answered<A: Debug>(
    method: &str,
    span: &Span,
    answer: Result<Result<A, Status>, JoinError>,
) -> Result<Response<A>, Status> {
    let answer = answer.unwrap_or_else(|_| Err(Status::internal(format!("{method} broke off; see the log"))));
    span.in_scope(|| match &answer {
        Ok(answer) => debug!(?answer),
        Err(status) => debug!(code = ?status.code(), message = status.message()),
    });
    answer.map(Response::new)
}
