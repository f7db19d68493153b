//! The lifecycle worker: expires what is due by the buckets' rules, in small steps in the background (S3 User Guide,
//! "Managing the lifecycle of objects").
//!
//! - A pass visits each bucket with enabled rules: its current objects, then its noncurrent versions and delete
//!   markers, then its uploads; only below the prefixes of the rules. Snapshots are never touched.
//! - A step examines at most [`LOOKED_MAX`] items in one snapshot and changes at most [`CHANGES_MAX`] in one
//!   transaction. Between steps the worker rests several times as long as the step took.
//! - What a snapshot showed to be due is decided again inside the transaction, by the current rules: an object that was
//!   overwritten, tagged, locked or excluded meanwhile stays.
//! - An expiration is carried out like a client's deletion; quota, mounts and open files see no difference.
//! - The position in the pass is a record, written with the changes, so a restarted server continues there. A crash
//!   leaves whole transactions, and possibly a position some steps back; examining items again changes nothing.
//!
//! Where the rules are ambiguous, they are read as follows. An object's age counts from its creation or last change,
//! not from a time that a mount set, and a delete marker's from its creation. `NewerNoncurrentVersions` counts versions
//! with content that no rule removes. A directory made by `mkdir` is not an object and never expires; one that S3 put
//! as `name/` does. Filters by tag or size never match delete markers.

mod apply;
mod stats;
mod step;
mod versions;
mod walk;
mod worker;

pub use crate::expiry::{Day, Expiration};
pub use stats::{LifecycleStats, Progress};
pub use worker::Worker;

/// Items examined in one step.
pub(crate) const LOOKED_MAX: usize = 512;
/// Objects and versions changed in one transaction.
pub(crate) const CHANGES_MAX: usize = 64;
/// Uploads aborted in one transaction: each may have 10,000 parts.
pub(crate) const UPLOADS_MAX: usize = 4;

#[cfg(test)]
pub(crate) use step::Pass;
