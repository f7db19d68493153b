//! What the endpoint is told, and what it allows a client.

use std::io;
use std::time::Duration;

use super::Tls;
use crate::address::Domains;
use crate::change::Auditor;
use crate::metrics::Metrics;

/// Settings of the endpoint.
#[derive(Clone, Debug)]
pub struct Config {
    /// The region that signatures have to name.
    pub region: String,
    /// Where figures are counted.
    pub metrics: Metrics,
    /// Receives changes of buckets and their settings, for an audit trail.
    pub auditor: Auditor,
    /// How long requests under way may take to end after a shutdown.
    pub drain: Duration,
    /// Whether new buckets begin with all four settings of their public access block on.
    pub block_public_access: bool,
    /// Whether presigned URLs of Signature Version 2 are taken.
    pub presigned_v2: bool,
    /// The domains below which a host names a bucket.
    pub domains: Domains,
    /// The certificate to serve with; `None`: plain HTTP.
    pub tls: Option<Tls>,
    /// What a client may make the server hold.
    pub limits: Limits,
}

impl Config {
    /// Settings with a drain of 30 seconds, no public access to new buckets, presigned URLs of both versions, plain HTTP, addressing by path and the
    /// default limits.
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
            limits: Limits::default(),
        }
    }
}

/// What a client may make the server hold. Headers and bodies are bounded in size too: `protocol` and `guard`.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once. Over it the longest idle one ends in favour of a new one; where all are busy, the new one
    /// is answered 503 SlowDown, which clients know to wait after.
    pub connections: usize,
    /// Requests under way at once, over all connections: HTTP/2 has several on each. One more is answered 503 SlowDown.
    pub requests: usize,
    /// From a new connection to the end of its TLS handshake.
    pub handshake: Duration,
    /// From a new connection, its handshake done, to the whole head of its first request.
    pub head: Duration,
    /// From the end of an answer to the whole head of the next request. Longer than clients keep idle connections
    /// (a minute or a minute and a half), so that none is closed under a request that is on its way.
    pub idle: Duration,
    /// How long a body may send nothing.
    pub body_stall: Duration,
    /// What all bodies under way may hold together, each counted with the most it may come to: 1 MiB of content, 5 in
    /// signed chunks, up to 37 for a document of 8.
    pub body_memory_bytes: u64,
    /// What all answers under way may hold together, each counted with the most it may come to: 1 MiB of content, a
    /// document whole, and nothing of what is 64 KiB or shorter.
    pub answer_memory_bytes: u64,
    /// How long a body or an answer waits for its share of that; then the request is answered 503 SlowDown.
    pub memory_wait: Duration,
    /// How long nothing of an answer may be taken. A block is 256 KiB, so this is the slowest client: 0.9 KB/s.
    pub answer_stall: Duration,
    /// The same while others wait for the memory of answers. The system takes some MiB of an answer before its client
    /// does, and of those a client of 20 KB/s needs so long for a third, which is when the system takes more.
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
    /// Those of a connection that is only told to come again.
    pub(super) fn turned_away(self) -> Self {
        Self { head: self.head.min(Duration::from_secs(5)), idle: Duration::ZERO, ..self }
    }
}

/// Why the endpoint cannot be, or be any longer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The region is no region.
    #[error("\"{0}\" is no region: use lower-case letters, digits and \"-\", as in us-east-1")]
    Region(String),
    /// The listening socket failed.
    #[error("the S3 socket takes no more connections")]
    Accept(#[source] io::Error),
}
