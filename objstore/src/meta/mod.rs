//! The ordered key-value store every record lives in: serial write transactions, consistent snapshots, group commit.
//!
//! - Keys sort as bytes. A key has 1 to 65,535 bytes; those that begin with the byte 0x00 belong to the engine.
//! - Write transactions run one after another, on the engine's own thread or on that of a caller who waits
//!   ([`Meta::transact`], [`Meta::write_awaited`]). Each sees all earlier ones, and applies wholly or not at all; one
//!   that fails or panics undoes nothing but itself.
//! - Readers take a [`Snapshot`] and read on their own threads; they never wait for the writer.
//! - How long a write waits is an argument: [`Durability`].
//! - After a failed commit or sync the engine refuses every write with [`Error::Poisoned`](crate::error::Error);
//!   reads go on.
//!
//! A crash leaves a prefix of the committed batches: after a process death all of them, after a power cut at least
//! every one up to the last sync. No batch is ever seen in part.

mod backend;
mod batch;
mod engine;
mod epochs;
pub mod fjall_engine;
mod handle;
pub mod memory;
mod overlay;
mod queue;
mod stats;
mod syncs;
mod turn;
mod txn;
mod writer;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod failing;
#[cfg(test)]
pub(crate) mod faulty;
#[cfg(test)]
pub(crate) mod in_turns;

pub use engine::{Done, Durability, Engine, Operation};
pub use handle::Meta;
pub use stats::Stats;
pub use txn::{Action, Mark, Pair, Read, Snapshot, Txn, Value};
