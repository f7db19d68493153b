//! A response body on its way out, with the line that is logged when it is done.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};

use super::{Share, Taking};
use crate::metrics::Metrics;
use crate::request::Request;

/// A counted response body; when it drops, the request is over.
pub(crate) struct Outbound {
    inner: s3s::Body,
    line: Line,
    /// Where it has a share of the memory of answers.
    taking: Option<Arc<Taking>>,
}

/// One access line; written when it drops, so that no way out of a request lacks it.
struct Line {
    request: Arc<Request>,
    status: StatusCode,
    metrics: Metrics,
    bytes_out: u64,
    cut: bool,
}

impl Outbound {
    /// Counts `inner`, the answer to `request`, which keeps its share of the memory until it is gone.
    pub(crate) fn new(
        inner: s3s::Body,
        status: StatusCode,
        share: Option<Share>,
        request: Arc<Request>,
        metrics: Metrics,
    ) -> Self {
        let line = Line { request, status, metrics, bytes_out: 0, cut: false };
        Self { inner, line, taking: share.map(Taking::new).map(Arc::new) }
    }

    /// How its client takes it, where it has a share of the memory.
    pub(crate) fn taking(&self) -> Option<Arc<Taking>> {
        self.taking.clone()
    }

    /// The client wants more: whether it may have it.
    fn go_on(&self) -> bool {
        let Some(taking) = &self.taking else { return true };
        taking.asked();
        !taking.is_too_slow()
    }

    fn gave(&mut self, bytes: usize) {
        self.line.bytes_out += bytes as u64;
        if let Some(taking) = &self.taking {
            taking.gave(bytes);
        }
    }
}

impl Body for Outbound {
    type Data = Bytes;
    type Error = s3s::StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, s3s::StdError>>> {
        if !self.go_on() {
            self.line.cut = true;
            return Poll::Ready(Some(Err("the client takes so little that others wait for its place".into())));
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => self.gave(frame.data_ref().map_or(0, Bytes::len)),
            Some(Err(_)) => self.line.cut = true,
            None => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let request = &self.request;
        let took = request.start.elapsed();
        let bytes_in = request.bytes_in.load(Ordering::Relaxed);
        let status = self.status.as_u16();
        self.metrics.answered(request.operation(), status, took, bytes_in, self.bytes_out);
        tracing::info!(
            target: "s3::access",
            method = %request.method,
            operation = request.operation(),
            bucket = request.bucket.as_ref().map_or("-", |bucket| bucket.as_str()),
            key = ?request.key.as_deref().unwrap_or_default(),
            status,
            bytes_in,
            bytes_out = self.bytes_out,
            cut = self.cut,
            ms = millis(took),
            request_id = request.id,
            account = request.account_shown(),
            peer = request.peer.map(|peer| tracing::field::display(peer.address)),
            tls = request.peer.is_some_and(|peer| peer.secure),
        );
    }
}

/// Milliseconds to the microsecond: as many digits as mean something.
fn millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_to_the_microsecond() {
        for (nanos, text) in [(395_039, "0.395"), (1_085_470, "1.085"), (0, "0"), (12_000_000_400, "12000")] {
            assert_eq!(millis(Duration::from_nanos(nanos)).to_string(), text);
        }
    }
}
