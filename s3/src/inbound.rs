//! A request body while it is received: counting, memory limits, validation and timeouts.
//!
//! - Its bytes are counted. For a body that `s3s` reads whole (DeleteObjects), its digests are kept for the operation.
//! - A body that may take much memory waits for its share before it is read; a document's elements are counted while it
//!   is received.
//! - A document is passed on whole, after validation (`document`).
//! - A failure is recorded in the request, because `s3s` would report most of them as internal errors.
//! - A short unread rest (the request was refused) is drained, so that the client reads the refusal instead of a
//!   connection reset. A client that waits for `100 Continue` has sent nothing, so there is nothing to drain.
//! - A body that sends nothing for too long ends with an error, which the request records; so does a slow one while
//!   other requests wait for its memory.
//! - A rest that is not drained closes the connection, and the response says so: otherwise the client would send its
//!   next request into a closing connection.
//! - A `100 Continue` that was expected and never sent closes the connection too, even if the body is empty: some
//!   clients misread the next responses on it (botocore as bundled with aws-cli).

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::EXPECT;
use http::request::Parts;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use s3s::StdError;
use tokio::time::{Instant, Sleep};

use crate::body::{Elements, Fault, Kind, LOOK, Memory, Share, Whole, most};
use crate::checksum::{Claims, Digest};
use crate::document;
use crate::request::Request;

/// The longest rest that is drained, in bytes.
const DRAIN_BYTES_MAX: u64 = 1024 * 1024;
/// How long draining may take.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// A request body whose bytes are counted.
pub(crate) struct Inbound {
    inner: Option<Incoming>,
    request: Arc<Request>,
    digest: Option<Digest>,
    whole: Option<Whole>,
    /// The element counter of a document.
    elements: Option<Elements>,
    /// The bytes of a document received so far.
    document: Option<BytesMut>,
    turn: BudgetShare,
    drains: bool,
    stall: Duration,
    /// Since when the body is waited for, and the timer that checks on it.
    patience: Option<(Instant, Pin<Box<Sleep>>)>,
    /// The waiting time before that.
    waited: Duration,
}

/// The state of a body's memory share.
enum BudgetShare {
    /// It will ask for this many bytes.
    Due(Memory, u64),
    /// It waits, because none was free.
    Waits(Pin<Box<dyn Future<Output = Result<Share, Fault>> + Send>>),
    /// It has its share, or needs none.
    Came,
}

impl Inbound {
    /// Wraps `inner`, the body of `request`, whose head is given. The body may send nothing for `stall`.
    pub(crate) fn new(inner: Incoming, head: &Parts, request: Arc<Request>, stall: Duration, memory: &Memory) -> Self {
        let kind = request.body;
        let digest = of_document(head, kind).as_ref().map(Claims::digest);
        let whole = Some(Whole::of(head, kind));
        let waits = head.headers.contains_key(EXPECT);
        if waits && inner.is_end_stream() {
            request.ends_connection.store(true, Ordering::Relaxed);
        }
        let elements = (kind == Kind::Document).then(Elements::default);
        let document = (kind == Kind::Document && !inner.is_end_stream()).then(BytesMut::new);
        let most = most(kind, head.version, inner.size_hint().upper());
        let turn = most.map_or(BudgetShare::Came, |bytes| BudgetShare::Due(memory.clone(), bytes));
        Self {
            inner: Some(inner),
            request,
            digest,
            whole,
            elements,
            document,
            turn,
            drains: !waits,
            stall,
            patience: None,
            waited: Duration::ZERO,
        }
    }

    /// Waits for more of the body, up to the time limit.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<Fault> {
        let look = self.stall.min(LOOK);
        let (since, alarm) = self.patience.get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(look))));
        let fault = loop {
            let now = since.elapsed();
            if now >= self.stall {
                break Fault::Stalled;
            }
            if self.request.wastes_share(self.waited + now) {
                break Fault::Slow;
            }
            ready!(alarm.as_mut().poll(context));
            alarm.as_mut().reset(Instant::now() + look.min(self.stall.saturating_sub(now)));
        };
        self.request.ends_connection.store(true, Ordering::Relaxed);
        self.inner = None;
        Poll::Ready(self.failed(fault))
    }

    /// Waits for a memory share unless the body has one. It is requested once the operation is known; a form's fields
    /// are read before its sender is authenticated.
    fn come(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        if let BudgetShare::Due(memory, bytes) = &self.turn
            && self.request.is_routed()
        {
            self.turn = match memory.take(*bytes) {
                Some(share) => {
                    self.request.hold(share);
                    BudgetShare::Came
                }
                None => BudgetShare::Waits(Box::pin(memory.clone().wait(*bytes))),
            };
        }
        let BudgetShare::Waits(share) = &mut self.turn else { return Poll::Ready(Ok(())) };
        let share = ready!(share.as_mut().poll(context));
        self.turn = BudgetShare::Came;
        Poll::Ready(match share {
            Ok(share) => {
                self.request.hold(share);
                Ok(())
            }
            Err(fault) => {
                self.leave();
                Err(self.failed(fault))
            }
        })
    }

    /// Stops reading. A short rest is drained in the background.
    fn leave(&mut self) {
        let Some(rest) = self.inner.take() else { return };
        let short = rest.size_hint().upper().is_some_and(|upper| upper <= DRAIN_BYTES_MAX);
        if rest.is_end_stream() {
            return;
        }
        if !self.drains || !short {
            self.request.ends_connection.store(true, Ordering::Relaxed);
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio::time::timeout(DRAIN_TIMEOUT, drain(rest)));
        }
    }

    fn failed(&self, fault: Fault) -> Fault {
        self.request.set_fault(fault);
        fault
    }

    fn saw(&mut self, frame: Option<&Frame<Bytes>>) -> Result<(), Fault> {
        if let Some(data) = frame.and_then(Frame::data_ref) {
            self.request.count_in(data.len());
            if let Some(digest) = &mut self.digest {
                digest.update(data);
            }
            if let Some(whole) = &mut self.whole {
                whole.saw(data);
            }
            if let Some(Err(fault)) = self.elements.as_mut().map(|elements| elements.saw(data)) {
                return Err(self.failed(fault));
            }
        }
        let ended = frame.is_none() || self.inner.as_ref().is_none_or(Body::is_end_stream);
        if ended && let Some(digest) = self.digest.take() {
            self.request.set_body_sums(digest.finish());
        }
        match self.whole.take_if(|_| ended) {
            Some(whole) => whole.end().map_err(|fault| self.failed(fault)),
            None => Ok(()),
        }
    }

    /// The next frame, after inspection.
    fn next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Frame<Bytes>>, Fault>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(Ok(None)) };
        let Poll::Ready(frame) = Pin::new(inner).poll_frame(context) else {
            return self.wait(context).map(Err);
        };
        if let Some((since, _)) = self.patience.take() {
            self.waited += since.elapsed();
        }
        let frame = frame.transpose().map_err(|error| {
            tracing::debug!(%error, "a request body broke off");
            self.failed(Fault::Cut)
        })?;
        self.saw(frame.as_ref())?;
        Poll::Ready(Ok(frame))
    }

    /// A complete document, validated.
    fn checked(&self, document: BytesMut) -> Result<Option<Frame<Bytes>>, Fault> {
        // The one document that is not XML.
        if self.request.operation() != "PutBucketPolicy" && !document.is_empty() {
            document::check(&document).map_err(|why| self.failed(Fault::Malformed(why)))?;
        }
        Ok((!document.is_empty()).then(|| Frame::data(document.freeze())))
    }
}

impl Body for Inbound {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        ready!(self.come(context))?;
        loop {
            let frame = ready!(self.next(context)).inspect_err(|_| self.document = None)?;
            let Some(document) = &mut self.document else { return Poll::Ready(frame.map(Ok)) };
            match frame {
                Some(frame) => document.extend_from_slice(frame.data_ref().map_or(&[][..], Bytes::as_ref)),
                None => {
                    let document = self.document.take().unwrap_or_default();
                    return Poll::Ready(self.checked(document)?.map(Ok));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.document.is_none() && self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Inbound {
    fn drop(&mut self) {
        self.leave();
    }
}

async fn drain(mut rest: Incoming) {
    while let Some(Ok(_)) = std::future::poll_fn(|context| Pin::new(&mut rest).poll_frame(context)).await {}
}

/// The claims about a document. [`Request::prove`] refuses invalid ones.
fn of_document(head: &Parts, kind: Kind) -> Option<Claims> {
    if kind == Kind::Document { Claims::from_headers(&head.headers).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claims_of_a_document_are_kept() {
        for (method, uri, document) in [
            ("PUT", "/abc?tagging", true),
            ("PUT", "/abc/k?versionId=7&tagging=", true),
            ("PUT", "/abc", true),
            ("POST", "/abc?delete", true),
            ("POST", "/abc/k?uploadId=u", true),
            ("GET", "/abc?tagging", false),
            ("PUT", "/abc/k", false),
            ("PUT", "/abc/k?partNumber=1&uploadId=tagging", false),
        ] {
            let (head, ()) = http::Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
            assert_eq!(of_document(&head, Kind::of(&head, uri.contains("/k"))).is_some(), document, "{method} {uri}");
        }
    }
}
