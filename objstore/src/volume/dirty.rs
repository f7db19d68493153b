//! Writing dirty files: in place, without a transaction.
//!
//! - A file becomes dirty with its first write to its in-place blob. The commit that marks a file dirty bumps its
//!   generation first, so that no reader sees new bytes under an old entity tag. A commit that creates an in-place blob
//!   marks the file dirty too.
//! - A write within the size holds the inode's lock shared, one past it exclusively. A file that lies completely in its
//!   in-place blob is as long as the blob; so it is after a crash. Bytes that a failed write put past the end are cut
//!   off again.
//! - Growth is granted before it happens (`state/growth.rs`): a write that the quota does not allow writes no byte.
//! - A file with content in extents is dirty only for ranges that lie in its in-place blob; any other write to it is a
//!   transaction.

use std::sync::Arc;

use super::in_place::InPlaceBlob;
use super::session::Volume;
use super::types::Change;
use super::write::{clear_tail, disarm, wrote};
use crate::clock::Timestamp;
use crate::disk::File;
use crate::error::Result;
use crate::meta::Durability;
use crate::record::inode::Inode;
use crate::state::DirtyFile;
use crate::tree::{Tx, exceeded};

impl Volume {
    /// Flushes a file and ends its dirty state.
    pub(super) fn flush(&self, ino: u64) -> Result<()> {
        self.0.core.flush(self.0.bucket, &[ino])
    }

    /// Puts the time of writes through a mapping into the inode.
    pub(super) fn show_past(&self, ino: u64, inode: &mut Inode) {
        if let Some(written) = self.0.core.passthrough.modified((self.0.bucket, ino)) {
            let written = Timestamp::from(written).0;
            (inode.mtime, inode.ctime) = (inode.mtime.max(written), inode.ctime.max(written));
        }
    }

    /// The entry of a dirty file, if writes may go through it now.
    pub(super) fn dirty(&self, ino: u64) -> Option<Arc<DirtyFile>> {
        self.0.core.dirty.get(self.0.bucket, ino).filter(|dirty| !dirty.is_noncurrent())
    }

    /// The current inode of a file whose record may be out of date. The dirty entry is looked up first: a file flushed
    /// meanwhile is complete in the record that is read afterwards.
    pub(super) fn look(&self, ino: u64) -> Result<Inode> {
        let dirty = self.0.core.dirty.get(self.0.bucket, ino);
        let (_, mut inode) = self.reading(|tree| tree.dirty_inode(ino))?;
        if let Some(dirty) = dirty.filter(|_| self.0.frozen.is_none()) {
            dirty.show(&mut inode);
        }
        self.show_past(ino, &mut inode);
        Ok(inode)
    }

    /// Writes without a transaction. Returns whether that was possible. The caller holds the bucket's gate shared.
    pub(super) fn write_dirty(&self, ino: u64, offset: u64, data: &[u8]) -> Result<bool> {
        let core = &self.0.core;
        let Some(dirty) = self.dirty(ino) else { return Ok(false) };
        let Some(end) = offset.checked_add(data.len() as u64).filter(|end| i64::try_from(*end).is_ok()) else {
            return Ok(false);
        };
        if end <= dirty.size() {
            let _shared = core.gates.within(self.0.bucket, ino);
            if !dirty.whole && !self.is_in_place(ino, &dirty, offset, end)? {
                return Ok(false);
            }
            return self.change_dirty(ino, &dirty, end, || dirty.file.write_at(data, offset));
        }
        let _alone = core.gates.reshape(self.0.bucket, ino);
        self.extend_dirty(ino, &dirty, offset, data)
    }

    /// Writes past the end; the caller holds the inode's lock exclusively.
    pub(super) fn extend_dirty(&self, ino: u64, dirty: &Arc<DirtyFile>, offset: u64, data: &[u8]) -> Result<bool> {
        let end = offset + data.len() as u64;
        if end <= dirty.size() {
            return self.change_dirty(ino, dirty, end, || dirty.file.write_at(data, offset));
        }
        if !dirty.whole {
            return Ok(false);
        }
        self.grow_dirty(ino, dirty, end, || dirty.file.write_at(data, offset))
    }

    /// Lets a file grow to `end` by `change`; the caller holds the inode's lock exclusively.
    pub(super) fn grow_dirty(
        &self,
        ino: u64,
        dirty: &Arc<DirtyFile>,
        end: u64,
        change: impl FnOnce() -> Result<()>,
    ) -> Result<bool> {
        let (core, before) = (&self.0.core, dirty.size());
        let growth = dirty.growth(end);
        self.reserve_growth(growth)?;
        let grown = self.change_dirty(ino, dirty, end, change);
        if !matches!(grown, Ok(true)) {
            core.dirty.ledgers.shrink(self.0.bucket, growth);
            // After a crash the blob's length is the file's size, so the bytes are cut off. If that fails too, the next
            // write tries again.
            if let Err(error) = cut_back(&*dirty.file, before) {
                tracing::warn!(ino, %error, "a failed write left bytes past the end of an in-place blob; the next write removes them");
                dirty.retire();
            }
        } else if let Some((offset, len)) = dirty.grown() {
            dirty.file.begin_sync(offset, len);
        }
        grown
    }

    /// Makes a change of a dirty file up to `end`, unless it ceases to be dirty meanwhile. The caller holds the inode's
    /// lock.
    pub(super) fn change_dirty(
        &self,
        ino: u64,
        dirty: &DirtyFile,
        end: u64,
        change: impl FnOnce() -> Result<()>,
    ) -> Result<bool> {
        let core = &self.0.core;
        core.writable()?;
        if !dirty.begin() {
            return Ok(false);
        }
        let changed = change();
        core.blobs.mark_dirty(dirty.blob);
        changed?;
        if !dirty.wrote(end, self.time_of_call()) {
            return Ok(false);
        }
        core.feeds.publish(self.0.bucket, self.0.mount, &[Change::Content { ino }]);
        Ok(true)
    }

    /// Marks a file dirty that has an in-place blob: bumps its generation before visible bytes change. The caller holds
    /// the inode's lock exclusively, and changes the file before it releases the lock.
    ///
    /// The entry is inserted before the commit, with a change announced: from then on S3 finds it, and shows the
    /// content under a generation that the bytes written here do not have.
    pub(super) fn become_dirty(
        &self,
        ino: u64,
        inode: &Inode,
        in_place: &InPlaceBlob,
        kill: bool,
    ) -> Result<Arc<DirtyFile>> {
        let (core, bucket) = (&self.0.core, self.0.bucket);
        if in_place.whole {
            clear_tail(core, in_place, inode.size)?;
            if in_place.file.len()? < inode.size {
                // A trailing hole that was never written.
                in_place.file.set_len(inode.size)?;
                core.blobs.mark_dirty(in_place.id);
            }
        }
        let dirty = DirtyFile::new(in_place.id, in_place.file.clone(), in_place.whole, inode.size, inode);
        core.dirty.insert(bucket, ino, dirty.clone());
        let entry = dirty.clone();
        let begun = self.change(move |tx| {
            let inode = tx.own(ino)?;
            wrote(tx, ino, inode, kill)?;
            tx.begin_dirty(ino, &entry);
            Ok(())
        });
        match begun {
            Ok(()) => Ok(dirty),
            Err(error) => {
                core.dirty.remove(bucket, ino, &dirty);
                Err(error)
            }
        }
    }

    /// Clears what a change of content clears: capabilities, and with `kill` setuid and setgid. If it clears any, this
    /// session's own feed reports it.
    pub fn lose_privileges(&self, ino: u64, kill: bool) -> Result<()> {
        self.change_last(without_privileges(ino, kill))
    }

    /// Whether the in-place blob of a file in extents already holds all of a range.
    pub(super) fn is_in_place(&self, ino: u64, dirty: &DirtyFile, start: u64, end: u64) -> Result<bool> {
        let placed = self.reading(|tree| tree.extents(ino, start, end))?;
        let mut at = start;
        for extent in &placed {
            if extent.offset > at || extent.extent.blob != dirty.blob.0 {
                return Ok(false);
            }
            at = extent.end();
        }
        Ok(at >= end)
    }

    /// Grants growth of dirty files against the quota before it happens.
    pub(super) fn reserve_growth(&self, bytes: u64) -> Result<()> {
        let (core, bucket) = (&self.0.core, self.0.bucket);
        // Another file may use up the grant before it is counted here.
        while !core.dirty.ledgers.grow(bucket, bytes) {
            let session = self.0.clone();
            core.meta.transact(Durability::Buffered, move |txn| session.allow_growth(&*txn, bytes))?;
        }
        Ok(())
    }
}

/// Cuts off bytes that a failed change put past the end; if it put none there, reserved space stays.
fn cut_back(file: &dyn File, size: u64) -> Result<()> {
    if file.len()? == size { Ok(()) } else { file.set_len(size) }
}

impl super::Session {
    /// Grants growth to dirty files, plus a step; called on the transaction thread.
    fn allow_growth(&self, read: &dyn crate::meta::Read, bytes: u64) -> Result<()> {
        let Self { core, name, bucket, .. } = self;
        let record = core.bucket_record(read, name)?.filter(|record| record.id == *bucket);
        let record = record.ok_or(crate::error::Posix::Stale)?;
        let ancestry = core.lines.ancestry(read, record.clone_group, record.branch)?;
        let used = crate::store::usage(read, &ancestry)?;
        let room = record.limit_bytes().saturating_sub(used.bytes + used.upload_bytes);
        let allow = |bytes: u64| core.dirty.ledgers.allow(*bucket, room, bytes);
        // Without a quota the grant is large, so that it is rarely renewed.
        let ample = record.quota_bytes.is_none() && allow(bytes.max(room / 2));
        if ample || allow(bytes) { Ok(()) } else { Err(exceeded(name, &record, &used, bytes)) }
    }
}

/// The change of an inode that loses its privileges: capabilities, and with `kill` setuid and setgid.
pub(super) fn without_privileges(ino: u64, kill: bool) -> impl FnOnce(&mut Tx<'_>) -> Result<()> + Send + 'static {
    move |tx| {
        let mut inode = tx.own(ino)?;
        if kill {
            disarm(tx, &mut inode);
        }
        inode.lose_capabilities();
        inode.ctime = tx.now.0;
        tx.save(ino, &inode);
        tx.tell(Change::Attributes { ino });
        Ok(())
    }
}
