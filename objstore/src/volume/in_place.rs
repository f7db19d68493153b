//! Giving a file an in-place blob: a separate blob that its branch may change in place.
//!
//! - Callers hold the bucket's gate shared and the inode's lock exclusively, so nothing else changes its content
//!   meanwhile.
//! - A crash between creating the blob and committing it leaves an unreferenced file, which opening the store collects.
//!   So does a failed commit that is not on disk; if it is on disk, the blob is the file's only copy.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::session::Volume;
use super::write::{overtaken, wrote};
use crate::blob::BlobId;
use crate::content::{Plan, add_in_place, blob_record, bring_to_disk, drop_sums, forget_sums, refuse_damaged, release};
use crate::core::Core;
use crate::disk::{File, data_runs};
use crate::error::{Error, Result};
use crate::meta::{Durability, Txn};
use crate::record::blob::Blob;
use crate::record::inode::{BlobContent, Content, Extent, ExtentContent, Inode};
use crate::state::{DirtyFile, ReadGuard};
use crate::tree::{Tree, Tx};

/// A file with more runs of data than this is treated as one without holes.
const RUNS_MAX: usize = 1024;

/// A file's in-place blob, and the layout of the rest of its content.
pub(super) struct InPlaceBlob {
    pub id: BlobId,
    pub file: Arc<dyn File>,
    /// Whether all bytes lie in the in-place blob, at their own offsets.
    pub whole: bool,
}

/// The blob to write to.
pub(super) enum Found {
    /// The existing in-place blob.
    Home(InPlaceBlob),
    /// A new one that is not committed yet.
    Fresh(Fresh),
}

/// A new in-place blob with all of a file's content, not yet in a record. Dropping it removes it, except after a failed
/// commit, which may have named it.
pub(super) struct Fresh {
    core: Arc<Core>,
    id: BlobId,
    file: Arc<dyn File>,
    named: AtomicBool,
}

impl Fresh {
    fn create(core: &Arc<Core>) -> Result<Self> {
        let (id, file) = core.blobs.new_in_place()?;
        Ok(Self { core: core.clone(), id, file, named: AtomicBool::new(false) })
    }

    pub fn file(&self) -> Arc<dyn File> {
        self.file.clone()
    }

    /// Keeps the blob once the transaction that names it is committed.
    fn keep_after(self, txn: &mut dyn Txn) {
        txn.after_commit(Box::new(move || self.named.store(true, Ordering::Relaxed)));
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if self.named.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.core.blobs.remove_file(self.id) {
            tracing::warn!(blob = %self.id, %error, "an unused in-place blob could not be removed; the next start removes it");
        }
    }
}

impl Volume {
    /// The in-place blob of a file, created if it has none.
    pub(super) fn in_place(&self, ino: u64) -> Result<(Inode, InPlaceBlob)> {
        match self.find_in_place(ino)? {
            Found::Home(in_place) => Ok((self.look(ino)?, in_place)),
            Found::Fresh(fresh) => self.settle_in(ino, &self.look(ino)?, fresh, 0),
        }
    }

    /// Commits a new in-place blob of a file whose content does not change. Space is reserved in it up to `reserved`,
    /// and counted.
    pub(super) fn settle_in(
        &self,
        ino: u64,
        before: &Inode,
        fresh: Fresh,
        reserved: u64,
    ) -> Result<(Inode, InPlaceBlob)> {
        let in_place = InPlaceBlob { id: fresh.id, file: fresh.file(), whole: true };
        self.make_good(ino, before, in_place.id)?;
        let inode = self.change(move |tx| {
            let mut inode = tx.own(ino)?;
            give_in_place(tx, ino, &mut inode, fresh.id)?;
            tx.reserve_settled(&mut inode, reserved);
            inode.take(fresh.file.blocks()?);
            tx.save(ino, &inode);
            fresh.keep_after(tx.txn);
            Ok(inode)
        })?;
        Ok((inode, in_place))
    }

    /// The in-place blob of a file; a new one is committed at once if it does not hold all of the content.
    pub(super) fn find_in_place(&self, ino: u64) -> Result<Found> {
        let reading = self.0.core.readers.begin();
        let (snapshot, ancestry) = self.0.now()?;
        let tree = Tree { read: &*snapshot, ancestry: &ancestry };
        let (branch, inode) = tree.dirty_inode(ino)?;
        let owned = branch == ancestry.branch();
        match &inode.content {
            Some(Content::Blob(BlobContent { id, in_place: true })) if owned => {
                self.existing(*id, true).map(Found::Home)
            }
            Some(Content::Extents(ExtentContent { in_place: Some(id) })) if owned => {
                self.existing(*id, false).map(Found::Home)
            }
            Some(Content::Blob(content)) => {
                let record = blob_record(&*snapshot, content.id)?;
                if owned && record.refs == 1 && record.packed.is_none() {
                    return self.claim(ino, *content, record).map(Found::Home);
                }
                if self.keeps(ino, content.id) {
                    return self.keep_blob(ino, BlobId(content.id)).map(|(_, in_place)| Found::Home(in_place));
                }
                self.make_in_place(ino, tree, &inode, Some((BlobId(content.id), record)), &reading)
            }
            _ => self.make_in_place(ino, tree, &inode, None, &reading),
        }
    }

    fn existing(&self, id: u64, whole: bool) -> Result<InPlaceBlob> {
        let id = BlobId(id);
        Ok(InPlaceBlob { id, file: self.0.core.blobs.file(id)?, whole })
    }

    /// Turns a blob that only this inode refers to into its in-place blob. Its checksums are removed durably before its
    /// bytes change: a power cut must not leave new bytes under old checksums.
    fn claim(&self, ino: u64, content: BlobContent, record: Blob) -> Result<InPlaceBlob> {
        self.change_with(Durability::Synced, move |tx| {
            let mut inode = tx.own(ino)?;
            // A version created meanwhile may have added a reference.
            let same = matches!(&inode.content, Some(Content::Blob(now)) if now.id == content.id);
            if !same || blob_record(&*tx.txn, content.id)?.refs != 1 {
                return Err(Error::Busy { what: "a file that was replaced while it was open".into() });
            }
            refuse_damaged(&*tx.txn, content.id)?;
            drop_sums(tx.txn, content.id, &record);
            forget_sums(tx.txn, content.id, &record);
            inode.content = Some(Content::Blob(BlobContent { in_place: true, ..content }));
            tx.save(ino, &inode);
            Ok(())
        })?;
        self.existing(content.id, true)
    }

    /// Creates a new in-place blob, with the content in it if that is cheap.
    fn make_in_place(
        &self,
        ino: u64,
        tree: Tree<'_>,
        inode: &Inode,
        blob: Option<(BlobId, Blob)>,
        reading: &ReadGuard,
    ) -> Result<Found> {
        let fresh = Fresh::create(&self.0.core)?;
        if self.fill(&fresh.file, ino, tree, inode, blob, reading)? {
            return Ok(Found::Fresh(fresh));
        }
        let in_place = InPlaceBlob { id: fresh.id, file: fresh.file(), whole: false };
        let runs = self.runs(inode, blob, reading)?;
        // From now on, syncing the file syncs this blob only.
        bring_to_disk(&self.0.core, tree, ino, inode)?;
        self.change(move |tx| {
            let mut inode = tx.own(ino)?;
            add_in_place(tx.txn, &tx.core.blobs, fresh.id)?;
            if let Some(Content::Blob(content)) = inode.content {
                for run in &runs {
                    let extent = Extent { blob: content.id, blob_offset: run.start, length: run.end - run.start };
                    tx.add_extent(ino, run.start, extent)?;
                }
                release(tx.txn, content.id)?;
                inode.take(runs.iter().map(|run| (run.end - run.start).div_ceil(512)).sum());
            }
            inode.content = Some(Content::Extents(ExtentContent { in_place: Some(fresh.id.0) }));
            tx.save(ino, &inode);
            fresh.keep_after(tx.txn);
            Ok(())
        })?;
        Ok(Found::Home(in_place))
    }

    /// The data runs of a file in its single blob, so that its holes stay holes in extents, unless they are very many.
    fn runs(&self, inode: &Inode, blob: Option<(BlobId, Blob)>, reading: &ReadGuard) -> Result<Vec<Range<u64>>> {
        let all = 0..inode.size;
        let Some((id, _)) = blob.filter(|(_, record)| !record.sums && record.packed.is_none()) else {
            return Ok(vec![all]);
        };
        let runs = data_runs(&*self.0.core.blobs.file(reading.find(id).blob)?, all.clone())?;
        Ok(if runs.len() <= RUNS_MAX { runs } else { vec![all] })
    }

    /// Copies the content to a new in-place blob. Returns whether it did. Large content stays in place, as extents, if
    /// the disk cannot share it.
    fn fill(
        &self,
        file: &Arc<dyn File>,
        ino: u64,
        tree: Tree<'_>,
        inode: &Inode,
        blob: Option<(BlobId, Blob)>,
        reading: &ReadGuard,
    ) -> Result<bool> {
        let core = &self.0.core;
        let copy_max = core.blobs.copy_max_bytes();
        if inode.size <= copy_max || inode.content.is_none() || matches!(inode.content, Some(Content::Inline(_))) {
            let held = inode.size.min(copy_max);
            if inode.content.is_some() {
                let plan = Plan::of(tree, ino, inode, 0, held)?;
                plan.copy_to(&**file, &core.blobs, &core.meta, tree.read, reading)?;
            }
            return Ok(true);
        }
        if let Some((id, record)) = blob.filter(|(_, record)| record.packed.is_none()) {
            let found = reading.find(id);
            let source = core.blobs.file(found.blob)?;
            if (record.length == 0 || record.length >= inode.size) && file.reflink_from(&*source)? {
                file.set_len(inode.size)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Syncs a new in-place blob if its content may have been promised to be on disk, because that must not depend on
    /// an unsynced copy.
    fn make_good(&self, ino: u64, content: &Inode, in_place: BlobId) -> Result<()> {
        let core = &self.0.core;
        core.blobs.mark_dirty(in_place);
        if core.recent_syncs.promised(self.0.bucket, ino, content, core.clock.now()) {
            core.blobs.sync_file(in_place)?;
        }
        Ok(())
    }

    /// Commits a new in-place blob that was written up to `end`. The file is dirty from then on.
    pub(super) fn move_in(&self, ino: u64, before: &Inode, fresh: Fresh, end: u64, kill: bool) -> Result<()> {
        let (core, size) = (&self.0.core, before.size.max(end));
        if fresh.file.len()? < size {
            fresh.file.set_len(size)?;
        }
        self.make_good(ino, before, fresh.id)?;
        let dirty = DirtyFile::new_hidden(fresh.id, fresh.file(), size, before);
        let entry = dirty.clone();
        let moved = self.change(move |tx| {
            let mut inode = tx.own(ino)?;
            if inode.size > size {
                return Err(overtaken());
            }
            give_in_place(tx, ino, &mut inode, fresh.id)?;
            tx.resize(&mut inode, size);
            inode.take(fresh.file.blocks()?);
            wrote(tx, ino, inode, kill)?;
            tx.begin_dirty(ino, &entry);
            fresh.keep_after(tx.txn);
            // Inserted in the order of changes, so that a later replacement of the file finds it, even in the same
            // commit.
            tx.core.dirty.insert(tx.bucket.id, ino, entry.clone());
            tx.txn.after_commit(Box::new(move || entry.reveal()));
            Ok(())
        });
        moved.inspect_err(|_| core.dirty.remove(self.0.bucket, ino, &dirty))
    }
}

/// Replaces all content of an inode by a new in-place blob.
fn give_in_place(tx: &mut Tx<'_>, ino: u64, inode: &mut Inode, in_place: BlobId) -> Result<()> {
    add_in_place(tx.txn, &tx.core.blobs, in_place)?;
    let size = inode.size;
    tx.replace_content(ino, inode, None, size)?;
    inode.content = Some(Content::Blob(BlobContent { id: in_place.0, in_place: true }));
    Ok(())
}
