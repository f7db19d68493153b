//! The two text formats of Prometheus metrics.
//!
//! - OpenMetrics 1.0 names a metric family of counters without `_total`; the older Prometheus format, 0.0.4, with it. A
//!   client that asks for neither gets the older one, which every tool reads.

use std::fmt::Write as _;

use prometheus_client::registry::Registry;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus 0.0.4.
    Plain,
}

impl Format {
    /// The format that an `Accept` header asks for.
    pub fn of(accept: &str) -> Self {
        let asked = accept.split(',').any(|kind| kind.trim().starts_with("application/openmetrics-text"));
        if asked { Self::OpenMetrics } else { Self::Plain }
    }

    /// Its media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Encodes all metrics of a registry.
///
/// # Errors
/// If a metric cannot be written.
pub fn encode(registry: &Registry, format: Format) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry)?;
    Ok(if format == Format::OpenMetrics { text } else { plain(&text) })
}

/// Converts OpenMetrics text to the older format.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut help = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            // The family's name depends on its type, which follows.
            help = rest.split_once(' ').map(|(_, words)| words);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(plain, "# HELP {name}{suffix} {}", help.take().unwrap_or_default());
            let _ = writeln!(plain, "# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with('#') {
            plain.push_str(line);
            plain.push('\n');
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::metrics::info::Info;
    use prometheus_client::registry::Unit;

    use super::*;

    #[test]
    fn a_scraper_gets_the_format_it_asks_for() {
        assert_eq!(Format::of("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"), Format::OpenMetrics);
        assert_eq!((Format::of("*/*"), Format::of("")), (Format::Plain, Format::Plain));
        let mut registry = Registry::default();
        registry.register("build", "The program", Info::new([("version", "1")]));
        registry.register("bytes", "Some", Counter::<u64>::default());
        registry.register_with_unit("took", "Time", Unit::Seconds, Gauge::<i64>::default());
        let open = encode(&registry, Format::OpenMetrics).expect("encoded");
        assert!(open.contains("# TYPE bytes counter\nbytes_total 0\n") && open.ends_with("# EOF\n"), "{open}");
        let expected = "# HELP build_info The program.\n# TYPE build_info gauge\nbuild_info{version=\"1\"} 1\n\
                        # HELP bytes_total Some.\n# TYPE bytes_total counter\nbytes_total 0\n\
                        # HELP took_seconds Time.\n# TYPE took_seconds gauge\ntook_seconds 0\n";
        assert_eq!(encode(&registry, Format::Plain).expect("encoded"), expected);
    }
}
