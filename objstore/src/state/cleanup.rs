//! Removal of a content file that no record names.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::blob::{BlobId, Blobs};
use crate::meta::Txn;

/// Removes the file of a blob that no record names.
pub(crate) struct Cleanup {
    blobs: Blobs,
    id: BlobId,
    named: AtomicBool,
}

impl Cleanup {
    pub fn new(blobs: Blobs, id: BlobId) -> Self {
        Self { blobs, id, named: AtomicBool::new(false) }
    }

    /// Keeps the file once the transaction that names it is committed. If the transaction is refused, the file is
    /// removed; if its commit fails, the store is poisoned and refuses to remove it.
    pub fn keep_after(self, txn: &mut dyn Txn) {
        txn.after_commit(Box::new(move || self.named.store(true, Ordering::Relaxed)));
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        if self.named.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.blobs.remove_file(self.id) {
            tracing::warn!(%error, "an unreferenced content file could not be removed; the next start removes it");
        }
    }
}
