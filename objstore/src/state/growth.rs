//! Granted growth of dirty files per bucket: bytes that the records do not count yet.
//!
//! - Invariant: recorded usage + granted unflushed growth ≤ quota. Both rise only on the transaction thread: a file
//!   that outgrows its grant asks there, and gets another step, smaller near the quota. A transaction that needs room
//!   takes back unused grants, so a quota is exact to the byte.
//! - It is in memory only: after a crash the records count the files' sizes, all of which were within the quota.

use std::collections::HashMap;

use parking_lot::Mutex;

/// The growth granted to a file at a time, if there is room.
const STEP_BYTES: u64 = 4 << 20;

/// The ledgers of all buckets.
#[derive(Default)]
pub(crate) struct GrowthLedgers(Mutex<HashMap<u64, GrowthLedger>>);

#[derive(Clone, Copy, Default)]
struct GrowthLedger {
    /// The total growth granted to dirty files; never below `grown`.
    allowed: u64,
    /// Their total growth so far.
    grown: u64,
    /// The growth that snapshots of the store do not count yet: it falls once the record that counts it is visible.
    uncounted: u64,
    /// How often `uncounted` fell.
    falls: u64,
}

impl GrowthLedgers {
    fn with<T>(&self, bucket: u64, change: impl FnOnce(&mut GrowthLedger) -> T) -> T {
        change(self.0.lock().entry(bucket).or_default())
    }

    /// Counts growth that is about to happen, if it is granted.
    pub fn grow(&self, bucket: u64, bytes: u64) -> bool {
        self.with(bucket, |ledger| {
            let fits = ledger.grown.checked_add(bytes).is_some_and(|grown| grown <= ledger.allowed);
            if fits {
                ledger.grown += bytes;
                ledger.uncounted += bytes;
            }
            fits
        })
    }

    /// Takes back growth that did not happen, or whose file is deleted.
    pub fn shrink(&self, bucket: u64, bytes: u64) {
        self.with(bucket, |ledger| {
            ledger.leave(bytes);
            ledger.appear(bytes);
        });
    }

    /// Grants `bytes` more and a step beyond, within `room` beyond the recorded usage. Returns whether there was
    /// enough. Called, as all methods below, on the transaction thread.
    pub fn allow(&self, bucket: u64, room: u64, bytes: u64) -> bool {
        self.with(bucket, |ledger| {
            let wanted = ledger.grown.saturating_add(bytes);
            if wanted > room {
                return false;
            }
            ledger.allowed = room.min(ledger.grown.saturating_add(bytes.max(STEP_BYTES)));
            true
        })
    }

    /// Whether the recorded usage may become `held` of `limit` bytes, of which `ending` belong to dirty files that are
    /// flushed for it.
    pub fn fits(&self, bucket: u64, limit: u64, held: u64, ending: u64) -> bool {
        self.with(bucket, |ledger| {
            let fits = |growth: u64| held.saturating_add(growth).saturating_sub(ending) <= limit;
            if !fits(ledger.allowed) {
                ledger.allowed = ledger.grown;
            }
            fits(ledger.allowed)
        })
    }

    /// Removes unused grants of a bucket whose quota changes.
    pub fn restrict(&self, bucket: u64) {
        self.with(bucket, |ledger| ledger.allowed = ledger.grown);
    }

    /// Moves growth into a record, with the change in progress.
    pub fn leave(&self, bucket: u64, bytes: u64) {
        self.with(bucket, |ledger| ledger.leave(bytes));
    }

    /// Undoes [`GrowthLedgers::leave`], because that change is refused.
    pub fn enter(&self, bucket: u64, bytes: u64) {
        self.with(bucket, |ledger| {
            ledger.grown = ledger.grown.saturating_add(bytes);
            ledger.allowed = ledger.allowed.max(ledger.grown);
        });
    }

    /// Called when that record is visible.
    pub fn appear(&self, bucket: u64, bytes: u64) {
        self.with(bucket, |ledger| ledger.appear(bytes));
    }

    /// Adds the growth that snapshots of the store do not count. `used` reads one; it is called again if growth was
    /// recorded meanwhile.
    pub fn with_growth<T>(&self, bucket: u64, mut used: impl FnMut() -> T) -> (T, u64) {
        let read = || self.0.lock().get(&bucket).copied().unwrap_or_default();
        loop {
            let before = read();
            let used = used();
            let after = read();
            if before.falls == after.falls {
                return (used, after.uncounted);
            }
        }
    }

    /// Removes a deleted bucket.
    pub fn forget(&self, bucket: u64) {
        self.0.lock().remove(&bucket);
    }
}

impl GrowthLedger {
    fn leave(&mut self, bytes: u64) {
        self.grown = self.grown.saturating_sub(bytes);
        self.allowed = self.allowed.saturating_sub(bytes).max(self.grown);
    }

    fn appear(&mut self, bytes: u64) {
        self.uncounted = self.uncounted.saturating_sub(bytes);
        self.falls += u64::from(bytes > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_allowed_in_steps_up_to_the_room_there_is() {
        let ledgers = GrowthLedgers::default();
        assert!(!ledgers.grow(1, 1), "nothing is allowed unasked");
        assert!(ledgers.allow(1, 2 * STEP_BYTES, 1));
        assert!(ledgers.grow(1, STEP_BYTES) && !ledgers.grow(1, 1));
        assert!(ledgers.allow(1, STEP_BYTES + 10, 3));
        assert!(ledgers.grow(1, 10) && !ledgers.grow(1, 1));
        assert!(!ledgers.allow(1, STEP_BYTES + 10, 1));
        assert!(ledgers.allow(1, u64::MAX, u64::MAX / 2) && ledgers.grow(1, u64::MAX / 2));
        assert!(!ledgers.grow(1, u64::MAX));
    }

    #[test]
    fn a_transaction_takes_back_what_is_not_used() {
        let ledgers = GrowthLedgers::default();
        assert!(ledgers.allow(1, 100, 10) && ledgers.grow(1, 10));
        assert!(ledgers.fits(1, 100, 90, 0));
        assert!(!ledgers.grow(1, 1) && !ledgers.fits(1, 100, 91, 0));
        assert!(ledgers.fits(1, 100, 91, 1), "growth of a file that is replaced makes room");
    }

    #[test]
    fn growth_that_a_record_counts_is_shown_once() {
        let ledgers = GrowthLedgers::default();
        assert!(ledgers.allow(1, 100, 10) && ledgers.grow(1, 10));
        ledgers.leave(1, 10);
        assert_eq!(ledgers.with_growth(1, || ()).1, 10, "nobody sees the record yet");
        let mut reads = 0;
        let (_, growth) = ledgers.with_growth(1, || {
            reads += 1;
            if reads == 1 {
                ledgers.appear(1, 10);
            }
        });
        assert_eq!((reads, growth), (2, 0));
    }
}
