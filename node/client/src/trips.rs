//! How many calls the mount made, and how many trips to the store they took.

use std::collections::BTreeMap;

use objstore_files::Trips as Count;
use parking_lot::Mutex;

/// The counts of each operation.
#[derive(Default)]
pub(crate) struct Trips(Mutex<BTreeMap<&'static str, (u64, u64)>>);

impl Trips {
    /// The mount made a call.
    pub(crate) fn asked(&self, operation: &'static str) {
        self.0.lock().entry(operation).or_default().0 += 1;
    }

    /// A call is sent to the store.
    pub(crate) fn sent(&self, operation: &'static str) {
        self.0.lock().entry(operation).or_default().1 += 1;
    }

    /// All counts.
    pub(crate) fn counts(&self) -> Vec<Count> {
        let counts = self.0.lock();
        counts.iter().map(|(operation, (calls, trips))| Count { operation, calls: *calls, trips: *trips }).collect()
    }
}
