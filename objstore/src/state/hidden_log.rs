//! Rate limits of the log lines about hidden keys: when each bucket had its last line.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;

use crate::clock::Timestamp;

/// The interval of log lines about one bucket's directories that are not removed, in nanoseconds.
const REFUSED_EVERY: i64 = 60_000_000_000;

/// Which hidden keys were logged, by bucket.
#[derive(Debug, Default)]
pub(crate) struct HiddenLog {
    first: Mutex<HashSet<u64>>,
    refused: Mutex<HashMap<u64, Timestamp>>,
}

impl HiddenLog {
    /// Whether to log the first hidden key of a bucket: once while the store is open.
    pub fn is_first(&self, bucket: u64) -> bool {
        self.first.lock().insert(bucket)
    }

    /// Whether to log a directory of a bucket that is not removed: once a minute.
    pub fn is_due(&self, bucket: u64, now: Timestamp) -> bool {
        let mut refused = self.refused.lock();
        let due = refused.get(&bucket).is_none_or(|last| now.0.saturating_sub(last.0) >= REFUSED_EVERY);
        if due {
            refused.insert(bucket, now);
        }
        due
    }

    /// Removes the entry of a deleted bucket.
    pub fn forget(&self, bucket: u64) {
        self.first.lock().remove(&bucket);
        self.refused.lock().remove(&bucket);
    }
}
