//! Blobs whose checksums were verified in full, so that a kernel may read them by passthrough.
//!
//! - One thread verifies them one by one while any are queued. Until then they are read through the server, which
//!   verifies what it reads.
//! - A verification is valid for a day; then the blob is verified again before its next passthrough open.
//! - A damaged blob is never opened by passthrough: reading it answers an error.

use std::sync::{Arc, Weak};

use super::plan::verified_blob;
use super::refs::blob as blob_record;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::state::Outcome;

/// Bytes verified at a time.
const STEP: u64 = 4 << 20;

/// Whether a blob is known to match its checksums; if that is not known, it is found out.
pub(crate) fn is_valid(core: &Arc<Core>, blob: u64) -> bool {
    core.verified.is_valid(core.clock.now(), blob, || start(core))
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
