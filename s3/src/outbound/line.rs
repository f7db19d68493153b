//! The report on a request at the end of its response: the access line, metrics, the audit trail and the access log of
//! its bucket.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;
use objstore::clock::{Clock as _, SystemClock};
use time::OffsetDateTime;

use crate::access_log::{AccessLog, Asked, Client, Entry};
use crate::change::{self, Auditor, Change};
use crate::client_info::bounded;
use crate::metrics::{Answered, Metrics};
use crate::query::{Query, chosen};
use crate::request::Request;

/// Why a response was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// The client closed the connection.
    Left,
    /// The client read nothing, or too slowly while others waited.
    Stalled,
    /// The content could not be read.
    Failed,
}

impl Cut {
    /// The name of the cause in logs and metrics.
    fn name(self) -> &'static str {
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
pub(super) struct AccessLine {
    pub(super) request: Arc<Request>,
    pub(super) status: StatusCode,
    pub(super) listeners: Arc<Listeners>,
    pub(super) bytes_out: u64,
    pub(super) cut: Option<Cut>,
    /// The time from the request's head to the first bytes of the response.
    pub(super) first: Option<Duration>,
    /// Bytes that the connection had sent before this response, and bytes of its head.
    pub(super) before: (u64, u64),
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
        let Some(operation) = change::of(request) else { return };
        let subject = request.subject();
        self.listeners.auditor.record(&Change {
            operation,
            bucket: request.bucket_shown(),
            subject: subject.as_deref(),
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
