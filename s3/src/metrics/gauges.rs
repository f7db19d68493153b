//! Gauges of a server: memory of request bodies and responses in progress, and the end of its certificate.

use std::fmt;
use std::sync::{Arc, OnceLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;

use crate::body::Memory;

/// When the certificate in use ends, in seconds since 1970; `None` without one.
pub(crate) type CertificateEnd = Box<dyn Fn() -> Option<i64> + Send + Sync>;

/// The sources that each scrape reads.
pub(super) struct Gauges {
    pub(super) bodies: Memory,
    pub(super) answers: Memory,
    pub(super) certificate_end: CertificateEnd,
}

impl fmt::Debug for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

/// The collector that Prometheus scrapes; it reports nothing before a server exists.
#[derive(Debug)]
pub(super) struct BudgetCollector(pub(super) Arc<OnceLock<Gauges>>);

impl Collector for BudgetCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(held) = self.0.get() else { return Ok(()) };
        let mut gauge = |name: &str, help: &str, value: i64| {
            let metric = ConstGauge::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        let bytes = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let (used, limit) = held.bodies.in_use();
        gauge("body_memory_bytes", "Memory reserved by uploads in progress", bytes(used))?;
        gauge("body_memory_limit_bytes", "Limit of the memory for uploads in progress", bytes(limit))?;
        let (used, limit) = held.answers.in_use();
        gauge("answer_memory_bytes", "Memory reserved by responses in progress", bytes(used))?;
        gauge("answer_memory_limit_bytes", "Limit of the memory for responses in progress", bytes(limit))?;
        if let Some(expiry) = (held.certificate_end)() {
            let help = "When the served certificate ends, in seconds since 1970";
            gauge("tls_certificate_expiry_timestamp_seconds", help, expiry)?;
        }
        Ok(())
    }
}
