//! Undelivered cache invalidations that are recorded, in the order of commits (see `undelivered.rs`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::feed::Unacknowledged;

/// The most records removed by a change that adds one: their number falls while there are changes.
const REMOVED_MAX: usize = 64;
/// The most unacknowledged records of all buckets.
const RECORDS_MAX: usize = 1 << 20;

/// The recorded changes and who has to acknowledge them, in commit order.
#[derive(Default)]
pub(crate) struct UndeliveredLog {
    last: AtomicU64,
    open: Mutex<VecDeque<Entry>>,
}

struct Entry {
    key: Vec<u8>,
    debts: Vec<Unacknowledged>,
}

impl UndeliveredLog {
    /// Notes a record, and what has to be acknowledged before it goes.
    pub fn add(&self, key: Vec<u8>, debts: Vec<Unacknowledged>) {
        let mut open = self.open.lock();
        open.push_back(Entry { key, debts });
        if open.len() > RECORDS_MAX {
            open.front().into_iter().flat_map(|oldest| &oldest.debts).for_each(Unacknowledged::give_up);
        }
    }

    /// Removes some of the oldest acknowledged records from the ledger.
    pub fn take_paid(&self) -> Vec<Vec<u8>> {
        let mut open = self.open.lock();
        let paid =
            open.iter().take(REMOVED_MAX).take_while(|entry| entry.debts.iter().all(Unacknowledged::is_paid)).count();
        open.drain(..paid).map(|entry| entry.key).collect()
    }

    /// The number of the next record.
    pub fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A record with this number is there: the next ones follow it.
    pub fn go_on_after(&self, number: u64) {
        self.last.fetch_max(number, Ordering::Relaxed);
    }
}
