//! The HTTP service of one connection: counts requests and passes them to the layer.
//!
//! - A request whose client disconnects is worked on to its end and counted until then, because work that it gave to
//!   other threads continues anyway.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::activity::{Activity, Busy};
use crate::layer::Layer;
use crate::outbound::{Outbound, ReplyLedger};
use crate::peer::Peer;

const COME_AGAIN: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>SlowDown</Code>\
    <Message>The server is busy with all the requests it takes; try again in a moment.</Message></Error>";

/// The service of one connection.
pub(super) struct ConnectionService {
    pub(super) layer: Layer,
    pub(super) activity: Arc<Activity>,
    pub(super) ledger: Arc<ReplyLedger>,
    pub(super) peer: Peer,
    /// Whether requests are only answered 503 SlowDown.
    pub(super) turned_away: bool,
    /// How many more requests may be in progress, over all connections.
    pub(super) requests: Arc<Semaphore>,
}

impl Service<Request<Incoming>> for ConnectionService {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Work;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let mut busy = self.activity.begin(request.version());
        let place = (!self.turned_away).then(|| Arc::clone(&self.requests).try_acquire_owned().ok()).flatten();
        if place.is_none() {
            let answer = come_again(request.version()).map(|body| Answer { body: Inner::Refusal(body), busy, place });
            return Work::new(std::future::ready(Ok(answer)));
        }
        request.extensions_mut().insert(self.peer);
        let (ledger, version) = (Arc::clone(&self.ledger), request.version());
        let served = self.layer.call(request);
        Work::new(async move {
            let (head, mut body) = served.await?.into_parts();
            body.on(ledger, version, &head.headers);
            busy.answers(body.taking());
            Ok(Response::from_parts(head, Answer { body: Inner::Served(body), busy, place }))
        })
    }
}

fn come_again(version: Version) -> Response<s3s::Body> {
    let mut answer = Response::new(s3s::Body::from(Bytes::from_static(COME_AGAIN.as_bytes())));
    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    if version != Version::HTTP_2 {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// A request in progress; if its client disconnects, it continues in a separate task.
pub(super) struct Work(Option<Pin<Box<dyn Future<Output = Answered> + Send>>>);

type Answered = Result<Response<Answer>, Infallible>;

impl Work {
    fn new(work: impl Future<Output = Answered> + Send + 'static) -> Self {
        Self(Some(Box::pin(work)))
    }
}

impl Future for Work {
    type Output = Answered;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.0 else { return Poll::Pending };
        let done = ready!(work.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(done)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // Without a runtime, nothing can continue.
        if let Some(rest) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(rest);
        }
    }
}

/// The body of a response; dropping it ends the request.
pub(super) struct Answer {
    body: Inner,
    busy: Busy,
    /// Its share of the request limit.
    #[expect(dead_code, reason = "held for its drop")]
    place: Option<OwnedSemaphorePermit>,
}

enum Inner {
    Served(Outbound),
    Refusal(s3s::Body),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = s3s::StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, s3s::StdError>>> {
        let frame = match &mut self.body {
            Inner::Served(body) => ready!(Pin::new(body).poll_frame(context)),
            Inner::Refusal(body) => ready!(Pin::new(body).poll_frame(context)),
        };
        self.busy.moves();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            Inner::Served(body) => body.is_end_stream(),
            Inner::Refusal(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Inner::Served(body) => body.size_hint(),
            Inner::Refusal(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_for_a_client_that_left_counts_until_it_is_done() {
        let requests = Arc::new(Semaphore::new(1));
        let (done, wait) = oneshot::channel::<()>();
        let place = Arc::clone(&requests).try_acquire_owned().unwrap();
        let mut work = Work::new(async move {
            let _ = wait.await;
            drop(place);
            std::future::pending().await
        });
        assert!(futures::poll!(&mut work).is_pending());
        drop(work);
        assert!(Arc::clone(&requests).try_acquire_owned().is_err(), "it goes on");
        done.send(()).unwrap();
        assert!(requests.acquire().await.is_ok());
    }
}
