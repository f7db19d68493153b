//! Figures of the S3 endpoint for Prometheus.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

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

/// The endpoint's figures: a cheap handle.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: Family<Outcome, Counter>,
    seconds: Family<Operation, Histogram>,
    bytes_in: Counter,
    bytes_out: Counter,
    connections: Gauge,
    turned_away: Counter,
    handshakes_failed: Counter,
    certificates: Family<Certificate, Counter>,
}

impl Metrics {
    /// Makes the figures and registers them as `s3_…` in `registry`.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            connections: Gauge::default(),
            turned_away: Counter::default(),
            handshakes_failed: Counter::default(),
            certificates: Family::default(),
        };
        let registry = registry.sub_registry_with_prefix("s3");
        registry.register("requests", "Requests answered, by operation and status", metrics.requests.clone());
        registry.register(
            "request_duration_seconds",
            "From the head of a request to the end of its answer",
            metrics.seconds.clone(),
        );
        registry.register("received_bytes", "Bytes of request bodies", metrics.bytes_in.clone());
        registry.register("sent_bytes", "Bytes of response bodies", metrics.bytes_out.clone());
        registry.register("connections", "Open connections", metrics.connections.clone());
        registry.register(
            "connections_turned_away",
            "Connections told to come again, or closed, because all places were busy",
            metrics.turned_away.clone(),
        );
        registry.register(
            "tls_handshakes_failed",
            "Connections that ended in their TLS handshake",
            metrics.handshakes_failed.clone(),
        );
        registry.register(
            "tls_certificates",
            "Changes of the TLS files, by whether they were taken",
            metrics.certificates.clone(),
        );
        metrics
    }

    /// Counts an answered request.
    pub(crate) fn answered(&self, operation: &'static str, status: u16, took: Duration, bytes_in: u64, bytes_out: u64) {
        self.requests.get_or_create(&Outcome { operation, status }).inc();
        self.seconds.get_or_create(&Operation { operation }).observe(took.as_secs_f64());
        self.bytes_in.inc_by(bytes_in);
        self.bytes_out.inc_by(bytes_out);
    }

    /// Counts a connection that found no place.
    pub(crate) fn turned_away(&self) {
        self.turned_away.inc();
    }

    /// Counts a connection that ended in its handshake.
    pub(crate) fn handshake_failed(&self) {
        self.handshakes_failed.inc();
    }

    /// Counts a new certificate.
    pub(crate) fn certificate_taken(&self) {
        self.certificates.get_or_create(&Certificate { outcome: "taken" }).inc();
    }

    /// Counts a changed certificate that cannot be served.
    pub(crate) fn certificate_refused(&self) {
        self.certificates.get_or_create(&Certificate { outcome: "refused" }).inc();
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
        metrics.answered("GetObject", 200, Duration::from_millis(2), 0, 10);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("s3_requests_total{operation=\"GetObject\",status=\"200\"} 1"), "{text}");
        assert!(text.contains("s3_sent_bytes_total 10"), "{text}");
    }
}
