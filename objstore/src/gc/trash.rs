//! The trash: files of blobs whose last reference went, and files no record ever named.

use std::collections::HashSet;
use std::sync::Arc;

use crate::blob::BlobId;
use crate::core::Core;
use crate::error::Result;
use crate::meta::{Durability, Pair};
use crate::record::blob::Trash;
use crate::record::decode;
use crate::record::key::{self, tag};

/// Files removed in one step.
const STEP: usize = 256;

/// Removes what is in the trash, unless a reader that began before now may need it. How much was removed.
pub(super) fn empty(core: &Arc<Core>) -> Result<u64> {
    let mut removed = 0;
    loop {
        let pairs = core.meta.snapshot().scan(&[tag::TRASH], &key::after_prefix(&[tag::TRASH]), STEP)?;
        if pairs.is_empty() || !readers_end(core) {
            return Ok(removed);
        }
        removed += remove(core, pairs)?;
    }
}

/// Whether all readers that began before now have ended; they get a moment to.
fn readers_end(core: &Core) -> bool {
    let moment = core.readers.moment();
    let patience = 20;
    for _ in 0..patience {
        if core.readers.ended_before(moment) {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    false
}

fn remove(core: &Arc<Core>, pairs: Vec<Pair>) -> Result<u64> {
    let count = pairs.len() as u64;
    for pair in &pairs {
        core.blobs.remove_file(decode::<Trash>("the trash", &pair.value)?.id())?;
    }
    // The record goes after the file: a crash between the two removes a file again that is gone.
    let done = core.meta.write(Durability::Buffered, move |txn| {
        pairs.into_iter().for_each(|pair| txn.delete(pair.key.to_vec()));
        Ok(())
    });
    done.wait()?;
    Ok(count)
}

/// Removes the files that a crash left without a record.
pub(super) fn remove_unnamed_files(core: &Arc<Core>) -> Result<()> {
    let snapshot = core.meta.snapshot();
    let trashed = crate::store::all(&*snapshot, &[tag::TRASH])?;
    let trashed: Result<HashSet<BlobId>> =
        trashed.iter().map(|pair| Ok(decode::<Trash>("the trash", &pair.value)?.id())).collect();
    let trashed = trashed?;
    for id in core.blobs.file_ids()? {
        let named = snapshot.get(&key::by_id(tag::BLOB, id.0))?.is_some();
        if !named && !trashed.contains(&id) {
            tracing::info!(blob = %id, "removing a file that no record names: a crash left it");
            core.blobs.remove_file(id)?;
        }
    }
    Ok(())
}
