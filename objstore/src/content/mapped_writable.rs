//! Files that programs may write through a mapping of a passthrough blob: their writes are counted as changes when
//! someone looks.
//!
//! - Looking first writes the blob's dirty pages back, so that the next store into the mapping changes the blob's time
//!   again. If the time changed since the last look, the content changed.

use std::sync::Arc;

use prost::Message;

use crate::blob::BlobId;
use crate::clock::Timestamp;
use crate::core::Core;
use crate::damaged::unless_damaged;
use crate::error::{Error, Posix, Result};
use crate::meta::{Durability, Txn};
use crate::record::blob::WritableMapping;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::scan::all;
use crate::state::Owner;
use crate::tree::{Tree, Tx};

impl Core {
    /// Counts writes through mappings of these files as changes. Returns whether there were any.
    pub fn count_past(self: &Arc<Self>, bucket: u64, inos: &[u64]) -> Result<bool> {
        if self.passthrough.is_empty() {
            return Ok(false);
        }
        let mut any = false;
        for ino in inos {
            let Some(blob) = self.passthrough.mapped_writable((bucket, *ino)) else { continue };
            // The mapping's writes were not announced, so the blob is marked here.
            self.blobs.mark_dirty(blob);
            match self.blobs.sync_file(blob) {
                // It was removed meanwhile, so no file has this content any more.
                Err(Error::Corrupt { .. }) if self.passthrough.mapped_writable((bucket, *ino)) != Some(blob) => {
                    continue;
                }
                synced => synced?,
            }
            let Some(written) = self.passthrough.written((bucket, *ino))? else { continue };
            any = true;
            match self.dirty.get(bucket, *ino) {
                Some(dirty) if dirty.wrote_past(written.into()) => {}
                _ => self.record_past(bucket, *ino, written.into())?,
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
        inos.extend(self.passthrough.mapped_writable_of(bucket).into_iter().map(|(ino, ..)| ino));
        inos.sort_unstable();
        inos.dedup();
        inos
    }
}

/// Examines files that only mappings hold. For exposed ones that are free, it counts their writes and removes the mark.
pub(crate) fn sweep(core: &Arc<Core>) -> Result<()> {
    for (bucket, ino) in core.passthrough.free_mapped_writable() {
        // Freed before it is counted: nothing is written after that.
        core.count_past(bucket, &[ino])?;
        core.passthrough.remove_free((bucket, ino));
    }
    unmark(core)
}

/// Removes the marks of files that are no longer exposed.
fn unmark(core: &Arc<Core>) -> Result<()> {
    let over: Vec<Owner> = marks(core)?.into_iter().map(|(owner, _)| owner).collect();
    let over: Vec<Owner> = over.into_iter().filter(|owner| !core.passthrough.is_mapped_writable(*owner)).collect();
    if over.is_empty() {
        return Ok(());
    }
    let shared = core.clone();
    let done = core.meta.write(Durability::Buffered, move |txn| {
        // Checked again here, on the thread where exposing is recorded too.
        for (bucket, ino) in over {
            if !shared.passthrough.is_mapped_writable((bucket, ino)) {
                txn.delete(key::mapped_writable(bucket, ino));
            }
        }
        Ok(())
    });
    done.wait()
}

/// Begins with the exposed files that an earlier process left. Where the mark of a file is damaged, its inode tells
/// where it is written.
pub(crate) fn recover(core: &Core) -> Result<()> {
    let mut left = Vec::new();
    for (owner, blob) in marks(core)? {
        let what = format_args!("file {} of bucket {}", owner.1, owner.0);
        let blob = match blob {
            Some(blob) => Some(blob),
            None => unless_damaged(what, in_place_of(core, owner))?.flatten().map(BlobId),
        };
        let Some(blob) = blob else { continue };
        match core.blobs.file(blob) {
            Err(Error::Corrupt { .. }) => {}
            file => left.push((owner, blob, file?)),
        }
    }
    core.passthrough.begin_with(left);
    Ok(())
}

/// Where a file of a bucket is written in place, by its inode.
fn in_place_of(core: &Core, (bucket, ino): Owner) -> Result<Option<u64>> {
    let snapshot = core.meta.snapshot();
    let Some(name) = crate::buckets::name_of(&*snapshot, bucket)? else { return Ok(None) };
    let Some(record) = core.bucket_record(&*snapshot, &name)? else { return Ok(None) };
    let ancestry = core.lines.ancestry(&*snapshot, record.clone_group, record.branch)?;
    Ok(Tree { read: &*snapshot, ancestry: &ancestry }.inode(ino)?.and_then(|(_, inode)| inode.in_place()))
}

/// Records in the store that a file may be written through a mapping.
pub(crate) fn mark_mapped_writable(txn: &mut dyn Txn, (bucket, ino): Owner, blob: BlobId) {
    txn.put(key::mapped_writable(bucket, ino), WritableMapping { blob: blob.0 }.encode_to_vec());
}

/// The files that are marked, each with its blob; without one where the mark is damaged.
fn marks(core: &Core) -> Result<Vec<(Owner, Option<BlobId>)>> {
    let marks = all(&*core.meta.snapshot(), &[tag::MAPPED_WRITABLE])?;
    let marks = marks.iter().map(|mark| {
        let owner = (key::u64_at(&mark.key, 1).unwrap_or(0), key::u64_at(&mark.key, 9).unwrap_or(0));
        let what = format_args!("the mark of file {} of bucket {}, written by passthrough", owner.1, owner.0);
        let mapped_writable = unless_damaged(what, decode::<WritableMapping>("an exposed file", &mark.value))?;
        Ok((owner, mapped_writable.map(|mapped_writable| BlobId(mapped_writable.blob))))
    });
    marks.collect()
}
