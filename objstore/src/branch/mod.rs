//! Branch-tagged records: what each branch sees, and how branches are created and deleted.
//!
//! - Versions of a record lie side by side, keyed by the branch that wrote them. Branch ids fall, so a branch sees the
//!   first version, from its own upward, that an ancestor or itself wrote.
//! - A branch writes only its own version: an ancestor's versions never change.
//! - A branch that first overrides an ancestor's version leaves a mark, and the collector checks whether another branch
//!   still sees that version.
//! - A deletion leaves a tombstone only where an ancestor's version would otherwise be visible.
//! - A snapshot or clone writes a handful of records, however large the bucket.

mod ancestry;
mod life;
mod live_branches;
#[cfg(test)]
mod model;

pub use ancestry::{Ancestries, Ancestry, Seen};
pub use life::{clone_branch, first_branch, fork_branch, kill_branch, snapshot_branch};
pub use live_branches::LiveBranches;
