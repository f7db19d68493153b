//! Giving a file a home: a blob of its own that its branch may change in place.
//!
//! - Callers hold the bucket's gate shared and the inode's lock alone, so nothing else changes its content meanwhile.
//! - A crash between making the home and committing it leaves a file nobody refers to, which opening the store
//!   collects. So does a commit that failed, if it is not on disk: if it is, the home is the file's only copy.

use std::sync::Arc;

use super::session::Volume;
use crate::blob::BlobId;
use crate::content::{Plan, add_home, blob_record, drop_sums, forget_sums, release};
use crate::disk::File;
use crate::error::{Error, Result};
use crate::meta::Durability;
use crate::record::blob::Blob;
use crate::record::inode::{BlobContent, Content, Extent, ExtentContent, Inode};
use crate::tree::Tree;

/// Up to so many bytes are copied to a new home; more stay where they are, in extents, if the disk cannot share them.
const COPY_MAX: u64 = 1 << 20;

/// A file's home, and how the rest of its content lies.
pub(super) struct Home {
    pub id: BlobId,
    pub file: Arc<dyn File>,
    /// Whether all bytes lie in the home, at their own offset.
    pub whole: bool,
}

impl Volume {
    /// The home of a file, made if it has none.
    pub(super) fn home(&self, ino: u64) -> Result<(Inode, Home)> {
        let (snapshot, line) = self.0.now()?;
        let tree = Tree { read: &*snapshot, line: &line };
        let (branch, inode) = tree.live_inode(ino)?;
        let owned = branch == line.branch();
        match &inode.content {
            Some(Content::Blob(BlobContent { id, home: true })) if owned => {
                Ok((inode.clone(), self.existing(*id, true)?))
            }
            Some(Content::Extents(ExtentContent { home: Some(id) })) if owned => {
                Ok((inode.clone(), self.existing(*id, false)?))
            }
            Some(Content::Blob(content)) => {
                let record = blob_record(&*snapshot, content.id)?;
                if owned && record.refs == 1 && record.packed.is_none() {
                    return self.claim(ino, *content, record);
                }
                self.settle_in(ino, tree, &inode, Some((BlobId(content.id), record)))
            }
            _ => self.settle_in(ino, tree, &inode, None),
        }
    }

    fn existing(&self, id: u64, whole: bool) -> Result<Home> {
        let id = BlobId(id);
        Ok(Home { id, file: self.0.core.blobs.file(id)?, whole })
    }

    /// Makes a blob that only this inode refers to its home. Its checksums go, on disk, before its bytes may change: a
    /// power cut must not leave new bytes under old checksums.
    fn claim(&self, ino: u64, content: BlobContent, record: Blob) -> Result<(Inode, Home)> {
        let inode = self.change_with(Durability::Synced, move |tx| {
            let mut inode = tx.own(ino)?;
            // A version made meanwhile may have taken a reference.
            if blob_record(&*tx.txn, content.id)?.refs != 1 {
                return Err(Error::Busy { what: "a file that was replaced while it was open".into() });
            }
            drop_sums(tx.txn, content.id, &record);
            forget_sums(tx.txn, content.id, &record);
            inode.content = Some(Content::Blob(BlobContent { home: true, ..content }));
            tx.save(ino, &inode);
            Ok(inode)
        })?;
        Ok((inode, self.existing(content.id, true)?))
    }

    /// Makes a new home, with the content in it if that is cheap.
    fn settle_in(
        &self,
        ino: u64,
        tree: Tree<'_>,
        inode: &Inode,
        blob: Option<(BlobId, Blob)>,
    ) -> Result<(Inode, Home)> {
        let core = &self.0.core;
        let id = core.blobs.next_id();
        let file = core.blobs.create_file(id)?;
        let whole = self.fill(&file, ino, tree, inode, blob);
        let committed = whole.and_then(|whole| {
            core.blobs.mark_dirty(id);
            // Content on disk must not depend on a copy that is not.
            if whole && core.recent_syncs.promised(self.0.bucket, ino, inode, core.clock.now()) {
                core.blobs.sync_file(id)?;
            }
            Ok((self.move_in(ino, id, whole)?, whole))
        });
        match committed {
            Ok((inode, whole)) => Ok((inode, Home { id, file, whole })),
            Err(error @ Error::Indeterminate { .. }) => Err(error),
            Err(error) => {
                if let Err(kept) = core.blobs.remove_file(id) {
                    tracing::warn!(blob = %id, error = %kept, "a new home stays until the store is opened again");
                }
                Err(error)
            }
        }
    }

    /// Brings the content to a new home; whether it did.
    fn fill(
        &self,
        file: &Arc<dyn File>,
        ino: u64,
        tree: Tree<'_>,
        inode: &Inode,
        blob: Option<(BlobId, Blob)>,
    ) -> Result<bool> {
        let core = &self.0.core;
        if inode.size <= COPY_MAX || inode.content.is_none() || matches!(inode.content, Some(Content::Inline(_))) {
            let held = inode.size.min(COPY_MAX);
            if inode.content.is_some() {
                let plan = Plan::of(tree, ino, inode, 0, held)?;
                file.write_at(&plan.read(&core.blobs, &core.meta, tree.read)?, 0)?;
            }
            return Ok(true);
        }
        if let Some((id, record)) = blob.filter(|(_, record)| record.packed.is_none()) {
            let source = core.blobs.file(id)?;
            if (record.length == 0 || record.length >= inode.size) && file.reflink_from(&*source)? {
                file.set_len(inode.size)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Commits the new home: with all content in it, or with extents that say where the content stays.
    fn move_in(&self, ino: u64, id: BlobId, whole: bool) -> Result<Inode> {
        self.change(move |tx| {
            let mut inode = tx.own(ino)?;
            add_home(tx.txn, id);
            let size = inode.size;
            if whole {
                tx.replace_content(ino, &mut inode, None, size)?;
                inode.content = Some(Content::Blob(BlobContent { id: id.0, home: true }));
            } else {
                if let Some(Content::Blob(content)) = inode.content {
                    tx.add_extent(ino, 0, Extent { blob: content.id, blob_offset: 0, length: size })?;
                    release(tx.txn, content.id)?;
                }
                inode.content = Some(Content::Extents(ExtentContent { home: Some(id.0) }));
            }
            tx.save(ino, &inode);
            Ok(inode)
        })
    }
}
