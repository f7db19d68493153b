//! Execution of the calls of CSI and COSI: logged without secrets, and run to their end even if the caller disconnects.

use std::fmt::Debug;
use std::future::Future;

use tokio::task::JoinError;
use tonic::{Request, Response, Status};
use tracing::{Instrument as _, Span};

/// The logging of an interface's calls. The macros of `tracing` record the crate that they are used in, by which
/// operators filter the log, so each interface has its own macros. `Debug` of the messages omits secrets, so requests
/// and answers can be logged.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    /// Opens the span of a method's call.
    pub span: fn(&'static str) -> Span,
    /// Logs a request.
    pub request: fn(&dyn Debug),
    /// Logs an answer, or the status that is returned instead.
    pub answer: fn(Result<&dyn Debug, &Status>),
}

impl Log {
    fn received<Q: Debug>(self, method: &'static str, request: Request<Q>) -> (Q, Span) {
        let request = request.into_inner();
        let span = (self.span)(method);
        span.in_scope(|| (self.request)(&request));
        (request, span)
    }

    fn answered<A: Debug>(
        self,
        method: &str,
        span: &Span,
        answer: Result<Result<A, Status>, JoinError>,
    ) -> Result<Response<A>, Status> {
        let answer = answer.unwrap_or_else(|_| Err(Status::internal(format!("{method} broke off; see the log"))));
        span.in_scope(|| (self.answer)(answer.as_ref().map(|answer| answer as &dyn Debug)));
        answer.map(Response::new)
    }
}

/// Runs a call in a separate task, so that it is not left half done if the client disconnects.
///
/// # Errors
/// The call's; INTERNAL if it panicked.
pub async fn answer<Q, A, F>(
    log: Log,
    method: &'static str,
    request: Request<Q>,
    call: impl FnOnce(Q) -> F,
) -> Result<Response<A>, Status>
where
    Q: Debug,
    A: Debug + Send + 'static,
    F: Future<Output = Result<A, Status>> + Send + 'static,
{
    let (request, span) = log.received(method, request);
    let answer = tokio::spawn(call(request).instrument(span.clone())).await;
    log.answered(method, &span, answer)
}

/// Runs a call on a thread that may block.
///
/// # Errors
/// The call's; INTERNAL if it panicked.
pub async fn answer_blocking<Q, A>(
    log: Log,
    method: &'static str,
    request: Request<Q>,
    call: impl FnOnce(Q) -> Result<A, Status> + Send + 'static,
) -> Result<Response<A>, Status>
where
    Q: Debug + Send + 'static,
    A: Debug + Send + 'static,
{
    let (request, span) = log.received(method, request);
    let inside = span.clone();
    let answer = tokio::task::spawn_blocking(move || inside.in_scope(|| call(request))).await;
    log.answered(method, &span, answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: Log = Log { span: |_| Span::none(), request: |_| {}, answer: |_| {} };

    #[tokio::test]
    async fn a_call_that_panics_is_answered_internal() {
        let broken = |(): ()| async { panic!("on purpose") };
        let status = answer::<_, (), _>(SILENT, "Broken", Request::new(()), broken).await.expect_err("it panicked");
        assert_eq!((status.code(), status.message()), (tonic::Code::Internal, "Broken broke off; see the log"));
        let status = answer_blocking::<_, ()>(SILENT, "Broken", Request::new(()), |()| panic!("on purpose"))
            .await
            .expect_err("it panicked");
        assert_eq!(status.code(), tonic::Code::Internal);
    }

    #[tokio::test]
    async fn a_call_ends_though_its_caller_leaves() {
        let (done, ended) = tokio::sync::oneshot::channel();
        let (begun, begins) = tokio::sync::oneshot::channel();
        let call = |(): ()| async move {
            let _ = begun.send(());
            tokio::task::yield_now().await;
            let _ = done.send(());
            Ok(())
        };
        let caller = tokio::spawn(answer(SILENT, "Slow", Request::new(()), call));
        begins.await.expect("it begins");
        caller.abort();
        ended.await.expect("it ends");
    }
}
