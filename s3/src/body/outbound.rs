//! A response body while it is sent, and the access line that is logged at its end.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use objstore::clock::{Clock as _, SystemClock};
use time::OffsetDateTime;

use super::{ReplyLedger, Share, Taking};
use crate::access_log::{AccessLog, Asked, Client, Entry};
use crate::change::{Auditor, Change};
use crate::client_info::bounded;
use crate::guard::{Query, chosen};
use crate::metrics::{Answered, Metrics};
use crate::request::Request;

/// Bytes that hyper writes around the headers of a response: the status line, the date, and line ends.
const HEAD_BYTES: usize = "HTTP/1.1 200 OK\r\n".len() + "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n".len() + "\r\n".len();

/// A response body whose bytes are counted; dropping it ends the request.
pub(crate) struct Outbound {
    inner: s3s::Body,
    /// Taken on drop.
    line: Option<AccessLine>,
    /// The body's length, if known.
    length: Option<u64>,
    ended: bool,
    /// The client's progress, if the response has a memory share.
    taking: Option<Arc<Taking>>,
    connection: Option<(Arc<ReplyLedger>, Version)>,
}

/// Why a response was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The client closed the connection.
    Left,
    /// The client read nothing, or too slowly while others waited.
    Stalled,
    /// The content could not be read.
    Failed,
}

impl Cut {
    /// The name of the cause in logs and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Left => "client",
            Self::Stalled => "stalled",
            Self::Failed => "failed",
        }
    }
}

/// Receivers of the report on each finished response.
pub(crate) struct Listeners {
    pub(crate) metrics: Metrics,
    pub(crate) auditor: Auditor,
    /// The access log of buckets, and `x-amz-id-2`.
    pub(crate) access_log: Option<(AccessLog, String)>,
}

/// One access line, written on drop, so that every request has one.
pub(crate) struct AccessLine {
    request: Arc<Request>,
    status: StatusCode,
    listeners: Arc<Listeners>,
    bytes_out: u64,
    cut: Option<Cut>,
    /// The time from the request's head to the first bytes of the response.
    first: Option<Duration>,
    /// Bytes that the connection had sent before this response, and bytes of its head.
    before: (u64, u64),
}

impl Outbound {
    /// Wraps `inner`, the response to `request`, which keeps its memory share until it is dropped.
    pub(crate) fn new(
        inner: s3s::Body,
        status: StatusCode,
        share: Option<Share>,
        request: Arc<Request>,
        listeners: Arc<Listeners>,
    ) -> Self {
        let length = inner.size_hint().exact();
        let line = AccessLine { request, status, listeners, bytes_out: 0, cut: None, first: None, before: (0, 0) };
        let taking = share.map(Taking::new).map(Arc::new);
        Self { inner, line: Some(line), length, ended: false, taking, connection: None }
    }

    /// Records the connection and headers of the response.
    pub(crate) fn on(&mut self, ledger: Arc<ReplyLedger>, version: Version, headers: &HeaderMap) {
        let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        if let Some(line) = &mut self.line {
            line.before = (ledger.total(), (HEAD_BYTES + fields) as u64);
        }
        self.connection = Some((ledger, version));
    }

    /// The client's progress, if the response has a memory share.
    pub(crate) fn taking(&self) -> Option<Arc<Taking>> {
        self.taking.clone()
    }

    /// The client asks for more. Returns whether it may have it.
    fn go_on(&self) -> bool {
        let Some(taking) = &self.taking else { return true };
        taking.asked();
        !taking.is_too_slow()
    }

    fn gave(&mut self, bytes: usize) {
        if let Some(line) = &mut self.line {
            line.bytes_out += bytes as u64;
            line.first.get_or_insert_with(|| line.request.start.elapsed());
        }
        if let Some(taking) = &self.taking {
            taking.gave(bytes);
        }
    }

    fn cut(&mut self, cut: Cut) {
        if let Some(line) = &mut self.line {
            line.cut = Some(cut);
        }
    }

    /// Whether hyper has all of it.
    fn is_whole(&self, line: &AccessLine) -> bool {
        line.cut.is_none() && (self.ended || self.inner.is_end_stream() || self.length == Some(line.bytes_out))
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        let Some(mut line) = self.line.take() else { return };
        let whole = self.is_whole(&line);
        match &self.connection {
            Some((ledger, version)) if *version < Version::HTTP_2 => {
                if whole {
                    ledger.park(line);
                } else {
                    line.cut_short(ledger.cause(), ledger.total());
                }
            }
            connection if !whole => {
                let cause = connection.as_ref().map_or(Cut::Left, |(ledger, _)| ledger.cause());
                line.cut.get_or_insert(cause);
            }
            _ => {}
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
            self.cut(Cut::Stalled);
            return Poll::Ready(Some(Err("the client reads too slowly while other responses wait for memory".into())));
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => self.gave(frame.data_ref().map_or(0, Bytes::len)),
            Some(Err(_)) => self.cut(Cut::Failed),
            None => self.ended = true,
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

impl AccessLine {
    /// Records that the response is cut off, after its connection sent `sent` bytes in all.
    pub(super) fn cut_short(&mut self, cause: Cut, sent: u64) {
        let (before, head) = self.before;
        self.bytes_out = self.bytes_out.min(sent.saturating_sub(before + head));
        self.cut.get_or_insert(cause);
    }

    /// Adds it to the access log of its bucket.
    fn log(&self, took: Duration) {
        let request = &self.request;
        let (Some((log, host_id)), Some(bucket)) = (&self.listeners.access_log, &request.bucket) else { return };
        log.record(bucket, || {
            let query = Query::of(request.head.uri());
            let asked = Asked {
                method: &request.method,
                operation: request.operation(),
                subresource: chosen(&query),
                part: query.has("partNumber"),
                of_object: request.key.is_some(),
                website: request.website,
            };
            let client = request.peer.map(|peer| Client {
                address: Some(peer.address.ip()),
                tls_version: peer.tls_version,
                cipher_suite: peer.cipher_suite,
            });
            Entry {
                head: &request.head,
                asked,
                ids: (&request.id, host_id),
                account: request.verified_account(),
                client: client.unwrap_or_default(),
                key: request.key.as_deref(),
                version: request.version(),
                object_bytes: request.object_bytes(),
                status: self.status.as_u16(),
                error_code: request.error_code(),
                bytes_out: self.bytes_out,
                took,
                turnaround: self.first.unwrap_or(took).saturating_sub(request.body_end()),
                received: OffsetDateTime::from_unix_timestamp(SystemClock.now().parts().0)
                    .map_or(OffsetDateTime::UNIX_EPOCH, |now| now - took),
            }
        });
    }

    fn report_change(&self, took: Duration) {
        let request = &self.request;
        let Some(operation) = request.change() else { return };
        self.listeners.auditor.record(&Change {
            operation,
            bucket: request.bucket_shown(),
            account: request.verified_account(),
            key_id: request.key_id(),
            peer: request.peer.map(|peer| peer.address),
            status: self.status.as_u16(),
            code: request.error_code(),
            took,
            request_id: &request.id,
        });
    }
}

impl Drop for AccessLine {
    fn drop(&mut self) {
        let request = &self.request;
        let took = request.start.elapsed();
        let bytes_in = request.bytes_in.load(Ordering::Relaxed);
        let status = self.status.as_u16();
        self.listeners.metrics.answered(&Answered {
            operation: request.operation(),
            bucket: request.bucket.as_ref(),
            status,
            took,
            bytes_in,
            bytes_out: self.bytes_out,
            cut: self.cut.map(Cut::name),
        });
        tracing::info!(
            target: "s3::access",
            method = request.method.as_str(),
            operation = request.operation(),
            bucket = request.bucket_shown(),
            key = request.key.as_deref().unwrap_or_default(),
            version = request.version().map(bounded),
            status,
            code = request.error_code(),
            bytes_in,
            bytes_out = self.bytes_out,
            cut = self.cut.is_some(),
            cut_by = self.cut.map(Cut::name),
            ms = millis(took),
            first_ms = millis(self.first.unwrap_or(took)),
            request_id = request.id,
            account = request.verified_account().unwrap_or("-"),
            key_id = request.key_id(),
            peer = request.peer.map(|peer| tracing::field::display(peer.address)),
            tls = request.peer.is_some_and(|peer| peer.secure),
            user_agent = request.client.user_agent(),
            traceparent = request.client.trace_parent(),
        );
        self.report_change(took);
        self.log(took);
    }
}

/// Milliseconds, rounded to the microsecond.
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
