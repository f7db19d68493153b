//! Writing dirty files: in place, without a transaction.
//!
//! - A file becomes dirty with its first write to its in-place blob. The commit that marks a file dirty bumps its
//!   generation first, so that no reader sees new bytes under an old entity tag. A commit that creates an in-place blob
//!   marks the file dirty too.
//! - A write within the size holds the inode's lock shared, one past it exclusively. A file that lies completely in its
//!   in-place blob is as long as the blob; so it is after a crash. Bytes that a failed write put past the end are cut
//!   off again.
//! - Growth is granted before it happens (`state/ledger.rs`): a write that the quota does not allow writes no byte.
//! - A file with content in extents is dirty only for ranges that lie in its in-place blob; any other write to it is a
//!   transaction.

use std::sync::Arc;

use super::home::Home;
use super::session::Volume;
use super::types::Change;
use super::write::{clear_tail, disarm, wrote};
use crate::clock::Timestamp;
use crate::disk::File;
use crate::error::Result;
use crate::meta::Durability;
use crate::record::inode::Inode;
use crate::state::Live;
use crate::tree::exceeded;

impl Volume {
    /// Flushes a file and ends its dirty state.
    pub(super) fn settle(&self, ino: u64) -> Result<()> {
        self.0.core.settle(self.0.bucket, &[ino])
    }

    /// Puts the time of writes through a mapping into the inode.
    pub(super) fn show_past(&self, ino: u64, inode: &mut Inode) {
        if let Some(written) = self.0.core.backed.modified((self.0.bucket, ino)) {
            let written = Timestamp::from(written).0;
            (inode.mtime, inode.ctime) = (inode.mtime.max(written), inode.ctime.max(written));
        }
    }

    /// The entry of a dirty file, if writes may go through it now.
    pub(super) fn live(&self, ino: u64) -> Option<Arc<Live>> {
        self.0.core.live.get(self.0.bucket, ino).filter(|live| !live.is_retired())
    }

    /// The current inode of a file whose record may be out of date. The dirty entry is looked up first: a file flushed
    /// meanwhile is complete in the record that is read afterwards.
    pub(super) fn look(&self, ino: u64) -> Result<Inode> {
        let live = self.0.core.live.get(self.0.bucket, ino);
        let (_, mut inode) = self.reading(|tree| tree.live_inode(ino))?;
        if let Some(live) = live.filter(|_| self.0.frozen.is_none()) {
            live.show(&mut inode);
        }
        self.show_past(ino, &mut inode);
        Ok(inode)
    }

    /// Writes without a transaction. Returns whether that was possible. The caller holds the bucket's gate shared.
    pub(super) fn write_live(&self, ino: u64, offset: u64, data: &[u8]) -> Result<bool> {
        let core = &self.0.core;
        let Some(live) = self.live(ino) else { return Ok(false) };
        let Some(end) = offset.checked_add(data.len() as u64).filter(|end| i64::try_from(*end).is_ok()) else {
            return Ok(false);
        };
        if end <= live.size() {
            let _shared = core.gates.within(self.0.bucket, ino);
            if !live.whole && !self.lies_at_home(ino, &live, offset, end)? {
                return Ok(false);
            }
            return self.change_live(ino, &live, end, || live.file.write_at(data, offset));
        }
        let _alone = core.gates.reshape(self.0.bucket, ino);
        self.extend_live(ino, &live, offset, data)
    }

    /// Writes past the end; the caller holds the inode's lock exclusively.
    pub(super) fn extend_live(&self, ino: u64, live: &Arc<Live>, offset: u64, data: &[u8]) -> Result<bool> {
        let end = offset + data.len() as u64;
        if end <= live.size() {
            return self.change_live(ino, live, end, || live.file.write_at(data, offset));
        }
        if !live.whole {
            return Ok(false);
        }
        self.grow_live(ino, live, end, || live.file.write_at(data, offset))
    }

    /// Lets a file grow to `end` by `change`; the caller holds the inode's lock exclusively.
    pub(super) fn grow_live(
        &self,
        ino: u64,
        live: &Arc<Live>,
        end: u64,
        change: impl FnOnce() -> Result<()>,
    ) -> Result<bool> {
        let (core, before) = (&self.0.core, live.size());
        let growth = live.growth(end);
        self.reserve_growth(growth)?;
        let grown = self.change_live(ino, live, end, change);
        if !matches!(grown, Ok(true)) {
            core.live.ledgers.shrink(self.0.bucket, growth);
            // After a crash the blob's length is the file's size, so the bytes are cut off. If that fails too, the next
            // write tries again.
            if let Err(error) = cut_back(&*live.file, before) {
                tracing::warn!(ino, %error, "a failed write left bytes past the end of an in-place blob; the next write removes them");
                live.retire();
            }
        } else if let Some((offset, len)) = live.grown() {
            live.file.begin_sync(offset, len);
        }
        grown
    }

    /// Makes a change of a dirty file up to `end`, unless it ceases to be dirty meanwhile. The caller holds the inode's
    /// lock.
    pub(super) fn change_live(
        &self,
        ino: u64,
        live: &Live,
        end: u64,
        change: impl FnOnce() -> Result<()>,
    ) -> Result<bool> {
        let core = &self.0.core;
        core.writable()?;
        if !live.begin() {
            return Ok(false);
        }
        let changed = change();
        core.blobs.mark_dirty(live.blob);
        changed?;
        if !live.wrote(end, core.clock.now()) {
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
    pub(super) fn go_live(&self, ino: u64, inode: &Inode, home: &Home, kill: bool) -> Result<Arc<Live>> {
        let (core, bucket) = (&self.0.core, self.0.bucket);
        if home.whole {
            clear_tail(core, home, inode.size)?;
            if home.file.len()? < inode.size {
                // A trailing hole that was never written.
                home.file.set_len(inode.size)?;
                core.blobs.mark_dirty(home.id);
            }
        }
        let live = Live::new(home.id, home.file.clone(), home.whole, inode.size, inode);
        core.live.insert(bucket, ino, live.clone());
        let entry = live.clone();
        let begun = self.change(move |tx| {
            let inode = tx.own(ino)?;
            wrote(tx, ino, inode, kill)?;
            tx.begin_live(ino, &entry);
            Ok(())
        });
        match begun {
            Ok(()) => Ok(live),
            Err(error) => {
                core.live.remove(bucket, ino, &live);
                Err(error)
            }
        }
    }

    /// Clears what a change of content clears: capabilities, and with `kill` setuid and setgid. If it clears any, this
    /// session's own feed reports it.
    pub fn lose_privileges(&self, ino: u64, kill: bool) -> Result<()> {
        self.change(move |tx| {
            let mut inode = tx.own(ino)?;
            if kill {
                disarm(tx, &mut inode);
            }
            inode.lose_capabilities();
            inode.ctime = tx.now.0;
            tx.save(ino, &inode);
            tx.tell(Change::Attributes { ino });
            Ok(())
        })
    }

    /// Whether the in-place blob of a file in extents already holds all of a range.
    pub(super) fn lies_at_home(&self, ino: u64, live: &Live, start: u64, end: u64) -> Result<bool> {
        let placed = self.reading(|tree| tree.extents(ino, start, end))?;
        let mut at = start;
        for extent in &placed {
            if extent.offset > at || extent.extent.blob != live.blob.0 {
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
        while !core.live.ledgers.grow(bucket, bytes) {
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
        let line = core.lines.line(read, record.family, record.branch)?;
        let used = crate::store::usage(read, &line)?;
        let room = record.limit_bytes().saturating_sub(used.bytes + used.upload_bytes);
        let allow = |bytes: u64| core.live.ledgers.allow(*bucket, room, bytes);
        // Without a quota the grant is large, so that it is rarely renewed.
        let ample = record.quota_bytes.is_none() && allow(bytes.max(room / 2));
        if ample || allow(bytes) { Ok(()) } else { Err(exceeded(name, &record, &used, bytes)) }
    }
}
