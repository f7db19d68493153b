//! Lifecycle rules put into effect: what is due expires, in small steps behind the clients (S3 User Guide, "Managing
//! the lifecycle of objects").
//!
//! - A pass visits each bucket that has enabled rules: its current objects, then its noncurrent versions and delete
//!   markers, then its uploads; only below the prefixes that rules name. Snapshots are never touched.
//! - A step looks at no more than [`LOOKED_MAX`] things in one snapshot and changes no more than [`CHANGES_MAX`] in one
//!   transaction. Between steps the worker rests, several times as long as the step took.
//! - Whatever a snapshot showed to be due is decided again inside the transaction, by the rules as they are then: an
//!   object that was overwritten, tagged, locked or taken out of a rule meanwhile stays.
//! - What expires goes the way of a deletion by a client: quota, mounts and open files see no difference.
//! - The place in the pass is a record, written with the changes, so a restarted server goes on there. A crash leaves
//!   whole transactions, and perhaps a place some steps back; looking at the same things again changes nothing.
//!
//! Where the rules leave room, they are read so: the age of an object counts from its making or its last change,
//! whatever time a mount set, and that of a delete marker from its making. `NewerNoncurrentVersions` counts versions with
//! content that no rule removes. A directory that `mkdir` made is no object and never expires; one that was put through S3
//! as `name/` does. Filters by tag or size never match delete markers.

mod apply;
mod day;
pub(crate) mod expiration;
mod figures;
mod rules;
mod step;
mod versions;
mod walk;
mod worker;

pub use day::Day;
pub use expiration::Expiration;
pub use figures::{Figures, Progress};
pub use worker::Worker;

/// Things looked at in one step.
pub(crate) const LOOKED_MAX: usize = 512;
/// Objects and versions changed in one transaction.
pub(crate) const CHANGES_MAX: usize = 64;
/// Uploads aborted in one transaction: each may have 10,000 parts.
pub(crate) const UPLOADS_MAX: usize = 4;

#[cfg(test)]
pub(crate) use step::Pass;
