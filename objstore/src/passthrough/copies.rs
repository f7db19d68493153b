//! Copies of passthrough-open blobs, for all other records that refer to their content.
//!
//! - A caller that knows that it needs a copy makes it before its transaction. Between the two, the source can change
//!   only after it stops referring to the blob: then the copy is discarded.
//! - A transaction that needs one without having known makes it itself, up to a size: all other commits wait for it.

use std::sync::Arc;

use super::Passthrough;
use super::duplicate::Duplicate;
use crate::blob::BlobId;
use crate::disk::File;
use crate::error::Result;

/// The most bytes copied within a transaction, where the disk cannot share space between files.
const COPIED_WITHIN_MAX: u64 = 16 << 20;

/// Copies of blobs that programs have open by passthrough, for a transaction that refers to an inode's content. Drop it
/// after the transaction.
pub(crate) struct Prepared {
    passthrough: Arc<Passthrough>,
    blobs: Vec<u64>,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        for blob in &self.blobs {
            self.passthrough.unprepare(*blob);
        }
    }
}

/// A copy of the blob of a file that is open by passthrough, for the other views of the file.
pub(crate) struct DetachedCopy {
    /// The inode that keeps the blob.
    pub ino: u64,
    /// The blob.
    pub blob: BlobId,
    /// The copy.
    pub copy: Duplicate,
}

impl Passthrough {
    /// Copies those of `blobs` that are open by passthrough, so that the next transaction can refer to their content.
    /// `blobs` is not called while no file is open.
    pub fn prepare(self: &Arc<Self>, blobs: impl FnOnce() -> Result<Vec<u64>>) -> Result<Prepared> {
        let mut prepared = Prepared { passthrough: self.clone(), blobs: Vec::new() };
        if self.is_empty() {
            return Ok(prepared);
        }
        for blob in self.passthrough_of(blobs()?.into_iter()) {
            let file = self.storage.blobs.file(BlobId(blob))?;
            self.provide(blob, Duplicate::of(&self.storage.blobs, &*file)?);
            prepared.blobs.push(blob);
        }
        Ok(prepared)
    }

    /// A copy of the blob of a file that is about to change in place, and the open blob.
    pub fn copy_of(&self, ino: u64, blob: BlobId) -> Result<(Arc<dyn File>, DetachedCopy)> {
        let file = self.storage.blobs.file(blob)?;
        let copy = Duplicate::of(&self.storage.blobs, &*file)?;
        Ok((file, DetachedCopy { ino, blob, copy }))
    }

    /// A copy of a blob that a program has open, made within the transaction that refers to it. `None` if the blob is
    /// too large for that, or in a bucket: the sync of a copy there is a transaction of its own.
    pub fn copy_within(&self, blob: u64) -> Result<Option<Duplicate>> {
        if self.storage.blobs.is_remote() {
            return Ok(None);
        }
        let file = self.storage.blobs.file(BlobId(blob))?;
        Duplicate::of_short(&self.storage.blobs, &*file, COPIED_WITHIN_MAX)
    }

    /// Copies of all blobs of a bucket that programs may write through a mapping, for an operation that is about to
    /// share the bucket's content. The caller has locked the bucket's gate.
    pub fn copies_of_bucket(&self, bucket: u64) -> Result<Vec<DetachedCopy>> {
        let exposed = self.exposed_of(bucket).into_iter().map(|(ino, blob, file)| {
            let copy = Duplicate::of(&self.storage.blobs, &*file)?;
            Ok(DetachedCopy { ino, blob, copy })
        });
        exposed.collect()
    }
}
