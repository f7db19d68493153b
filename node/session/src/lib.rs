//! The protocol of sessions between a node and a store, as state machines without I/O: it keeps its promises across
//! lost connections, restarts and partitions.
//!
//! - [`slot`]: a change is done exactly once, and a change that was not yet synced when the store lost power is done
//!   again by the node that made it.
//! - [`lease`]: a node stops serving from its caches before the store stops waiting for it. No clock of one machine is
//!   compared with a clock of another.
//! - [`change`]: a change reaches the caches of all other nodes, in the order of the commits, before it is answered.
//! - [`exclusive`]: the only user of a volume answers changes itself, until the store recalls that right.
//! - [`lock`]: byte-range and whole-file locks across sessions.
//! - [`sessions`]: the store's table of sessions, with the grace time after a restart.
//!
//! The clock is an argument ([`Moment`]); there is no randomness. `simulated/` runs all of them over a network that
//! loses, delays, repeats and reorders frames, and checks these promises. Decisions 0090 and 0091 have the rules and
//! what was rejected.

pub mod change;
pub mod exclusive;
pub mod id;
pub mod lease;
pub mod lock;
pub mod moment;
pub mod sessions;
#[cfg(test)]
mod simulated;
pub mod slot;
pub mod terms;

pub use id::{Boot, CallId, Digest, Incarnation, Position, SessionId};
pub use moment::Moment;
pub use terms::Terms;
