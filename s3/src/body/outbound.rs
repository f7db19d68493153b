//! A response body on its way out, with the line that is logged when it is done.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};

use super::Share;
use crate::metrics::Metrics;
use crate::request::Request;

/// A counted response body; when it drops, the request is over.
pub(crate) struct Outbound {
    inner: s3s::Body,
    line: Line,
    /// Of the memory of answers.
    share: Option<Share>,
    /// Since when the client has what was given last, and how long it took for what came before.
    taking: Option<Instant>,
    waited: Duration,
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
        Self { inner, line, share, taking: None, waited: Duration::ZERO }
    }

    /// Whether the client takes so little that others wait for its share.
    fn is_too_slow(&mut self) -> bool {
        let Some(share) = &self.share else { return false };
        self.waited += self.taking.take().map_or(Duration::ZERO, |since| since.elapsed());
        share.is_wasted(self.line.bytes_out, self.waited)
    }
}

impl Body for Outbound {
    type Data = Bytes;
    type Error = s3s::StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, s3s::StdError>>> {
        if self.is_too_slow() {
            self.line.cut = true;
            return Poll::Ready(Some(Err("the client takes so little that others wait for its place".into())));
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        self.taking = self.share.is_some().then(Instant::now);
        match &frame {
            Some(Ok(frame)) => self.line.bytes_out += frame.data_ref().map_or(0, |data| data.len() as u64),
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
            ms = took.as_secs_f64() * 1e3,
            request_id = request.id,
            account = request.account_shown(),
            peer = request.peer.map(|peer| tracing::field::display(peer.address)),
            tls = request.peer.is_some_and(|peer| peer.secure),
        );
    }
}
