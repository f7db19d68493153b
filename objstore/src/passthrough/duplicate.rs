//! A copy of a whole blob under a new id.
//!
//! - It shares the space of the original where the disk can do that; otherwise its bytes are copied, without the holes.
//! - It is on disk before anything refers to it. A dropped copy is removed; a crash leaves a file that opening the
//!   store collects.

use std::sync::Arc;

use crate::blob::{BlobId, Blobs};
use crate::disk::{File, data_runs};
use crate::error::Result;
use crate::meta::Txn;
use crate::state::Cleanup;

/// Bytes copied at a time.
const STEP: usize = 1 << 20;

/// A copy that nothing refers to yet.
pub(crate) struct Duplicate {
    id: BlobId,
    cleanup: Cleanup,
}

impl Duplicate {
    /// Copies `source`.
    pub fn of(blobs: &Blobs, source: &dyn File) -> Result<Self> {
        let length = source.len()?;
        let (copy, file) = Self::create(blobs)?;
        if !file.reflink_from(source)? {
            copy_bytes(source, &*file, length)?;
        }
        copy.finish(blobs, &*file, length)
    }

    /// Copies `source` if the disk can share its space, or if it has at most `most` bytes.
    pub fn of_short(blobs: &Blobs, source: &dyn File, most: u64) -> Result<Option<Self>> {
        let length = source.len()?;
        let (copy, file) = Self::create(blobs)?;
        if !file.reflink_from(source)? {
            if length > most {
                return Ok(None);
            }
            copy_bytes(source, &*file, length)?;
        }
        copy.finish(blobs, &*file, length).map(Some)
    }

    fn create(blobs: &Blobs) -> Result<(Self, Arc<dyn File>)> {
        let id = blobs.next_id();
        let file = blobs.create_file(id)?;
        Ok((Self { id, cleanup: Cleanup::new(blobs.clone(), id) }, file))
    }

    fn finish(self, blobs: &Blobs, file: &dyn File, length: u64) -> Result<Self> {
        if file.len()? != length {
            file.set_len(length)?;
        }
        blobs.sync_file(self.id)?;
        Ok(self)
    }

    /// The copy's id, for a reference in this transaction; the copy is kept if the transaction commits.
    pub fn name(self, txn: &mut dyn Txn) -> BlobId {
        self.cleanup.keep_after(txn);
        self.id
    }
}

/// Copies the data, without holes.
fn copy_bytes(source: &dyn File, to: &dyn File, length: u64) -> Result<()> {
    let mut buffer = vec![0; STEP];
    for run in data_runs(source, 0..length)? {
        let mut at = run.start;
        while at < run.end {
            let room = usize::try_from(run.end - at).unwrap_or(STEP).min(STEP);
            let count = source.read_at(&mut buffer[..room], at)?;
            if count == 0 {
                return Ok(());
            }
            to.write_at(&buffer[..count], at)?;
            at += count as u64;
        }
    }
    Ok(())
}
