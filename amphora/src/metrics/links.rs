//! The metrics of mounts of stores on other machines, all mounts of this process together.

use std::fmt;
use std::sync::Arc;

use objstore_files::SessionStanding;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::{counter, gauge, latency, whole};
use crate::mounts::{MountPoint, Table};

/// The connections of such mounts to their stores.
pub(super) struct LinkFigures(pub(super) Arc<Table>);

impl fmt::Debug for LinkFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkFigures")
    }
}

impl Collector for LinkFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let links: Vec<_> = self.0.list().into_iter().filter_map(|MountPoint { link, .. }| link).collect();
        let help = "Mounts of stores on other machines, by how their session stands: served, unreached or lost";
        let mut sessions = encoder.encode_descriptor("node_sessions", help, None, MetricType::Gauge)?;
        for (name, standing) in [
            ("served", SessionStanding::Served),
            ("unreached", SessionStanding::Unreached),
            ("lost", SessionStanding::Lost),
        ] {
            let count = links.iter().filter(|link| link.standing == standing).count() as u64;
            ConstGauge::new(whole(count)).encode(sessions.encode_family(&[("standing", name)])?)?;
        }
        let under_way = links.iter().map(|link| link.under_way).sum();
        gauge(
            &mut encoder,
            "node_calls_under_way",
            "Calls to stores on other machines without an answer yet",
            under_way,
        )?;
        let totals = self.0.totals().links;
        let help = "Connections to stores on other machines that were opened again";
        counter(&mut encoder, "node_reconnects", help, totals.reconnects)?;
        counter(
            &mut encoder,
            "node_received_bytes",
            "Bytes received from stores on other machines",
            totals.received_bytes,
        )?;
        counter(&mut encoder, "node_sent_bytes", "Bytes sent to stores on other machines", totals.sent_bytes)?;
        let help = "Time until a store on another machine answered a call";
        let unit = Unit::Seconds;
        let trips = encoder.encode_descriptor("node_round_trip_duration", help, Some(&unit), MetricType::Histogram)?;
        latency(trips, &totals.round_trips)
    }
}
