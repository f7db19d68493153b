//! The report of a check, and its progress.

use crate::error::Result;

/// The most problems listed; further ones are only counted. The same limit applies to quarantined content and to
/// repairs.
const LISTED_MAX: usize = 1000;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Problems, one line each.
    pub problems: Vec<String>,
    /// Number of problems beyond the listed ones.
    pub unlisted: u64,
    /// Quarantined content with its owners, one line each.
    pub quarantined: Vec<String>,
    /// Repairs, one line each.
    pub repaired: Vec<String>,
    /// Number of repairs beyond the listed ones.
    pub unlisted_repairs: u64,
    /// Number of accounts.
    pub accounts: u64,
    /// Number of buckets.
    pub buckets: u64,
    /// Number of snapshots.
    pub snapshots: u64,
    /// Number of persistent mount sessions.
    pub sessions: u64,
    /// Number of dirty files left by the last server: the next opening flushes them.
    pub dirty_files: u64,
    /// Number of inodes in all branches.
    pub inodes: u64,
    /// Number of multipart uploads in progress.
    pub uploads: u64,
    /// Number of blobs.
    pub blobs: u64,
    /// Bytes of content with checksums.
    pub content_bytes: u64,
    /// Bytes of content whose checksums were verified.
    pub verified_bytes: u64,
    /// Number of files that no record names: a crash left them, and the next opening removes them.
    pub unnamed_files: u64,
    /// Number of unreferenced blobs, kept because quarantined records may refer to them.
    pub kept_blobs: u64,
}

impl Report {
    pub(super) fn problem(&mut self, problem: impl Into<String>) {
        if self.problems.len() < LISTED_MAX {
            self.problems.push(problem.into());
        } else {
            self.unlisted += 1;
        }
    }

    pub(super) fn quarantined(&mut self, line: String) {
        if self.quarantined.len() < LISTED_MAX {
            self.quarantined.push(line);
        }
    }

    pub(super) fn repaired(&mut self, line: String) {
        if self.repaired.len() < LISTED_MAX {
            self.repaired.push(line);
        } else {
            self.unlisted_repairs += 1;
        }
    }

    /// Returns a value, or reports why there is none.
    pub(super) fn take<T>(&mut self, value: Result<T>) -> Option<T> {
        value.map_err(|error| self.problem(crate::error::with_source(&error))).ok()
    }

    /// Whether there are no problems apart from quarantined content.
    pub fn clean(&self) -> bool {
        self.problems.is_empty()
    }
}

/// The progress of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current phase.
    pub phase: Phase,
    /// The completed amount: trees, or bytes.
    pub done: u64,
    /// The total amount; zero if unknown.
    pub total: u64,
}

/// The phases of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Fetching the metadata of a store without a data folder: entries of its log.
    Replay,
    /// Objects in the bucket of the content.
    Objects,
    /// Buckets and snapshots, one after the other.
    Trees,
    /// All other records.
    Records,
    /// The bytes of blobs.
    Content,
    /// Repairing what was found.
    Repair,
}
