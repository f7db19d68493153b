//! Process metrics under the standard names (Prometheus, "Writing client libraries", process metrics).

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use super::{gauge, whole};

/// Reads `/proc` for this process.
#[derive(Debug)]
pub(super) struct ProcessCollector {
    /// The boot time of the machine in seconds since 1970.
    boot_seconds: u64,
}

impl ProcessCollector {
    pub(super) fn new() -> Self {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let boot = stat.lines().find_map(|line| line.strip_prefix("btime "));
        Self { boot_seconds: boot.and_then(|text| text.trim().parse().ok()).unwrap_or(0) }
    }
}

/// The fields of `/proc/PID/stat` that are used (proc_pid_stat(5)).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The program's name stands in parentheses and may contain blanks and parentheses.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first field after the name is the third of the line.
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok());
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            threads: field(20)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let Some(stat) = Stat::parse(&stat) else { return Ok(()) };
        #[expect(clippy::cast_precision_loss, reason = "ticks of some centuries are exact")]
        let seconds = |ticks: u64| ticks as f64 / clock_ticks_per_second().max(1) as f64;
        let cpu = ConstCounter::new(seconds(stat.cpu_ticks));
        let help = "User and system CPU time spent in seconds";
        cpu.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, cpu.metric_type())?)?;
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are exact")]
        let started = ConstGauge::new(self.boot_seconds as f64 + seconds(stat.start_ticks));
        let help = "Start time of the process since unix epoch in seconds";
        started.encode(encoder.encode_descriptor(
            "process_start_time_seconds",
            help,
            None,
            started.metric_type(),
        )?)?;
        gauge(&mut encoder, "process_virtual_memory_bytes", "Virtual memory size in bytes", stat.virtual_bytes)?;
        let resident = stat.resident_pages.saturating_mul(page_size() as u64);
        gauge(&mut encoder, "process_resident_memory_bytes", "Resident memory size in bytes", resident)?;
        gauge(&mut encoder, "process_threads", "Number of OS threads in the process", stat.threads)?;
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count().saturating_sub(1));
        gauge(&mut encoder, "process_open_fds", "Number of open file descriptors", open as u64)?;
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let help = "Maximum number of open file descriptors";
        let limit = ConstGauge::new(whole(limit));
        limit.encode(encoder.encode_descriptor("process_max_fds", help, None, limit.metric_type())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let line = "7 (a ) b (c)) S 1 7 7 0 -1 4194560 9 0 0 0 11 22 0 0 20 0 5 0 4242 1048576 33 18446744073709551615";
        let expected =
            Stat { cpu_ticks: 33, threads: 5, start_ticks: 4242, virtual_bytes: 1_048_576, resident_pages: 33 };
        assert_eq!(Stat::parse(line), Some(expected));
        assert_eq!(Stat::parse("7 (a) S 1"), None);
        assert!(Stat::parse(&std::fs::read_to_string("/proc/self/stat").expect("read")).is_some());
    }
}
