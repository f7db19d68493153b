//! Branch-tagged records: what each branch sees, and how branches come and go.
//!
//! - Versions of a record lie side by side, keyed by the branch that wrote them. Branch ids fall, so from a branch's
//!   own version upward the first one written by an ancestor is the one it sees.
//! - A branch writes only its own version: what an ancestor holds never changes.
//! - A branch that first hides what an ancestor holds leaves a mark: the collector looks whether anybody else sees it.
//! - A deletion leaves a tombstone only where an ancestor's version would show through.
//! - Snapshot and clone write a handful of records, whatever the bucket holds.

mod life;
mod line;
mod living;
#[cfg(test)]
mod model;

pub use life::{clone_branch, first_branch, fork_branch, kill_branch, snapshot_branch};
pub use line::{Line, Lines, Seen};
pub use living::Living;
