//! Metrics of the S3 endpoint for Prometheus.
//!
//! - A request adds to atomic counters, found without a lock for its bucket (`buckets`). Those of its operation are in
//!   a table under a read lock, which is complete after a few requests.

mod buckets;
mod gauges;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use objstore::name::BucketName;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::access_log::Lines;
use crate::body::Memory;
use buckets::Buckets;
pub use buckets::{BUCKETS_MAX, REST};
use gauges::{CertificateEnd, Gauges};

/// Upper bounds of the latency histogram, in seconds.
const BUCKETS: [f64; 14] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    operation: &'static str,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Certificate {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// The endpoint's metrics: a cheap handle.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: Family<Outcome, Counter>,
    seconds: Family<Operation, Histogram>,
    bytes_in: Counter,
    bytes_out: Counter,
    cut: Family<Reason, Counter>,
    connections: Gauge,
    turned_away: Counter,
    handshakes_failed: Counter,
    certificates: Family<Certificate, Counter>,
    log_lines: Lines,
    buckets: Arc<Buckets>,
    held: Arc<OnceLock<Gauges>>,
}

/// An answered request.
pub(crate) struct Answered<'a> {
    pub(crate) operation: &'static str,
    pub(crate) bucket: Option<&'a BucketName>,
    pub(crate) status: u16,
    pub(crate) took: Duration,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// Why the response was cut off, if it was.
    pub(crate) cut: Option<&'static str>,
}

impl Metrics {
    /// Creates the metrics and registers them as `s3_…` and `bucket_requests` in `registry`.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            cut: Family::default(),
            connections: Gauge::default(),
            turned_away: Counter::default(),
            handshakes_failed: Counter::default(),
            certificates: Family::default(),
            log_lines: Lines::new(registry.sub_registry_with_prefix("s3")),
            buckets: Arc::default(),
            held: Arc::default(),
        };
        metrics.register(registry);
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        for reason in ["client", "stalled", "failed"] {
            drop(self.cut.get_or_create(&Reason { reason }));
        }
        for outcome in ["taken", "refused"] {
            drop(self.certificates.get_or_create(&Certificate { outcome }));
        }
        registry.register_collector(Box::new(buckets::RequestCollector(Arc::clone(&self.buckets))));
        let registry = registry.sub_registry_with_prefix("s3");
        registry.register("requests", "Requests answered, by operation and status", self.requests.clone());
        let help = "From the head of a request to the end of its answer";
        registry.register("request_duration_seconds", help, self.seconds.clone());
        registry.register("received_bytes", "Bytes of request bodies", self.bytes_in.clone());
        registry.register(
            "sent_bytes",
            "Bytes of response bodies that were handed to the system",
            self.bytes_out.clone(),
        );
        let help = "Answers that ended before their end: the client left, it stalled, or the content could not be read";
        registry.register("answers_cut", help, self.cut.clone());
        registry.register("connections", "Open connections", self.connections.clone());
        let help = "Connections refused because the connection limit was reached";
        registry.register("connections_turned_away", help, self.turned_away.clone());
        let help = "Connections that ended in their TLS handshake";
        registry.register("tls_handshakes_failed", help, self.handshakes_failed.clone());
        let help = "Changes of the TLS files, by whether the new certificate was accepted";
        registry.register("tls_certificates", help, self.certificates.clone());
        registry.register_collector(Box::new(gauges::BudgetCollector(Arc::clone(&self.held))));
    }

    /// Gives these existing buckets, at most [`BUCKETS_MAX`], their own counters. Counters of buckets that had them
    /// before continue.
    pub fn set_buckets(&self, names: impl IntoIterator<Item = BucketName>) {
        self.buckets.set(names);
    }

    /// Starts to report the memory of request bodies and responses, and the end of the certificate.
    pub(crate) fn watch(&self, (bodies, answers): (Memory, Memory), certificate_end: CertificateEnd) {
        let _ = self.held.set(Gauges { bodies, answers, certificate_end });
    }

    /// Counts an answered request.
    pub(crate) fn answered(&self, answered: &Answered<'_>) {
        let Answered { operation, status, .. } = *answered;
        self.requests.get_or_create(&Outcome { operation, status }).inc();
        self.seconds.get_or_create(&Operation { operation }).observe(answered.took.as_secs_f64());
        self.bytes_in.inc_by(answered.bytes_in);
        self.bytes_out.inc_by(answered.bytes_out);
        if let Some(reason) = answered.cut {
            self.cut.get_or_create(&Reason { reason }).inc();
        }
        if let Some(bucket) = answered.bucket {
            self.buckets.count(bucket, operation);
        }
    }

    /// Counts a connection refused at the connection limit.
    pub(crate) fn turned_away(&self) {
        self.turned_away.inc();
    }

    /// Counts a connection that ended in its TLS handshake.
    pub(crate) fn handshake_failed(&self) {
        self.handshakes_failed.inc();
    }

    /// Counts a new certificate.
    pub(crate) fn certificate_taken(&self) {
        self.certificates.get_or_create(&Certificate { outcome: "taken" }).inc();
    }

    /// Counts a changed certificate that cannot be used.
    pub(crate) fn certificate_refused(&self) {
        self.certificates.get_or_create(&Certificate { outcome: "refused" }).inc();
    }

    /// The counters of buckets' access logs.
    pub(crate) fn log_lines(&self) -> Lines {
        self.log_lines.clone()
    }

    /// Counts a connection until the guard drops.
    pub(crate) fn connected(&self) -> Connected {
        self.connections.inc();
        Connected(self.connections.clone())
    }
}

/// An open connection.
pub(crate) struct Connected(Gauge);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answered_requests_are_scraped() {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        let bucket: BucketName = "photos".parse().unwrap();
        metrics.set_buckets([bucket.clone()]);
        metrics.answered(&Answered {
            operation: "GetObject",
            bucket: Some(&bucket),
            status: 200,
            took: Duration::from_millis(2),
            bytes_in: 0,
            bytes_out: 10,
            cut: Some("client"),
        });
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "s3_requests_total{operation=\"GetObject\",status=\"200\"} 1",
            "s3_sent_bytes_total 10",
            "s3_answers_cut_total{reason=\"client\"} 1",
            "s3_answers_cut_total{reason=\"stalled\"} 0",
            "bucket_requests_total{bucket=\"photos\",class=\"read\"} 1",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
