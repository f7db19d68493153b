//! The report of a check, and its progress.

use crate::error::Result;

/// Problems listed; more are only counted. The same goes for what is quarantined, and for what was mended.
const LISTED_MAX: usize = 1000;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, a line each.
    pub problems: Vec<String>,
    /// Problems past the ones listed.
    pub unlisted: u64,
    /// Content that is damaged and was quarantined, with who has it, a line each.
    pub quarantined: Vec<String>,
    /// What a repair did, a line each.
    pub repaired: Vec<String>,
    /// Repairs past the ones listed.
    pub unlisted_repairs: u64,
    /// Accounts.
    pub accounts: u64,
    /// Buckets.
    pub buckets: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Sessions of mounts that outlived the last server.
    pub sessions: u64,
    /// Files that mounts were writing when the last server died: the next opening settles them.
    pub live_files: u64,
    /// Inodes, in all branches.
    pub inodes: u64,
    /// Multipart uploads under way.
    pub uploads: u64,
    /// Blobs.
    pub blobs: u64,
    /// Bytes of content that have checksums.
    pub content_bytes: u64,
    /// Bytes of content whose checksums were verified.
    pub verified_bytes: u64,
    /// Files that no record names: a crash left them, and the next opening removes them.
    pub unnamed_files: u64,
    /// Blobs that nothing refers to, kept for records that were moved aside.
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

    /// Takes a value, or reports why there is none.
    pub(super) fn take<T>(&mut self, value: Result<T>) -> Option<T> {
        value.map_err(|error| self.problem(crate::error::with_source(&error))).ok()
    }

    /// Whether nothing is wrong, but for what is quarantined.
    pub fn clean(&self) -> bool {
        self.problems.is_empty()
    }
}

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it looks at.
    pub phase: Phase,
    /// How much of that is done: trees, or bytes.
    pub done: u64,
    /// Of how much; zero: not known.
    pub total: u64,
}

/// What a check looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Buckets and snapshots, one after the other.
    Trees,
    /// All other records.
    Records,
    /// The bytes of blobs.
    Content,
    /// What was found is being mended.
    Repair,
}
