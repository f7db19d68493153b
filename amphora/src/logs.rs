//! Logging to stderr, as lines for people or as JSON, and the audit trail in a separate file if configured.
//!
//! - Audit lines pass at every log level, unless the filter names their target (`audit=off`). They always go to their
//!   own file, and none is dropped for a slow reader there.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Mutex;

use objstore::clock::{Clock as _, SystemClock};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;
use tracing_subscriber::{EnvFilter, fmt};

use crate::audit;
use crate::config::LogFormat;
use crate::failure::Failure;
use crate::stderr::Stream;

/// Modules that log only if the filter names them: `s3s` logs each refused request as an error, which the access log of
/// `s3` covers; the others are verbose.
const QUIET: [(&str, &str); 6] = [
    ("s3s", "off"),
    ("fjall", "warn"),
    ("lsm_tree", "warn"),
    ("h2", "warn"),
    ("hyper", "warn"),
    ("hyper_util", "warn"),
];

/// The text in place of dropped lines.
const MISSED: &str = "log lines were dropped because the reader of stderr was too slow";

/// Starts logging, also to the audit log `audit_log`. A second call in one process changes nothing.
///
/// # Errors
/// [`Failure::Failed`] if that file cannot be opened.
pub fn start(filter: &str, format: LogFormat, audit_log: Option<&Path>) -> Result<(), Failure> {
    let stderr = |notice: fn(u64) -> String| Mutex::new(Stream::new(io::stderr(), notice));
    let trail = audit_log.map(open).transpose()?.map(|file| {
        let only = Targets::new().with_target(audit::TARGET, LevelFilter::INFO);
        let lines = fmt::layer().json().flatten_event(true).with_current_span(false).with_span_list(false);
        lines.with_writer(Mutex::new(file)).with_filter(only)
    });
    // If a logger exists already, as in a test that starts two servers, it serves both.
    let _ = match format {
        LogFormat::Text => {
            let colours = io::IsTerminal::is_terminal(&io::stderr());
            let lines = fmt::layer().with_ansi(colours).with_writer(stderr(missed_in_text));
            tracing_subscriber::registry().with(trail).with(lines.with_filter(filter_of(filter))).try_init()
        }
        LogFormat::Json => {
            let lines = fmt::layer().json().flatten_event(true).with_writer(stderr(missed_in_json));
            tracing_subscriber::registry().with(trail).with(lines.with_filter(filter_of(filter))).try_init()
        }
    };
    Ok(())
}

/// Opens the audit log for appending, readable by its owner only.
fn open(path: &Path) -> Result<File, Failure> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    file.map_err(|error| Failure::failed(format!("--audit-log {}: the file cannot be opened: {error}", path.display())))
}

/// The line in place of dropped lines.
fn missed_in_text(lines: u64) -> String {
    format!("{}  WARN amphora::logs: {MISSED} lines={lines}", now())
}

fn missed_in_json(lines: u64) -> String {
    serde_json::json!({ "timestamp": now(), "level": "WARN", "message": MISSED, "lines": lines, "target": "amphora::logs" })
        .to_string()
}

fn now() -> String {
    let nanos = SystemClock.now().0.into();
    let time = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

fn filter_of(text: &str) -> EnvFilter {
    let named =
        |module: &str| text.split(',').any(|part| part.trim().split_once('=').is_some_and(|(name, _)| name == module));
    let held = QUIET.into_iter().chain([(audit::TARGET, "info")]).filter(|(module, _)| !named(module));
    let all = held.fold(text.to_owned(), |all, (module, level)| format!("{all},{module}={level}"));
    EnvFilter::builder().parse_lossy(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_a_line_as_the_others() {
        assert!(missed_in_text(7).contains(" WARN amphora::logs: log lines were dropped"));
        let json: serde_json::Value = serde_json::from_str(&missed_in_json(7)).unwrap();
        assert_eq!((&json["lines"], &json["level"]), (&7.into(), &"WARN".into()));
        assert!(json["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{json}");
    }

    #[test]
    fn the_audit_trail_passes_every_level_unless_the_filter_names_it() {
        for filter in ["off", "error", "warn,s3=debug", "info,s3::audit=off", "trace"] {
            assert!(filter_of(filter).to_string().contains("audit=info"), "{filter}");
        }
        let told = filter_of("info,audit=off").to_string();
        assert!(told.contains("audit=off") && !told.contains("audit=info"), "{told}");
    }

    #[test]
    fn a_named_module_is_not_held_back() {
        assert!(filter_of("info").to_string().contains("s3s=off"));
        let named = filter_of("info,s3s=debug").to_string();
        assert!(named.contains("s3s=debug") && !named.contains("s3s=off"), "{named}");
    }
}
