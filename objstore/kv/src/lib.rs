//! The ordered key-value store of all records: serial write transactions, consistent snapshots, group commit.
//!
//! - Keys sort as bytes. A key has 1 to 65,535 bytes; keys that begin with the byte 0x00 belong to the engine.
//! - Write transactions run one after another, on the engine's own thread or on that of a caller that waits
//!   ([`Meta::transact`], [`Meta::write_awaited`]). Each sees all earlier ones and applies completely or not at all;
//!   one that fails or panics undoes only itself.
//! - Readers take a [`Snapshot`] and read on their own threads; they never wait for the writer.
//! - [`Durability`] is an argument of each write.
//! - After a failed commit or sync the engine refuses every write with [`Error::Poisoned`](objstore_base::error::Error); reads
//!   continue.
//!
//! A crash leaves a prefix of the committed batches: after a process death all of them, after a power cut at least
//! every one up to the last sync. No batch is ever visible in part.

mod backend;
mod batch;
mod engine;
mod epochs;
pub mod faulty;
pub mod fjall_engine;
mod handle;
mod leader;
pub mod leader_engine;
pub mod memory;
mod overlay;
mod queue;
mod shared;
mod shipped;
mod stats;
mod syncs;
mod txn;
pub mod vault;
mod writer;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod failing;

pub use engine::{Done, Durability, Engine, Operation};
pub use handle::Meta;
pub use objstore_log as log;
pub use stats::{LogStats, Stats};
pub use txn::{Action, Mark, Pair, Read, Snapshot, Txn, Value};
