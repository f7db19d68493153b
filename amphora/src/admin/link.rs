//! The connection of a mount to a store on another machine, in the protocol's form.

use objstore::latency::BOUNDS_US;
use objstore_files::{LinkStats, SessionStanding};
use proto::amphora::admin::v1 as api;

/// The name of a standing.
fn name(standing: SessionStanding) -> &'static str {
    match standing {
        SessionStanding::Served => "served",
        SessionStanding::Unreached => "unreached",
        SessionStanding::Lost => "lost",
    }
}

pub(super) fn shown(link: &LinkStats) -> api::Link {
    let bounds = BOUNDS_US.iter().copied().map(Some).chain([None]);
    let buckets = bounds.zip(link.round_trips.buckets);
    api::Link {
        session: super::session::id_text(link.session),
        standing: name(link.standing).to_owned(),
        lease_left_ms: super::session::millis(link.lease_left),
        connections: link.connections,
        reconnects: link.reconnects,
        calls_under_way: link.under_way,
        round_trips: link.round_trips.count(),
        round_trip_total_us: link.round_trips.total_us,
        round_trip_buckets: buckets.map(|(at_most_us, count)| api::LatencyBucket { at_most_us, count }).collect(),
        received_bytes: link.received_bytes,
        sent_bytes: link.sent_bytes,
        why: link.why.clone().unwrap_or_default(),
    }
}
