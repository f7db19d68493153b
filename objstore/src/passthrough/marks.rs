//! Files that programs may write through a mapping of a passthrough blob (*exposed* files), and their marks in the store.
//!
//! - The mark is a record, since the mapping may also outlive this process. It stays until the writes were counted as a
//!   change, or until the file's blob is removed: no other reader sees writes to a removed blob.
//! - A look for writes first writes the blob's dirty pages back, so that the next write through the mapping changes the
//!   blob's time again. If the time changed since the last look, the content changed.

use std::sync::Arc;

use prost::Message;

use super::{Owner, Passthrough};
use crate::blob::BlobId;
use crate::clock::Timestamp;
use crate::damaged::unless_damaged;
use crate::error::{Error, Result};
use crate::meta::{Durability, Txn};
use crate::record::blob::WritableMapping;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::scan::all;

/// Records in the store that a file may be written through a mapping.
pub(crate) fn mark_mapped_writable(txn: &mut dyn Txn, (bucket, ino): Owner, blob: BlobId) {
    txn.put(key::mapped_writable(bucket, ino), WritableMapping { blob: blob.0 }.encode_to_vec());
}

impl Passthrough {
    /// The time of writes through mappings of a file that were not reported before. They are synced here.
    pub fn written(&self, owner: Owner) -> Result<Option<Timestamp>> {
        let Some(blob) = self.mapped_writable(owner) else { return Ok(None) };
        // The mapping's writes were not announced, so the blob is marked here.
        self.storage.blobs.mark_dirty(blob);
        match self.storage.blobs.sync_file(blob) {
            // It was removed meanwhile, so no file has this content any more.
            Err(Error::Corrupt { .. }) if self.mapped_writable(owner) != Some(blob) => return Ok(None),
            synced => synced?,
        }
        Ok(self.changed(owner)?.map(Timestamp::from))
    }

    /// Examines files that only mappings hold. For exposed ones that are free, `count` counts their writes, and then
    /// their marks are removed.
    pub fn sweep(self: &Arc<Self>, count: impl Fn(Owner) -> Result<()>) -> Result<()> {
        for owner in self.free_mapped_writable() {
            // Freed before it is counted: nothing is written after that.
            count(owner)?;
            self.remove_free(owner);
        }
        self.unmark()
    }

    /// Removes the marks of files that are no longer exposed.
    fn unmark(self: &Arc<Self>) -> Result<()> {
        let over: Vec<Owner> = self.marks()?.into_iter().map(|(owner, _)| owner).collect();
        let over: Vec<Owner> = over.into_iter().filter(|owner| !self.is_mapped_writable(*owner)).collect();
        if over.is_empty() {
            return Ok(());
        }
        let shared = self.clone();
        let done = self.storage.meta.write(Durability::Buffered, move |txn| {
            // Checked again here, on the thread where exposing is recorded too.
            for (bucket, ino) in over {
                if !shared.is_mapped_writable((bucket, ino)) {
                    txn.delete(key::mapped_writable(bucket, ino));
                }
            }
            Ok(())
        });
        done.wait()
    }

    /// Begins with the exposed files that an earlier process left. Where the mark of a file is damaged, `in_place_of`
    /// finds by its inode where it is written.
    pub fn recover(&self, in_place_of: impl Fn(Owner) -> Result<Option<u64>>) -> Result<()> {
        let mut left = Vec::new();
        for (owner, blob) in self.marks()? {
            let what = format_args!("file {} of bucket {}", owner.1, owner.0);
            let blob = match blob {
                Some(blob) => Some(blob),
                None => unless_damaged(what, in_place_of(owner))?.flatten().map(BlobId),
            };
            let Some(blob) = blob else { continue };
            match self.storage.blobs.file(blob) {
                Err(Error::Corrupt { .. }) => {}
                file => left.push((owner, blob, file?)),
            }
        }
        self.begin_with(left);
        Ok(())
    }

    /// The files that are marked, each with its blob; without one where the mark is damaged.
    fn marks(&self) -> Result<Vec<(Owner, Option<BlobId>)>> {
        let marks = all(&*self.storage.meta.snapshot(), &[tag::MAPPED_WRITABLE])?;
        let marks = marks.iter().map(|mark| {
            let owner = (key::u64_at(&mark.key, 1).unwrap_or(0), key::u64_at(&mark.key, 9).unwrap_or(0));
            let what = format_args!("the mark of file {} of bucket {}, written by passthrough", owner.1, owner.0);
            let mapping = unless_damaged(what, decode::<WritableMapping>("an exposed file", &mark.value))?;
            Ok((owner, mapping.map(|mapping| BlobId(mapping.blob))))
        });
        marks.collect()
    }
}
