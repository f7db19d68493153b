//! Progress and statistics of the lifecycle worker.

use crate::clock::Timestamp;
use crate::name::BucketName;

/// What the worker did since it was started, and what it does now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Whole passes over all buckets.
    pub passes: u64,
    /// Keys, versions and uploads looked at.
    pub looked_at: u64,
    /// Current objects expired: deleted, or hidden by a delete marker.
    pub current: u64,
    /// Noncurrent versions removed.
    pub noncurrent: u64,
    /// Delete markers removed that were a key's only version.
    pub markers: u64,
    /// Uploads aborted.
    pub uploads: u64,
    /// Buckets or passes given up for an error; they are tried again in the next pass.
    pub errors: u64,
    /// When the last whole pass ended, also by a former process.
    pub completed: Option<Timestamp>,
    /// The bucket under way.
    pub progress: Option<Progress>,
}

/// How far the worker is in a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The bucket.
    pub bucket: BucketName,
    /// Keys, versions and uploads of it looked at in this pass by this process.
    pub looked_at: u64,
}
