//! The scrub: reads all content that has checksums and verifies it, slowly and repeatedly, in the background.
//!
//! - A pass visits every blob in the order of ids. A step reads a few MiB at most; between steps the worker rests, to
//!   stay below the configured read limit per second.
//! - Damage is logged, recorded and listed, and the content stays: reading it answers an error, as before. The record
//!   is removed when the object is deleted or uploaded again, or reads well again.
//! - A blob that a client deletes, moves or changes in place meanwhile is examined again before it is reported as
//!   damaged.
//! - The position in the pass is a record, so a restarted server continues there. A crash repeats at most some steps.
//!
//! Files that mounts write in place have no checksums: the scrub only verifies that they exist.

mod damage;
mod pass;
mod worker;

pub use damage::{Damage, damage};
pub use worker::{Rate, ScrubStats, Worker};
