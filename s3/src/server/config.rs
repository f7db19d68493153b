//! Configuration of the S3 endpoint, and the limits for its clients.

use std::io;
use std::time::Duration;

use super::Tls;
use crate::address::Domains;
use crate::change::Auditor;
use crate::metrics::Metrics;

/// Configuration of the endpoint.
#[derive(Clone, Debug)]
pub struct Config {
    /// The region that signatures have to name.
    pub region: String,
    /// The metrics to count in.
    pub metrics: Metrics,
    /// Receives changes of buckets and their settings, for an audit trail.
    pub auditor: Auditor,
    /// How long requests in progress may take to end after a shutdown.
    pub drain: Duration,
    /// Whether new buckets have all four settings of their public access block on.
    pub block_public_access: bool,
    /// Whether presigned URLs of Signature Version 2 are accepted.
    pub presigned_v2: bool,
    /// The domains below which a host names a bucket.
    pub domains: Domains,
    /// The certificate for TLS; `None` means plain HTTP.
    pub tls: Option<Tls>,
    /// The domains below which a host names a bucket on the website listener.
    pub website_domains: Domains,
    /// How old a line of a bucket's access log gets before it is delivered.
    pub access_log_delay: Duration,
    /// Limits on what a client can make the server hold.
    pub limits: Limits,
}

impl Config {
    /// A configuration with a drain of 30 seconds, no public access block, presigned URLs of both versions, plain HTTP,
    /// addressing by path and the default limits.
    pub fn new(region: impl Into<String>, metrics: Metrics) -> Self {
        Self {
            region: region.into(),
            metrics,
            auditor: Auditor::default(),
            drain: Duration::from_secs(30),
            block_public_access: true,
            presigned_v2: true,
            domains: Domains::default(),
            tls: None,
            website_domains: Domains::default(),
            access_log_delay: Duration::from_secs(5 * 60),
            limits: Limits::default(),
        }
    }
}

/// Limits on what a client can make the server hold. Headers and bodies are bounded in size too: `protocol` and
/// `guard`.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most connections. Beyond it, the connection that was idle longest is closed for a new one. If all are busy,
    /// the new one is answered 503 SlowDown, after which clients retry.
    pub connections: usize,
    /// The most requests in progress over all connections, since HTTP/2 has several on each. A further one is answered
    /// 503 SlowDown.
    pub requests: usize,
    /// From accepting a connection to the end of its TLS handshake.
    pub handshake: Duration,
    /// From the end of the handshake to the complete head of the first request.
    pub head: Duration,
    /// From the end of a response to the complete head of the next request. It is longer than clients keep idle
    /// connections (60 to 90 seconds), so that no connection is closed while a request is on its way.
    pub idle: Duration,
    /// How long a body may send nothing.
    pub body_stall: Duration,
    /// The memory that all request bodies in progress may hold, each counted at its maximum: 1 MiB for content, 5 for
    /// signed chunks, up to 37 for a document of 8.
    pub body_memory_bytes: u64,
    /// The memory that all responses in progress may hold, each counted at its maximum: 1 MiB for content, a document
    /// in full, and nothing for 64 KiB or less.
    pub answer_memory_bytes: u64,
    /// How long a body or a response waits for its share of memory before the request is answered 503 SlowDown.
    pub memory_wait: Duration,
    /// The longest time without progress in reading a response. A block is 256 KiB, so the slowest accepted client
    /// reads 0.9 KB/s.
    pub answer_stall: Duration,
    /// The longest time without progress while others wait for response memory. The operating system buffers several
    /// MiB of a response; a client of 20 KB/s takes this long for a third of them, which is when the system accepts
    /// more.
    pub wanted_answer_stall: Duration,
    /// From the head of a request to the end of its answer: 5 GiB at 64 KB/s.
    pub request: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            requests: 8192,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            idle: Duration::from_secs(120),
            body_stall: Duration::from_secs(60),
            body_memory_bytes: 512 * 1024 * 1024,
            answer_memory_bytes: 512 * 1024 * 1024,
            memory_wait: Duration::from_secs(10),
            answer_stall: Duration::from_secs(5 * 60),
            wanted_answer_stall: Duration::from_secs(60),
            request: Duration::from_secs(24 * 60 * 60),
        }
    }
}

impl Limits {
    /// Limits for a connection that is only answered 503 SlowDown.
    pub(super) fn turned_away(self) -> Self {
        Self { head: self.head.min(Duration::from_secs(5)), idle: Duration::ZERO, ..self }
    }
}

/// Why the endpoint cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The region is not valid.
    #[error("\"{0}\" is not a valid region: use lower-case letters, digits and \"-\", as in us-east-1")]
    Region(String),
    /// The listening socket failed.
    #[error("the S3 socket cannot accept connections")]
    Accept(#[source] io::Error),
}
