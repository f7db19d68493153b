//! The scrub: all content that has checksums is read and compared with them, slowly and again and again, behind the
//! clients.
//!
//! - A pass visits every blob, by rising id. A step reads a few MiB at most; between steps the worker rests, so that no
//!   more is read in a second than it was told.
//! - What is damaged is logged, remembered in a record and listed, and stays where it is: reading it answers the damage,
//!   as it did before. It is forgotten when the object is deleted or put anew, or reads well again.
//! - A blob that a client deletes, moves or makes its own meanwhile is looked at again before it is called damaged.
//! - The place in the pass is a record, so a restarted server goes on there. A crash repeats some steps at most.
//!
//! Files that mounts write in place have no checksums: of them it only sees that they are there.

mod damage;
mod pass;
mod worker;

pub(crate) use damage::refuse_damaged;
pub use damage::{Damage, damage};
pub use worker::{Figures, Rate, Worker};
