//! Metrics of all mounts of this process together, and of the fd holder.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fuse::LATENCY_BOUNDS_US;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Unit;

use super::{counter, gauge};
use crate::mounts::{OperationTotal, Table};

/// The totals of all mounts of this process.
pub(super) struct MountFigures(pub(super) Arc<Table>);

impl fmt::Debug for MountFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MountFigures")
    }
}

impl Collector for MountFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        gauge(&mut encoder, "mounts", "Mounts of buckets and snapshots", self.0.list().len() as u64)?;
        let totals = self.0.totals();
        counter(
            &mut encoder,
            "fuse_read_bytes",
            "Bytes that programs read from the server through mounts, not from the kernel's cache",
            totals.read_bytes,
        )?;
        counter(&mut encoder, "fuse_written_bytes", "Bytes written through mounts", totals.written_bytes)?;
        let help = "Requests of the kernel answered with an error, by operation";
        let mut errors = encoder.encode_descriptor("fuse_errors", help, None, MetricType::Counter)?;
        for (operation, total) in &totals.operations {
            ConstCounter::new(total.errors).encode(errors.encode_family(&[("operation", *operation)])?)?;
        }
        let help = "Duration of the kernel's requests, by operation";
        let unit = Unit::Seconds;
        let mut took =
            encoder.encode_descriptor("fuse_operation_duration", help, Some(&unit), MetricType::Histogram)?;
        for (operation, total) in &totals.operations {
            let label = [("operation", *operation)];
            histogram(took.encode_family(&label)?, total)?;
        }
        Ok(())
    }
}

/// Encodes the latencies of one operation.
fn histogram(mut encoder: MetricEncoder<'_>, total: &OperationTotal) -> fmt::Result {
    let bounds = LATENCY_BOUNDS_US.iter().map(|bound| Duration::from_micros(*bound).as_secs_f64()).chain([f64::MAX]);
    let buckets: Vec<_> = bounds.zip(total.buckets).collect();
    encoder.encode_histogram::<NoLabelSet>(total.took.as_secs_f64(), total.count, &buckets, None)
}

/// The state of the fd holder; nothing if the server runs without one.
pub(super) struct HolderCollector(pub(super) Arc<Table>);

impl fmt::Debug for HolderCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HolderCollector")
    }
}

impl Collector for HolderCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(holder) = self.0.holder() else { return Ok(()) };
        let help = "1 while a holder keeps mounts for this server; the server starts one with the first mount";
        gauge(&mut encoder, "holder_up", help, u64::from(holder.program.is_some()))?;
        let help = "Mounts that the holder keeps for the next server";
        gauge(&mut encoder, "holder_mounts", help, holder.mounts as u64)?;
        let program = holder.program.unwrap_or_default();
        let metric = Info::new([("program", program.as_str())]);
        let help = "The program of the holder and its version; empty while there is none";
        metric.encode(encoder.encode_descriptor("holder", help, None, MetricType::Info)?)
    }
}
