//! Which blobs were compared with their checksums whole, and which wait for it (see `content/verified.rs`).

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use crate::clock::Timestamp;

/// How long a verification is valid, in nanoseconds.
const VALID: i64 = 24 * 60 * 60 * 1_000_000_000;
/// The most waiting blobs; further ones are requested again at their next open.
const WAITING: usize = 1024;
/// The most results kept.
const KEPT: usize = 64 << 10;

/// What is known of blobs with checksums.
#[derive(Default)]
pub(crate) struct VerifiedBlobs(Mutex<Table>);

#[derive(Default)]
struct Table {
    outcomes: HashMap<u64, Outcome>,
    waiting: VecDeque<u64>,
    running: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Outcome {
    Waiting,
    Sound(Timestamp),
    Damaged,
}

impl VerifiedBlobs {
    /// Whether a blob is known to be sound; if that is not known, it is found out.
    /// `start` starts the thread that compares; not if none can be started.
    pub fn is_valid(&self, now: Timestamp, blob: u64, start: impl FnOnce() -> bool) -> bool {
        let mut table = self.0.lock();
        match table.outcomes.get(&blob) {
            Some(Outcome::Sound(at)) if (0..VALID).contains(&now.0.saturating_sub(at.0)) => return true,
            Some(Outcome::Waiting | Outcome::Damaged) => return false,
            Some(Outcome::Sound(_)) | None => {}
        }
        if table.waiting.len() < WAITING {
            table.forget_some();
            table.outcomes.insert(blob, Outcome::Waiting);
            table.waiting.push_back(blob);
            if !std::mem::replace(&mut table.running, true) && !start() {
                table.running = false;
                table.waiting.clear();
                table.outcomes.remove(&blob);
            }
        }
        false
    }

    /// Whether no blob is being compared.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        !self.0.lock().running
    }

    /// The next blob to compare; the thread ends if there is none.
    pub fn next(&self) -> Option<u64> {
        let mut table = self.0.lock();
        let next = table.waiting.pop_front();
        table.running = next.is_some();
        next
    }

    /// Notes what was found of a blob, if anything.
    pub fn note(&self, blob: u64, outcome: Option<Outcome>) {
        let mut table = self.0.lock();
        match outcome {
            Some(outcome) => table.outcomes.insert(blob, outcome),
            None => table.outcomes.remove(&blob),
        };
    }
}

impl Table {
    /// What is forgotten is found out again; damage is not forgotten.
    fn forget_some(&mut self) {
        if self.outcomes.len() >= KEPT {
            self.outcomes.retain(|_, outcome| !matches!(outcome, Outcome::Sound(_)));
        }
    }
}
