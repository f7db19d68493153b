//! Copies made before a transaction that refers to content by reference.
//!
//! - Between the copy and the transaction, the source can change only after it stops referring to the blob: then the
//!   copy is discarded.

use std::sync::Arc;

use super::durable::blobs_of;
use crate::blob::BlobId;
use crate::core::Core;
use crate::error::Result;
use crate::record::inode::Inode;
use crate::state::Duplicate;
use crate::tree::Tree;

/// Copies of blobs that programs have open by passthrough, for a transaction that refers to an inode's content. Drop it
/// after the transaction.
pub(crate) struct Prepared {
    core: Arc<Core>,
    blobs: Vec<u64>,
}

impl Prepared {
    /// Copies for the content of an inode.
    pub fn of(core: &Arc<Core>, tree: Tree<'_>, ino: u64, inode: &Inode) -> Result<Self> {
        let mut prepared = Self { core: core.clone(), blobs: Vec::new() };
        if core.passthrough.is_empty() {
            return Ok(prepared);
        }
        for blob in core.passthrough.passthrough_of(blobs_of(tree, ino, inode)?.into_iter()) {
            let file = core.blobs.file(BlobId(blob))?;
            core.passthrough.prepare(blob, Duplicate::of(&core.blobs, &*file, file.len()?)?);
            prepared.blobs.push(blob);
        }
        Ok(prepared)
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        for blob in &self.blobs {
            self.core.passthrough.unprepare(*blob);
        }
    }
}
