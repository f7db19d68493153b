//! Progress and statistics of the lifecycle worker.

use crate::clock::Timestamp;
use crate::name::BucketName;

/// Statistics and progress of the lifecycle worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LifecycleStats {
    /// Number of complete passes over all buckets.
    pub passes: u64,
    /// Number of keys, versions and uploads examined.
    pub looked_at: u64,
    /// Number of current objects expired: deleted, or hidden by a delete marker.
    pub current: u64,
    /// Number of noncurrent versions removed.
    pub noncurrent: u64,
    /// Number of delete markers removed that were a key's only version.
    pub markers: u64,
    /// Number of uploads aborted.
    pub uploads: u64,
    /// Number of buckets or passes abandoned because of an error; the next pass retries them.
    pub errors: u64,
    /// The end of the last complete pass, possibly by an earlier process.
    pub completed: Option<Timestamp>,
    /// The current bucket.
    pub progress: Option<Progress>,
}

/// The progress in a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The bucket.
    pub bucket: BucketName,
    /// Its keys, versions and uploads examined in this pass by this process.
    pub looked_at: u64,
}
