//! A request body on its way in.
//!
//! - Its bytes are counted; of a body that `s3s` reads whole (DeleteObjects), the sums are kept for the operation.
//! - A short rest nobody read (the request was refused) is drained, so the client reads the refusal instead of a
//!   reset connection. A client that waits for `100 Continue` has sent nothing, so there is nothing to drain.
//! - A rest that is not drained ends the connection, and the answer says so: else the client would send its next
//!   request into a connection that closes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::checksum::{Claims, Digest};
use crate::request::Request;

/// The longest rest that is drained, in bytes.
const DRAIN_BYTES_MAX: u64 = 1024 * 1024;
/// How long draining may take.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// A counted request body.
pub(crate) struct Inbound {
    inner: Option<Incoming>,
    request: Arc<Request>,
    digest: Option<Digest>,
    drains: bool,
}

impl Inbound {
    /// Counts `inner` for `request`; works out what `claims` needs, if given.
    pub(crate) fn new(
        inner: Incoming,
        request: Arc<Request>,
        claims: Option<&Claims>,
        waits_for_continue: bool,
    ) -> Self {
        Self { inner: Some(inner), request, digest: claims.map(Claims::digest), drains: !waits_for_continue }
    }

    fn saw(&mut self, frame: Option<&Frame<Bytes>>) {
        if let Some(data) = frame.and_then(Frame::data_ref) {
            self.request.count_in(data.len());
            if let Some(digest) = &mut self.digest {
                digest.update(data);
            }
        }
        let ended = frame.is_none() || self.inner.as_ref().is_none_or(Body::is_end_stream);
        if ended && let Some(digest) = self.digest.take() {
            self.request.set_body_sums(digest.finish());
        }
    }
}

impl Body for Inbound {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(inner).poll_frame(context)).transpose()?;
        self.saw(frame.as_ref());
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Inbound {
    fn drop(&mut self) {
        let Some(rest) = self.inner.take() else { return };
        let short = rest.size_hint().upper().is_some_and(|upper| upper <= DRAIN_BYTES_MAX);
        if rest.is_end_stream() {
            return;
        }
        if !self.drains || !short {
            self.request.cut_short.store(true, Ordering::Relaxed);
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio::time::timeout(DRAIN_TIMEOUT, drain(rest)));
        }
    }
}

async fn drain(mut rest: Incoming) {
    while let Some(Ok(_)) = std::future::poll_fn(|context| Pin::new(&mut rest).poll_frame(context)).await {}
}
