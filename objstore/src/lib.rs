//! The storage core: records, directory tree, content, branches, buckets, volumes and grants. It knows nothing of HTTP,
//! gRPC or FUSE.
//!
//! The strata, each using only those above it in this list; `tests/tests/tidy/strata.rs` holds that there is no cycle:
//! 1. [`error`], [`clock`], [`name`], [`units`]; [`disk`] → [`meta`] and [`blob`] → [`record`] → `branch`;
//! 2. `remote`, content in a bucket; `storage`, the storage below a whole store: metadata, blobs, disk, clock, random bytes; `blob_records`, the
//!    references to each blob, and its checksums;
//! 3. `buckets`, `settings`, `feed` (cache invalidations), `inode_refs` (inode references) and `state` (tables in memory of
//!    what is in use) → `passthrough` (blobs that kernels have open); `core` holds them together with the storage: what
//!    operations on trees and content are given;
//! 4. `undelivered` (undelivered invalidations) → `tree` (names and inodes) → [`content`] (bytes) → `expiry` (what is due);
//! 5. [`store`], the handle for S3 and administration → [`volume`], the handle for mounts;
//! 6. [`check`], [`scrub`], [`lifecycle`] → [`backup`] → `gc`;
//! 7. `open`, which alone picks an engine and starts background work; `standby`, a store until this server owns its log → [`migrate`].

pub mod backup;
mod blob_records;
mod branch;
mod buckets;
pub mod check;
pub mod content;
mod core;
mod damaged;
mod expiry;
mod feed;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzed;
mod gc;
mod grant;
mod header;
mod inode_refs;
pub mod lifecycle;
pub mod migrate;
mod moved;
pub mod name;
mod open;
mod passthrough;
mod remote;
mod scan;
pub mod scrub;
mod session_id;
mod settings;
mod shrink;
mod standby;
mod state;
mod storage;
pub mod store;
#[cfg(test)]
mod tests;
mod tree;
mod undelivered;
pub mod units;
pub mod volume;

pub use objstore_base::{accept, certificate, clock, error, latency, ticket};
pub use objstore_blob as blob;
pub use objstore_bucket as bucket;
pub use objstore_disk as disk;
pub use objstore_kv as meta;
pub use objstore_record as record;

pub use error::{Error, Noun, Posix, Result};
pub use open::open;
pub use remote::{BucketVault, ContentBucket};
pub use standby::{Ownership, Standby};
pub use store::{Options, Store};
pub use ticket::Ticket;
