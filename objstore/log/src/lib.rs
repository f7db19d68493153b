//! A fenced log: the batches of one store, numbered without gaps, kept by an engine that outlives the store's machine.
//!
//! | stratum | modules |
//! | --- | --- |
//! | tests of engines | `conformance` |
//! | engines | `postgres`, `s3`, `memory` |
//! | the owner's side | `appender`, `keeper` |
//! | the seam | `log` |
//! | values | `standing`, `batch`, `error`, `owner`, `clock` |
//!
//! - A log has one owner at a time. [`Log::fence`] makes a server the owner and raises the *epoch*; an append, a
//!   renewal or a trim with an earlier epoch changes nothing and answers [`Error::Fenced`].
//! - The owner's lease is measured as the engine says, never by comparing the clocks of servers. It keeps other servers from
//!   taking the log over too early; the epoch alone keeps the log correct.
//! - An acknowledged entry is never lost and never replaced, and every reader sees all entries before it.
//! - An append without an answer is [`Error::Indeterminate`]: its entries may be in the log, or may still arrive. The
//!   owner steps down, and the next one reads the log after it has fenced it.
//!
//! A crash of the owner leaves a log without gaps up to the last acknowledged entry, and perhaps entries after it that
//! were under way. The next owner keeps those that follow without a gap; [`Log::fence`] removes the others.
//!
//! `amphora serve --metadata-url` uses it, through `objstore-kv`.

pub mod appender;
mod batch;
mod clock;
pub mod conformance;
mod error;
pub mod keeper;
mod log;
pub mod memory;
mod owner;
pub mod postgres;
pub mod s3;
mod standing;

pub use batch::{Batch, Entry, Limit, MAX_BATCH_BYTES, MAX_BATCH_ENTRIES, MAX_ENTRY_BYTES, MAX_UNDER_WAY};
pub use clock::since_boot;
pub use error::{Error, Result};
pub use log::{Done, Log};
pub use owner::{Claim, Epoch, LogId, Tail, Tenure};
pub use standing::{Follower, Standing};
