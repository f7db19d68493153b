//! Counters of access log lines, by outcome: delivered, or dropped for one of several reasons.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    outcome: &'static str,
}

/// The counters: a cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Lines(Family<Labels, Counter>);

impl Lines {
    /// Makes the counters and registers them as `access_log_lines` in `registry`.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let lines = Family::<Labels, Counter>::default();
        for outcome in ["delivered", "failed", "full", "quota", "target"] {
            drop(lines.get_or_create(&Labels { outcome }));
        }
        let help = "Lines of buckets' access logs that were delivered, or dropped and why";
        registry.register("access_log_lines", help, lines.clone());
        Self(lines)
    }

    /// Counts lines.
    pub(super) fn add(&self, outcome: &'static str, lines: u64) {
        self.0.get_or_create(&Labels { outcome }).inc_by(lines);
    }
}
