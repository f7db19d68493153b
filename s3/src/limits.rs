//! The limits for clients of the endpoint: connections, requests, times, and the memory of bodies.

use std::time::Duration;

/// Limits on what a client can make the server hold. Headers and bodies are bounded in size too: `server::protocol`,
/// `guard` and `body`.
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
    pub(crate) fn turned_away(self) -> Self {
        Self { head: self.head.min(Duration::from_secs(5)), idle: Duration::ZERO, ..self }
    }
}
