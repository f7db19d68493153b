//! Blobs whose checksums were verified in full, so that a kernel may read them by passthrough.
//!
//! - One thread verifies them one by one while any are queued. Until then they are read through the server, which
//!   verifies what it reads.
//! - A verification is valid for a day; then the blob is verified again before its next passthrough open.
//! - A damaged blob is never opened by passthrough: reading it answers an error.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::plan::verified_blob;
use super::refs::blob as blob_record;
use crate::clock::Timestamp;
use crate::core::Core;
use crate::error::{Error, Result};

/// How long a verification is valid, in nanoseconds.
const VALID: i64 = 24 * 60 * 60 * 1_000_000_000;
/// Bytes verified at a time.
const STEP: u64 = 4 << 20;
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
enum Outcome {
    Waiting,
    Sound(Timestamp),
    Damaged,
}

impl VerifiedBlobs {
    /// Whether a blob is known to be sound; if that is not known, it is found out.
    pub fn is_sound(core: &Arc<Core>, blob: u64) -> bool {
        let now = core.clock.now();
        let mut table = core.verified.0.lock();
        match table.outcomes.get(&blob) {
            Some(Outcome::Sound(at)) if (0..VALID).contains(&now.0.saturating_sub(at.0)) => return true,
            Some(Outcome::Waiting | Outcome::Damaged) => return false,
            Some(Outcome::Sound(_)) | None => {}
        }
        if table.waiting.len() < WAITING {
            table.forget_some();
            table.outcomes.insert(blob, Outcome::Waiting);
            table.waiting.push_back(blob);
            if !std::mem::replace(&mut table.running, true) && !start(core) {
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

    fn next(&self) -> Option<u64> {
        let mut table = self.0.lock();
        let next = table.waiting.pop_front();
        table.running = next.is_some();
        next
    }

    fn note(&self, blob: u64, outcome: Option<Outcome>) {
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

fn start(core: &Arc<Core>) -> bool {
    let core = Arc::downgrade(core);
    let started = std::thread::Builder::new().name("amphora-verify".into()).spawn(move || run(&core));
    if let Err(error) = &started {
        tracing::warn!(%error, "cannot start the thread that verifies content; mounts read what S3 wrote through the server, without passthrough");
    }
    started.is_ok()
}

fn run(core: &Weak<Core>) {
    while let Some(core) = core.upgrade() {
        let Some(blob) = core.verified.next() else { return };
        let outcome = match compare(&core, blob) {
            Ok(()) => Some(Outcome::Sound(core.clock.now())),
            Err(error @ Error::Corrupt { .. }) => {
                tracing::error!(%error, "content does not match its checksum; reads of it answer EIO");
                Some(Outcome::Damaged)
            }
            Err(error) => {
                tracing::debug!(%error, "content was not compared");
                None
            }
        };
        core.verified.note(blob, outcome);
    }
}

/// Compares all of a blob. One that is gone, or that a mount made its own, has nothing to compare.
fn compare(core: &Core, id: u64) -> Result<()> {
    let mut at = 0;
    loop {
        let _reading = core.readers.begin();
        let snapshot = core.meta.snapshot();
        let gone = |_| Error::not_found(crate::error::Noun::Key, format!("blob {id:016x}"));
        let record = blob_record(&*snapshot, id).map_err(gone)?;
        if !record.sums || at >= record.length {
            return Ok(());
        }
        let length = STEP.min(record.length - at);
        verified_blob(&core.blobs, &*snapshot, id, &record, at, length)?;
        at += length;
    }
}
