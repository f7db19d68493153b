//! The metrics of the volume listener.
//!
//! - Labels are names of this program alone. A peer chooses the name of its node, so no series has one: their number does
//!   not grow with what peers do.

use std::fmt;

use node_server::{SessionShown, State, Why};
use node_wire::refusal::Reason;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::{counter, gauge};
use crate::volumes::Volumes;

/// Sessions of mounts on other machines; zeros without a volume listener.
#[derive(Debug)]
pub(super) struct VolumeStats(pub Option<Volumes>);

impl Collector for VolumeStats {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.0.as_ref().map(Volumes::stats).unwrap_or_default();
        let encoder = &mut encoder;
        gauge(encoder, "volume_sessions", "Sessions of mounts on other machines", stats.sessions)?;
        let help = "Connections of other machines to the volume listener";
        gauge(encoder, "volume_connections", help, stats.connections)?;
        counter(encoder, "volume_calls", "Calls of other machines that were answered", stats.answered)?;
        counter(encoder, "volume_calls_refused", "Calls of other machines that were refused", stats.refused)?;
        let help = "Sessions that were ended because their lease or access was over";
        counter(encoder, "volume_sessions_fenced", help, stats.expired)?;
        let sessions = self.0.as_ref().map(Volumes::sessions).unwrap_or_default();
        standings(encoder, &sessions)?;
        counter(encoder, "volume_received_bytes", "Bytes received from other machines", stats.bytes.received)?;
        counter(encoder, "volume_sent_bytes", "Bytes sent to other machines", stats.bytes.sent)?;
        let help = "Sessions of mounts on other machines that ended, by why";
        labelled(
            encoder,
            ("volume_sessions_ended", help),
            "why",
            Why::ALL.map(Why::name).into_iter().zip(stats.ended),
        )?;
        let help = "Openings of sessions by other machines that were refused, by reason";
        let openings = stats.openings_refused.by_reason().map(|(why, count)| (reason(why), count));
        labelled(encoder, ("volume_openings_refused", help), "reason", openings)?;
        let help = "Connections of other machines that were not admitted, by reason; broken: they ended before";
        let refused = stats.connections_refused;
        let by_reason =
            refused.by_reason().map(|(why, count)| (reason(why), count)).chain([("broken", refused.broken)]);
        labelled(encoder, ("volume_connections_refused", help), "reason", by_reason)
    }
}

/// How the sessions stand.
fn standings(encoder: &mut DescriptorEncoder<'_>, sessions: &[SessionShown]) -> fmt::Result {
    let count = |state| sessions.iter().filter(|session| session.state == state).count() as u64;
    let help = "Sessions whose node has no connection and lives on the rest of its lease";
    gauge(encoder, "volume_sessions_unreached", help, count(State::Unreached))?;
    let help = "Sessions whose lease is not renewed because their node leaves changes unacknowledged";
    gauge(encoder, "volume_sessions_behind", help, count(State::Behind))?;
    let help = "Sessions whose node has not come back since the server started";
    gauge(encoder, "volume_sessions_awaited", help, count(State::Awaited))?;
    let help = "Answers to other machines that wait until other mounts have dropped what they cache";
    gauge(encoder, "volume_answers_waiting", help, sessions.iter().map(|session| session.waiting).sum())?;
    let behind = sessions.iter().map(|session| session.behind).max().unwrap_or_default();
    let help = "How long the oldest change has waited for the acknowledgement of a session";
    let metric = ConstGauge::new(behind.as_secs_f64());
    let unit = Unit::Seconds;
    metric.encode(encoder.encode_descriptor("volume_behind", help, Some(&unit), MetricType::Gauge)?)
}

fn labelled(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    label: &str,
    counts: impl IntoIterator<Item = (&'static str, u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (value, count) in counts {
        ConstCounter::new(count).encode(family.encode_family(&[(label, value)])?)?;
    }
    Ok(())
}

fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Other | Reason::Unproven => "other",
        Reason::Version => "version",
        Reason::Credential => "credential",
        Reason::Session => "session",
        Reason::Busy => "busy",
        Reason::Stopping => "stopping",
        Reason::Protocol => "protocol",
        Reason::Request => "request",
    }
}
