//! The trash: files of blobs that lost their last reference, and files that no record ever named.

use std::collections::HashSet;
use std::sync::Arc;

use crate::blob::BlobId;
use crate::core::Core;
use crate::damaged::unless_damaged;
use crate::error::Result;
use crate::meta::{Durability, Pair};
use crate::record::blob::Trash;
use crate::record::decode;
use crate::record::key::{self, tag};

/// Files removed in one step.
const STEP: usize = 256;

/// The content of the trash at one moment: it is removed when earlier readers have ended.
pub(super) struct Load {
    moment: u64,
    /// Its last key.
    last: Vec<u8>,
}

/// Removes the content of the trash, except what earlier readers may need: that stays in `waiting` for the next time.
/// Returns how much was removed.
pub(super) fn empty(core: &Arc<Core>, waiting: &mut Option<Load>) -> Result<u64> {
    let mut removed = 0;
    while let Some(load) = waiting.take().map_or_else(|| take_out(core), |load| Ok(Some(load)))? {
        if !readers_end(core, load.moment) {
            *waiting = Some(load);
            break;
        }
        removed += remove_all(core, &load.last)?;
    }
    Ok(removed)
}

fn take_out(core: &Core) -> Result<Option<Load>> {
    let last = core.meta.snapshot().scan_back(&[tag::TRASH], &key::after_prefix(&[tag::TRASH]), 1)?;
    // The moment is taken after the look: later readers see that these are gone.
    Ok(last.first().map(|pair| Load { moment: core.readers.moment(), last: pair.key.to_vec() }))
}

/// Whether all readers that began before `moment` have ended; waits for them briefly.
fn readers_end(core: &Core, moment: u64) -> bool {
    let patience = 20;
    for _ in 0..patience {
        if core.readers.ended_before(moment) {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    false
}

fn remove_all(core: &Arc<Core>, last: &[u8]) -> Result<u64> {
    // Dropped references are durable before the bytes are removed: a power cut must not bring a reference back.
    core.meta.sync().wait()?;
    let end = [last, &[0]].concat();
    let mut removed = 0;
    loop {
        let pairs = core.meta.snapshot().scan(&[tag::TRASH], &end, STEP)?;
        if pairs.is_empty() {
            return Ok(removed);
        }
        removed += remove(core, pairs)?;
    }
}

fn remove(core: &Arc<Core>, pairs: Vec<Pair>) -> Result<u64> {
    let count = pairs.len() as u64;
    for pair in &pairs {
        // Of a damaged record the file stays, without a record: the next start removes it.
        if let Some(trash) = unless_damaged("a file in the trash", decode::<Trash>("the trash", &pair.value))? {
            remove_file(core, trash.id())?;
        }
    }
    // The record is removed after the file: after a crash in between, removal of the missing file is repeated.
    let done = core.meta.write(Durability::Buffered, move |txn| {
        pairs.into_iter().for_each(|pair| txn.delete(pair.key.to_vec()));
        Ok(())
    });
    done.wait()?;
    Ok(count)
}

/// Removes the files that a crash left without a record. None, if a record of the trash is damaged: the file that it is about
/// must not go before the removal of its blob is on disk.
pub(super) fn remove_unnamed_files(core: &Arc<Core>) -> Result<()> {
    let snapshot = core.meta.snapshot();
    let trashed = crate::scan::all(&*snapshot, &[tag::TRASH])?;
    let trashed: Result<HashSet<BlobId>> =
        trashed.iter().map(|pair| Ok(decode::<Trash>("the trash", &pair.value)?.id())).collect();
    let Some(trashed) = unless_damaged("a file in the trash", trashed)? else { return Ok(()) };
    let mut files = 0_u64;
    for id in core.blobs.file_ids()? {
        let named = snapshot.get(&key::by_id(tag::BLOB, id.0))?.is_some();
        if !named && !trashed.contains(&id) {
            tracing::debug!(blob = %id, "removing a file that no record names");
            remove_file(core, id)?;
            files += 1;
        }
    }
    if files > 0 {
        tracing::info!(files, "removed unreferenced files that an earlier process preallocated or left in a crash");
    }
    Ok(())
}

/// Removes a file. A program may still have it mapped; a later search for its writes must not look for the file.
fn remove_file(core: &Core, id: BlobId) -> Result<()> {
    core.passthrough.forget(id);
    core.blobs.remove_file(id)
}
