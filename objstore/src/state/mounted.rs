//! The number of sessions that this process has for each bucket and snapshot.
//!
//! Persistent sessions are counted here only while a volume serves them; [`super::PersistentSessions`] has all of them.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Numbers of sessions, by the id of their bucket or snapshot.
#[derive(Default)]
pub(crate) struct Mounted(Mutex<HashMap<u64, usize>>);

impl Mounted {
    /// Whether a session shows the bucket or snapshot with this id.
    pub fn contains(&self, bucket: u64) -> bool {
        self.0.lock().contains_key(&bucket)
    }

    /// How many sessions show the bucket or snapshot with this id.
    pub fn count(&self, bucket: u64) -> usize {
        self.0.lock().get(&bucket).copied().unwrap_or(0)
    }

    /// Counts a new session.
    pub fn add(&self, bucket: u64) {
        *self.0.lock().entry(bucket).or_default() += 1;
    }

    /// Counts out a session that ended or was left to the next server.
    pub fn remove(&self, bucket: u64) {
        let mut counts = self.0.lock();
        if let Some(count) = counts.get_mut(&bucket) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&bucket);
            }
        }
    }
}
