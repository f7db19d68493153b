//! Blobs whose checksums were verified in full, so that a kernel may read them by passthrough.
//!
//! - One thread verifies them one by one while any are queued. Until then they are read through the server, which
//!   verifies what it reads.
//! - A verification is valid for a day; then the blob is verified again before its next passthrough open.
//! - A damaged blob is never opened by passthrough: reading it answers an error.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Passthrough;
use crate::blob_records::{blob_record, verified_blob};
use crate::clock::Timestamp;
use crate::error::{Error, Noun, Result};

/// Bytes verified at a time.
const STEP: u64 = 4 << 20;
/// How long a verification is valid, in nanoseconds.
const VALID: i64 = 24 * 60 * 60 * 1_000_000_000;
/// The most waiting blobs; further ones are requested again at their next open.
const WAITING: usize = 1024;
/// The most results kept.
const KEPT: usize = 64 << 10;

/// The results of verifications, and the queue of blobs to verify.
#[derive(Default)]
pub(super) struct VerifiedBlobs(Mutex<Table>);

#[derive(Default)]
struct Table {
    outcomes: HashMap<u64, Outcome>,
    waiting: VecDeque<u64>,
    running: bool,
}

#[derive(Clone, Copy)]
enum Outcome {
    Waiting,
    Sound(Timestamp),
    Damaged,
}

impl VerifiedBlobs {
    /// Whether a blob is known to match its checksums; if that is unknown, a verification is started.
    /// `start` starts the thread that compares; not if none can be started.
    fn is_valid(&self, now: Timestamp, blob: u64, start: impl FnOnce() -> bool) -> bool {
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
    pub(super) fn is_idle(&self) -> bool {
        !self.0.lock().running
    }

    /// The next blob to compare; the thread ends if there is none.
    fn next(&self) -> Option<u64> {
        let mut table = self.0.lock();
        let next = table.waiting.pop_front();
        table.running = next.is_some();
        next
    }

    /// Notes what was found of a blob, if anything.
    fn note(&self, blob: u64, outcome: Option<Outcome>) {
        let mut table = self.0.lock();
        match outcome {
            Some(outcome) => table.outcomes.insert(blob, outcome),
            None => table.outcomes.remove(&blob),
        };
    }
}

impl Table {
    /// A dropped result is found again by another verification; damage is never dropped.
    fn forget_some(&mut self) {
        if self.outcomes.len() >= KEPT {
            self.outcomes.retain(|_, outcome| !matches!(outcome, Outcome::Sound(_)));
        }
    }
}

impl Passthrough {
    /// Whether a blob is known to match its checksums; if that is unknown, it is verified in the background.
    pub fn is_verified(self: &Arc<Self>, blob: u64) -> bool {
        self.verified.is_valid(self.storage.clock.now(), blob, || start(self))
    }

    /// Compares all of a blob. One that is gone, or that a mount made its own, has nothing to compare.
    fn compare(&self, id: u64) -> Result<()> {
        let mut at = 0;
        loop {
            let _reading = self.readers.begin();
            let snapshot = self.storage.meta.snapshot();
            let gone = |_| Error::not_found(Noun::Key, format!("blob {id:016x}"));
            let record = blob_record(&*snapshot, id).map_err(gone)?;
            if !record.sums || at >= record.length {
                return Ok(());
            }
            let length = STEP.min(record.length - at);
            verified_blob(&self.storage.blobs, &*snapshot, id, &record, at, length)?;
            at += length;
        }
    }
}

fn start(passthrough: &Arc<Passthrough>) -> bool {
    let passthrough = Arc::downgrade(passthrough);
    let started = std::thread::Builder::new().name("amphora-verify".into()).spawn(move || run(&passthrough));
    if let Err(error) = &started {
        tracing::warn!(%error, "cannot start the thread that verifies content; mounts read what S3 wrote through the server, without passthrough");
    }
    started.is_ok()
}

fn run(passthrough: &Weak<Passthrough>) {
    while let Some(passthrough) = passthrough.upgrade() {
        let Some(blob) = passthrough.verified.next() else { return };
        let outcome = match passthrough.compare(blob) {
            Ok(()) => Some(Outcome::Sound(passthrough.storage.clock.now())),
            Err(error @ Error::Corrupt { .. }) => {
                tracing::error!(%error, "content does not match its checksum; reads of it answer EIO");
                Some(Outcome::Damaged)
            }
            Err(error) => {
                tracing::debug!(%error, "cannot verify content; its reads go through the server");
                None
            }
        };
        passthrough.verified.note(blob, outcome);
    }
}
