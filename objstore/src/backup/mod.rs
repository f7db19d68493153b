//! Backups of buckets: created from a snapshot while the store runs, kept in a repository, and restored.
//!
//! - A backup is a *manifest*: it lists all records of the bucket as its snapshot shows them, and where the bytes of
//!   its blobs lie. Both are cut into chunks, each a file named by the SHA-256 of its content; equal chunks of several
//!   backups are stored once.
//! - The snapshot of the last backup stays in the store. While it exists, none of its blobs has changed, so the next
//!   backup reads and writes only what was added since. Without it, everything is read.
//! - A manifest is written last, when all it names is on disk. An interrupted backup leaves chunks that the next one
//!   uses or `prune` removes.
//! - A restore fills a branch without a name, and names it in its last transaction. An interrupted one leaves a mark by
//!   which the next opening of the store collects it.
//! - A restore preserves inode numbers, versions, entity tags and times. Missing accounts are created without keys,
//!   since a backup holds no secret. Uploads in progress, and files without a name, are not included.

mod blobs;
mod chunks;
mod create;
mod fill;
mod folder;
mod format;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzed;
#[cfg(test)]
mod hostile;
mod moment;
mod records;
mod restore;
mod settings;
mod upkeep;
mod validate;

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::error::Result;

pub use create::create;
pub use folder::Folder;
pub(crate) use restore::abandon_all;
pub use restore::restore;
pub use upkeep::{Pruned, list, newest, prune, verify};

/// A backup of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The backup id, unique among backups of its bucket.
    pub id: String,
    /// The bucket.
    pub bucket: String,
    /// The moment whose content it has.
    pub created: Timestamp,
    /// Number of files and objects.
    pub objects: u64,
    /// The sum of their sizes.
    pub bytes: u64,
    /// Bytes written to the folder for it.
    pub sent_bytes: u64,
    /// Content that was damaged in the store when the backup was made, and is missing from it.
    pub damaged: Vec<String>,
}

/// The progress of a backup, a restore or a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The bucket.
    pub bucket: String,
    /// Bytes of content processed.
    pub done_bytes: u64,
    /// Bytes in all; zero while unknown.
    pub total_bytes: u64,
    /// Bytes written to the folder, or to the store.
    pub sent_bytes: u64,
}

/// Receives the progress; returning an error ends the work.
pub type ProgressSink = Arc<dyn Fn(Progress) -> Result<()> + Send + Sync>;
