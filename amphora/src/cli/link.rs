//! The printed form of a mount's connection to a store on another machine.

use std::time::Duration;

use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use super::output::{size_text, some};
use super::session::seconds_text;

/// A connection.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Link {
    session: String,
    standing: String,
    lease_left_ms: u64,
    connections: u32,
    reconnects: u64,
    calls_under_way: u64,
    round_trips: u64,
    round_trip_mean_us: u64,
    /// An upper bound of the median; `None` if it is above the last bound.
    round_trip_p50_at_most_us: Option<u64>,
    round_trip_p99_at_most_us: Option<u64>,
    received_bytes: u64,
    sent_bytes: u64,
    why: Option<String>,
}

impl From<admin::Link> for Link {
    fn from(link: admin::Link) -> Self {
        let quantile = |percent| quantile(&link.round_trip_buckets, link.round_trips, percent);
        Self {
            round_trip_p50_at_most_us: quantile(50),
            round_trip_p99_at_most_us: quantile(99),
            session: link.session,
            standing: link.standing,
            lease_left_ms: link.lease_left_ms,
            connections: link.connections,
            reconnects: link.reconnects,
            calls_under_way: link.calls_under_way,
            round_trips: link.round_trips,
            round_trip_mean_us: link.round_trip_total_us / link.round_trips.max(1),
            received_bytes: link.received_bytes,
            sent_bytes: link.sent_bytes,
            why: some(link.why),
        }
    }
}

/// An upper bound of the time of this percentage of calls.
pub(super) fn quantile(buckets: &[admin::LatencyBucket], count: u64, percent: u64) -> Option<u64> {
    let wanted = (count * percent).div_ceil(100);
    let mut sum = 0;
    let bucket = buckets.iter().find(|bucket| {
        sum += bucket.count;
        sum >= wanted
    });
    bucket.and_then(|bucket| bucket.at_most_us)
}

impl Link {
    pub(super) fn text(&self) -> String {
        let bound =
            |us: Option<u64>| us.map_or_else(|| "longer".to_owned(), |us| format!("≤{:?}", Duration::from_micros(us)));
        let why = self.why.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
        format!(
            "session {} {}, lease {} left, {} connections, {} reconnects, {} calls under way, {} answered in {} (median) \
             and {} (99th percentile), {} received, {} sent{why}",
            self.session,
            self.standing,
            seconds_text(self.lease_left_ms),
            self.connections,
            self.reconnects,
            self.calls_under_way,
            self.round_trips,
            bound(self.round_trip_p50_at_most_us),
            bound(self.round_trip_p99_at_most_us),
            size_text(self.received_bytes),
            size_text(self.sent_bytes),
        )
    }
}
