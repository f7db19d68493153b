//! Writes of programs through mappings of passthrough blobs, counted as changes of their files when someone looks.

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::core::Core;
use crate::error::{Error, Posix, Result};
use crate::meta::Durability;
use crate::passthrough::Owner;
use crate::tree::{Tree, Tx};

impl Core {
    /// Counts writes through mappings of these files as changes. Returns whether there were any.
    pub fn count_past(self: &Arc<Self>, bucket: u64, inos: &[u64]) -> Result<bool> {
        let mut any = false;
        for ino in inos {
            let Some(written) = self.passthrough.written((bucket, *ino))? else { continue };
            any = true;
            match self.dirty.get(bucket, *ino) {
                Some(dirty) if dirty.wrote_past(written) => {}
                _ => self.record_past(bucket, *ino, written)?,
            }
        }
        Ok(any)
    }

    fn record_past(self: &Arc<Self>, bucket: u64, ino: u64, written: Timestamp) -> Result<()> {
        let core = self.clone();
        let counted = self.meta.write(Durability::Buffered, move |txn| {
            let Some(name) = crate::buckets::name_of(&*txn, bucket)? else { return Ok(()) };
            let mut tx = Tx::begin(txn, &core, &name, 0)?;
            tx.wrote_past(ino, written)?;
            tx.finish()
        });
        match counted.wait() {
            // It was unlinked and deleted.
            Err(Error::Posix(Posix::Stale)) => Ok(()),
            counted => counted,
        }
    }

    /// The files of a bucket whose records may be out of date.
    pub fn in_place(&self, bucket: u64) -> Vec<u64> {
        let mut inos = self.dirty.of_bucket(bucket);
        inos.extend(self.passthrough.mapped_writable_of(bucket));
        inos.sort_unstable();
        inos.dedup();
        inos
    }
}

/// Examines files that only mappings hold, and counts the last writes to those that no program can write any more.
pub(crate) fn sweep(core: &Arc<Core>) -> Result<()> {
    core.passthrough.sweep(|(bucket, ino)| core.count_past(bucket, &[ino]).map(drop))
}

/// Begins with the files that an earlier process left mapped for writing.
pub(crate) fn recover(core: &Core) -> Result<()> {
    core.passthrough.recover(|owner| in_place_of(core, owner))
}

/// Where a file of a bucket is written in place, by its inode.
fn in_place_of(core: &Core, (bucket, ino): Owner) -> Result<Option<u64>> {
    let snapshot = core.meta.snapshot();
    let Some(name) = crate::buckets::name_of(&*snapshot, bucket)? else { return Ok(None) };
    let Some(record) = core.bucket_record(&*snapshot, &name)? else { return Ok(None) };
    let ancestry = core.lines.ancestry(&*snapshot, record.clone_group, record.branch)?;
    Ok(Tree { read: &*snapshot, ancestry: &ancestry }.inode(ino)?.and_then(|(_, inode)| inode.in_place()))
}
