//! Blobs that stay with the file that programs have open by passthrough, and become its in-place blob.
//!
//! - Every other view of the inode gets a copy: see [`View::keep`].
//! - Readers that began before continue with the copy (`readers`).

use super::Tx;
use crate::blob::BlobId;
use crate::error::{Error, Posix, Result};
use crate::passthrough::{DetachedCopy, View, is_content};
use crate::record::inode::{BlobContent, Content, Inode};
use crate::record::key;

impl Tx<'_> {
    /// Makes the blob of a file its in-place blob on this branch, and gives the copy to every other view of the inode.
    /// Returns the inode, and the copy's id if it was needed.
    ///
    /// # Errors
    /// [`Error::Busy`] if the inode's content is no longer the blob.
    pub fn keep_blob(&mut self, detached: DetachedCopy) -> Result<(Inode, Option<BlobId>)> {
        let DetachedCopy { ino, blob, copy } = detached;
        let (branch, mut inode) = self.tree().dirty_inode(ino)?;
        if !is_content(&inode, blob) {
            return Err(Error::Busy { what: "a file that was replaced while it was open".into() });
        }
        let (clone_group, has_own) = (self.ancestry.clone_group, branch == self.branch());
        let copy = View { clone_group, ino, branch: self.branch(), has_own }.keep(self.txn, blob, copy)?;
        if !has_own {
            self.txn.put(key::overridden(&key::inode(clone_group, ino)), vec![1]);
        }
        inode.content = Some(Content::Blob(BlobContent { id: blob.0, in_place: true }));
        self.save(ino, &inode);
        Ok((inode, copy))
    }

    /// Gives the copies to all branches except the live branch of this change.
    pub fn keep_blobs(&mut self, all: Vec<DetachedCopy>) -> Result<()> {
        for detached in all {
            let blob = detached.blob;
            match self.attempt(|tx| tx.keep_blob(detached).map(|(_, copy)| copy)) {
                Ok(Some(copy)) => {
                    let core = self.core.clone();
                    self.txn.after_commit(Box::new(move || core.readers.redirect(blob, copy)));
                }
                // It was unlinked, or has other content now.
                Ok(None) | Err(Error::Busy { .. } | Error::Posix(Posix::Stale)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
