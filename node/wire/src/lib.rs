//! The wire between a node and a store: frames over TCP and TLS 1.3, and the admission of peers.
//!
//! - A frame is a fixed header, an opaque head (the bytes of a prost message) and raw payload. This crate reads no head
//!   but those of the handshake.
//! - Every length is compared with a bound before memory is taken, and memory is taken from a budget of the connection
//!   and of the whole listener. A peer that is slower than its deadlines loses its connection.
//! - A call ends in one of three ways: answered, not sent, or of unknown outcome. Calls of unknown outcome are resent
//!   by the slots of a session (`node-session`), not here.
//! - A crash of either side loses connections and nothing else: no state here outlives one.
//!
//! Decision 0089 has the layout, the figures and what was rejected.

pub mod backoff;
pub mod budget;
pub mod client;
pub mod credential;
pub mod frame;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzed;
mod handshake;
pub mod header;
pub mod hello;
mod io;
mod outbox;
mod output;
pub mod refusal;
pub mod server;
pub mod service;
#[cfg(test)]
mod tests;
pub mod tls;
pub mod traffic;
pub mod version;

use std::sync::Arc;

/// A source of random bytes, given as an argument: it fills the slice.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;
