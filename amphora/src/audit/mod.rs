//! The audit trail: one line for each change requested over the Unix sockets, and for each change of a bucket's
//! settings over S3, also if it is refused or fails.
//!
//! - `grpc` wraps every gRPC service and asks `proto::calls` which methods change something, so a new method is covered
//!   automatically. S3 passes its changes to [`Audit::settings`].
//! - A line has the caller, the call, its subject, the outcome, the duration, and the request's id. It contains no
//!   secret.
//! - Lines have the target [`TARGET`]; a log filter suppresses them only if it names that target.

mod grpc;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub use grpc::record;

/// The target of the lines.
pub const TARGET: &str = "audit";

/// Upper bounds of call latencies in seconds: a backup takes minutes.
const BOUNDS: [f64; 11] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

/// The outcome of a requested change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The change was made.
    Ok,
    /// The change was refused, and nothing was changed.
    Refused,
    /// The change failed, and may have been made in part.
    Failed,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// The caller who requested a change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller<'a> {
    /// The process at the other end of a Unix socket: its user, and its id unless it is in another PID namespace.
    pub process: Option<(u32, Option<i32>)>,
    /// The account, if a signature was verified.
    pub account: Option<&'a str>,
    /// The id of the access key, if it exists.
    pub key_id: Option<&'a str>,
    /// The address of a network client.
    pub peer: Option<std::net::SocketAddr>,
}

/// One requested change.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// `admin`, `csi`, `cosi` or `s3`.
    pub interface: &'static str,
    /// The caller.
    pub caller: Caller<'a>,
    /// The call's name.
    pub call: &'a str,
    /// The subject of the call, as `field=value` separated by spaces.
    pub subject: &'a str,
    /// The outcome.
    pub outcome: Outcome,
    /// The protocol's code.
    pub code: &'a str,
    /// Why it was refused or failed.
    pub reason: &'a str,
    /// The duration.
    pub took: Duration,
    /// The request's id, which other log lines about it carry too.
    pub request_id: &'a str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Event {
    interface: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answered {
    interface: &'static str,
    method: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Method {
    interface: &'static str,
    method: &'static str,
}

/// The audit trail: a cheap handle.
#[derive(Clone, Debug)]
pub struct Audit {
    events: Family<Event, Counter>,
    calls: Family<Answered, Counter>,
    seconds: Family<Method, Histogram>,
    next: Arc<AtomicU64>,
    /// Distinguishes the ids of this run from those of others.
    run: Arc<str>,
}

impl Audit {
    /// The trail of a server that started at `run`, with its metrics registered.
    pub fn new(registry: &mut Registry, run: &str) -> Self {
        let audit = Self {
            events: Family::default(),
            calls: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BOUNDS)),
            next: Arc::default(),
            run: run.into(),
        };
        for interface in ["admin", "csi", "cosi", "s3"] {
            for outcome in [Outcome::Ok, Outcome::Refused, Outcome::Failed] {
                drop(audit.events.get_or_create(&Event { interface, outcome: outcome.name() }));
            }
        }
        registry.register("audit_events", "Lines of the audit trail, by interface and outcome", audit.events.clone());
        let help = "Calls answered over the Unix sockets, by interface, method and gRPC code";
        registry.register("grpc_calls", help, audit.calls.clone());
        let help = "Duration of calls over the Unix sockets, by interface and method";
        registry.register("grpc_call_duration_seconds", help, audit.seconds.clone());
        audit
    }

    /// Writes a line.
    pub fn write(&self, entry: &Entry<'_>) {
        let outcome = entry.outcome.name();
        self.events.get_or_create(&Event { interface: entry.interface, outcome }).inc();
        let Caller { process, account, key_id, peer } = entry.caller;
        tracing::info!(
            target: TARGET,
            interface = entry.interface,
            call = entry.call,
            on = entry.subject,
            outcome,
            code = entry.code,
            reason = Some(entry.reason).filter(|reason| !reason.is_empty()),
            uid = process.map(|(uid, _)| uid),
            pid = process.and_then(|(_, pid)| pid),
            account,
            key_id,
            peer = peer.map(tracing::field::display),
            ms = millis(entry.took),
            request_id = entry.request_id,
        );
    }

    /// Writes the line of a change of a bucket's settings over S3.
    pub fn settings(&self, change: &s3::Change<'_>) {
        let outcome = match change.status {
            500.. => Outcome::Failed,
            400.. => Outcome::Refused,
            _ => Outcome::Ok,
        };
        let caller = Caller { account: change.account, key_id: change.key_id, peer: change.peer, ..Caller::default() };
        self.write(&Entry {
            interface: "s3",
            caller,
            call: change.operation,
            subject: &change.subject.map_or_else(|| format!("bucket={}", change.bucket), str::to_owned),
            outcome,
            code: change.code.unwrap_or(if outcome == Outcome::Ok { "ok" } else { "-" }),
            reason: "",
            took: change.took,
            request_id: change.request_id,
        });
    }

    fn counted(&self, interface: &'static str, method: &'static str, code: &'static str, took: Duration) {
        self.calls.get_or_create(&Answered { interface, method, code }).inc();
        self.seconds.get_or_create(&Method { interface, method }).observe(took.as_secs_f64());
    }

    fn next_id(&self) -> String {
        format!("{}-{:06}", self.run, self.next.fetch_add(1, Relaxed))
    }
}

/// Milliseconds, rounded to the microsecond.
fn millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}
