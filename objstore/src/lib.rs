//! The storage core: records, directory tree, content, branches, buckets, volumes and grants. It knows nothing of HTTP,
//! gRPC or FUSE.
//!
//! From the ground up: [`disk`] → [`meta`] and [`blob`] → [`record`] → `branch` → `tree` and [`content`] → [`store`] and
//! [`volume`], with `gc` and [`check`] behind them.

pub mod backup;
mod branch;
mod buckets;
pub mod check;
pub mod content;
mod core;
mod damaged;
mod feed;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzed;
mod gc;
mod grant;
pub mod lifecycle;
pub mod name;
mod owed;
mod pins;
pub mod scrub;
mod shrink;
pub mod store;
#[cfg(test)]
mod tests;
mod tree;
pub mod units;
pub mod volume;

pub use objstore_base::{clock, error, latency, ticket};
pub use objstore_blob as blob;
pub use objstore_disk as disk;
pub use objstore_kv as meta;
pub use objstore_record as record;

pub use error::{Error, Noun, Posix, Result};
pub use store::{Options, Store};
pub use ticket::Ticket;
