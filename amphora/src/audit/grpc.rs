//! Auditing of gRPC calls on the Unix sockets: reads the request's subject as it passes, and writes the line when the
//! response ends.
//!
//! - It wraps everything else, so calls that are refused before they reach a service have a line too.
//! - A call runs to its end even if its caller disconnects, and its line says how it ended.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use proto::calls::{self, Call};
use rpc::{Observed, Observer};
use tonic::transport::server::UdsConnectInfo;
use tonic::{Code, Status};
use tracing::Instrument as _;

use super::{Audit, Caller, Entry, Outcome};

/// Bytes of a message that are read for its subject; fields beyond them are omitted.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// The prefix of each message: a compression flag and its length (gRPC over HTTP/2).
const PREFIX_BYTES: usize = 5;
/// The most characters of a reason.
const REASON_CHARS_MAX: usize = 512;
/// The response header with the id of the audit line.
const REQUEST_ID: &str = "x-request-id";

/// Counts a call, and writes its line if it changes something or if its caller may not make it.
pub async fn record(State(audit): State<Audit>, request: Request, next: Next) -> Response {
    let mut trail = Trail::new(audit, &request);
    let id = trail.id.clone();
    let taken = trail.request.clone();
    let request = request.map(|body| Body::new(Observed::new(body, taken)));
    let span = tracing::info_span!("call", request_id = id);
    let work = tokio::spawn(
        async move {
            let mut answer = next.run(request).await;
            if let Ok(id) = HeaderValue::from_str(&trail.id) {
                answer.headers_mut().insert(REQUEST_ID, id);
            }
            trail.begun(answer.headers());
            answer.map(|body| Body::new(Observed::new(body, trail)))
        }
        .instrument(span),
    );
    work.await.unwrap_or_else(|error| Status::internal(format!("the server failed at this call: {error}")).into_http())
}

/// The first bytes of a message, kept as they pass.
#[derive(Clone, Debug, Default)]
struct Taken(Arc<Mutex<Vec<u8>>>);

impl Taken {
    fn add(&self, bytes: &[u8]) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = (PREFIX_BYTES + MESSAGE_BYTES_MAX).saturating_sub(taken.len());
        taken.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Decodes the first message, if it is complete.
    fn message<T: Default>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(([0, length @ ..], rest)) = taken.split_first_chunk::<PREFIX_BYTES>() else { return T::default() };
        let length = u32::from_be_bytes(*length) as usize;
        rest.get(..length).map(read).unwrap_or_default()
    }
}

/// The facts about a call; dropping it writes the line.
struct Trail {
    audit: Audit,
    call: Option<&'static Call>,
    id: String,
    started: Instant,
    process: Option<(u32, Option<i32>)>,
    request: Taken,
    answer: Taken,
    /// How it ended; the default is for a call without an answer.
    status: Status,
}

impl Trail {
    fn new(audit: Audit, request: &Request) -> Self {
        let peer = request.extensions().get::<UdsConnectInfo>().and_then(|info| info.peer_cred);
        Self {
            call: calls::find(request.uri().path()),
            id: audit.next_id(),
            started: Instant::now(),
            // The kernel reports 0 for a process that is not visible in this PID namespace.
            process: peer.map(|peer| (peer.uid(), peer.pid().filter(|pid| *pid > 0))),
            request: Taken::default(),
            answer: Taken::default(),
            status: Status::internal("the call ended without a status; see the log"),
            audit,
        }
    }

    /// Reads the response head, which carries the status of an error. A unary call without one succeeded.
    fn begun(&mut self, headers: &HeaderMap) {
        let streams = self.call.is_some_and(Call::streams);
        self.status = match Status::from_header_map(headers) {
            Some(status) => status,
            None if streams => Status::cancelled("the caller disconnected before the end"),
            None => Status::new(Code::Ok, ""),
        };
    }

    fn ended(&mut self, trailers: &HeaderMap) {
        if let Some(status) = Status::from_header_map(trailers) {
            self.status = status;
        }
    }

    fn write(&self, call: &Call) {
        let subject = self.request.message(|message| call.subject(message));
        let made = self.answer.message(|message| call.result(message));
        let subject = [subject, made].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        let reason: String = self.status.message().chars().take(REASON_CHARS_MAX).collect();
        self.audit.write(&Entry {
            interface: call.interface().name(),
            caller: Caller { process: self.process, ..Caller::default() },
            call: call.name(),
            subject: if subject.is_empty() { "-" } else { &subject },
            outcome: outcome(self.status.code()),
            code: code_name(self.status.code()),
            reason: &reason,
            took: self.started.elapsed(),
            request_id: &self.id,
        });
    }
}

impl Observer for Taken {
    fn data(&mut self, data: &[u8]) {
        self.add(data);
    }
}

/// Observes the response, whose end is the end of the call.
impl Observer for Trail {
    fn data(&mut self, data: &[u8]) {
        self.answer.add(data);
    }

    fn trailers(&mut self, trailers: &HeaderMap) {
        self.ended(trailers);
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        let (interface, method) =
            self.call.map_or(("unknown", "unknown"), |call| (call.interface().name(), call.name()));
        let code = self.status.code();
        self.audit.counted(interface, method, code_name(code), self.started.elapsed());
        if let Some(call) = self.call
            && (call.changes() || code == Code::PermissionDenied)
        {
            self.write(call);
        }
    }
}

/// The outcome of a change for a gRPC code (gRPC, "Status codes and their use").
fn outcome(code: Code) -> Outcome {
    match code {
        Code::Ok => Outcome::Ok,
        Code::Cancelled | Code::Unknown | Code::DeadlineExceeded | Code::Internal | Code::DataLoss => Outcome::Failed,
        Code::Unavailable => Outcome::Failed,
        _ => Outcome::Refused,
    }
}

/// A code's name in gRPC.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
