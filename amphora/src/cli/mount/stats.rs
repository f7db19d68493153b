//! `amphora mount stats`

use std::path::Path;
use std::time::Duration;

use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use crate::cli::client::{Client, absolute, answer};
use crate::cli::link::{self, Link};
use crate::cli::output::{Printer, Row, size_text};
use crate::failure::Failure;

/// The printed statistics of one operation of a mount.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OperationRow {
    dir: String,
    bucket: String,
    operation: String,
    count: u64,
    errors: u64,
    total_ns: u64,
    mean_ns: u64,
    /// An upper bound of the median latency; `None` if it is above the last bound.
    p50_at_most_us: Option<u64>,
    p99_at_most_us: Option<u64>,
    buckets: Vec<Bucket>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bucket {
    at_most_us: Option<u64>,
    count: u64,
}

impl OperationRow {
    fn new(mount: &admin::MountPoint, operation: admin::OperationFigures) -> Self {
        Self {
            dir: mount.dir.clone(),
            bucket: mount.bucket.clone(),
            mean_ns: operation.total_ns / operation.count.max(1),
            p50_at_most_us: quantile(&operation, 50),
            p99_at_most_us: quantile(&operation, 99),
            operation: operation.name,
            count: operation.count,
            errors: operation.errors,
            total_ns: operation.total_ns,
            buckets: operation
                .buckets
                .into_iter()
                .map(|bucket| Bucket { at_most_us: bucket.at_most_us, count: bucket.count })
                .collect(),
        }
    }
}

/// An upper bound of the latency of this percentage of the calls.
fn quantile(operation: &admin::OperationFigures, percent: u64) -> Option<u64> {
    link::quantile(&operation.buckets, operation.count, percent)
}

impl Row for OperationRow {
    const HEADERS: &'static [&'static str] = &["DIR", "OPERATION", "COUNT", "ERRORS", "MEAN", "P50", "P99"];

    fn cells(&self) -> Vec<String> {
        let bound =
            |us: Option<u64>| us.map_or_else(|| "longer".to_owned(), |us| format!("≤{:?}", Duration::from_micros(us)));
        vec![
            self.dir.clone(),
            self.operation.clone(),
            self.count.to_string(),
            self.errors.to_string(),
            format!("{:.1?}", Duration::from_nanos(self.mean_ns)),
            bound(self.p50_at_most_us),
            bound(self.p99_at_most_us),
        ]
    }
}

/// Requests the statistics and prints a row for each operation that was called, the busiest of a mount first.
pub(super) async fn run(client: &mut Client, printer: &mut Printer, dir: Option<&Path>) -> Result<(), Failure> {
    let dir = dir.map(absolute).transpose()?;
    let mounts = answer(client.mounts.mount_stats(admin::MountStatsRequest { dir }).await)?.mounts;
    let mut rows = Vec::new();
    for stats in mounts {
        let mount = stats.mount.unwrap_or_default();
        let mut called: Vec<_> =
            stats.operations.into_iter().map(|operation| OperationRow::new(&mount, operation)).collect();
        called.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
        rows.extend(called);
        let (read, written) = (size_text(stats.read_bytes), size_text(stats.written_bytes));
        printer.done(&format!("{}: {read} read and {written} written through the server", mount.dir))?;
        if let Some(link) = mount.link.map(Link::from) {
            printer.done(&format!("{}: {} of {}", mount.dir, link.text(), mount.server))?;
        }
        if let Some(trips) = trips_text(&stats.trips) {
            printer.done(&format!("{}: {trips}", mount.dir))?;
        }
    }
    printer.list(&rows)
}

/// The round trips to a store on another machine; `None` for a mount of this machine's store.
fn trips_text(counted: &[admin::TripFigures]) -> Option<String> {
    let sum = |count: fn(&admin::TripFigures) -> u64| counted.iter().map(count).sum::<u64>();
    let each = counted.iter().map(|counted| format!("{} {}/{}", counted.operation, counted.trips, counted.calls));
    let each: Vec<_> = each.collect();
    let (trips, calls) = (sum(|counted| counted.trips), sum(|counted| counted.calls));
    (!each.is_empty()).then(|| format!("{trips} round trips for {calls} calls of the store ({})", each.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_summed_and_told_by_operation() {
        let counted = |operation: &str, calls, trips| admin::TripFigures { operation: operation.into(), calls, trips };
        assert_eq!(trips_text(&[]), None);
        let text = trips_text(&[counted("create", 2, 2), counted("lookup", 9, 1)]).expect("a text");
        assert_eq!(text, "3 round trips for 11 calls of the store (create 2/2, lookup 1/9)");
    }

    #[test]
    fn quantiles_are_bounds() {
        let bucket = |at_most_us, count| admin::LatencyBucket { at_most_us, count };
        let buckets = vec![bucket(Some(5), 50), bucket(Some(10), 48), bucket(None, 2)];
        let operation = admin::OperationFigures { count: 100, buckets, ..Default::default() };
        assert_eq!((quantile(&operation, 50), quantile(&operation, 51)), (Some(5), Some(10)));
        assert_eq!((quantile(&operation, 98), quantile(&operation, 99)), (Some(10), None));
    }
}
