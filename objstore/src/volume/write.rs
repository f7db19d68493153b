//! Writing to files.
//!
//! - A file of up to 4 KiB lies in its record: a write is one transaction.
//! - Larger files have an in-place blob. The first write to it is a transaction that marks the file dirty; later ones
//!   go to the blob alone (`dirty`), as long as all of the content lies there.
//! - A write that creates an in-place blob puts the old and the new bytes into it first, and then commits it. A write
//!   to a file with content in extents does the same: first bytes in the in-place blob, then the extent that shows
//!   them.
//! - Bytes of an in-place blob that no extent shows have no meaning: those within the file's size are overwritten and
//!   synced before an extent shows them, those past it are cut off before it grows.
//! - A crash in between leaves an unreferenced file, or bytes in an in-place blob that no extent shows.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::dirty::without_privileges;
use super::flags::Touching;
use super::in_place::{Found, InPlaceBlob};
use super::session::Volume;
use super::types::Change;
use crate::content::{INLINE_MAX, bring_to_disk};
use crate::core::Core;
use crate::error::{Error, Posix, Result};
use crate::record::inode::{Content, Extent, Inode, InodeKind};
use crate::tree::Tx;

/// The largest file, in bytes.
const SIZE_MAX: u64 = i64::MAX as u64;
/// Content is copied to an in-place blob in steps of this fraction of the size that would be copied as a whole.
const STEPS: u64 = 8;
/// The most bytes filled around a write into a hole.
const BLOCK_BYTES: u64 = 4096;

/// The context of a write.
#[derive(Clone, Copy)]
struct Write {
    /// As in [`super::SetAttr`].
    kill_privileges: bool,
    /// The kind of change, for the check of the file's flags.
    what: Touching,
}

impl Volume {
    /// Writes at `offset`; the bytes are in the store when it returns. `kill_privileges` as in [`super::SetAttr`]. If
    /// it clears any, this session's own feed reports it.
    ///
    /// # Errors
    /// EPERM if the flags forbid it; see [`Volume::set_flags`].
    pub fn write(&self, ino: u64, offset: u64, data: &[u8], kill_privileges: bool) -> Result<()> {
        self.write_as(ino, offset, data, Write { kill_privileges, what: Touching::Changes })
    }

    /// Writes pages that a program changed through a mapping.
    ///
    /// # Errors
    /// EPERM for an append-only file. An immutable one was mapped before it became so, and what was stored until then
    /// is kept.
    pub fn write_back(&self, ino: u64, offset: u64, data: &[u8], kill_privileges: bool) -> Result<()> {
        self.write_as(ino, offset, data, Write { kill_privileges, what: Touching::WritesBack })
    }

    fn write_as(&self, ino: u64, offset: u64, data: &[u8], how: Write) -> Result<()> {
        self.refuse_write()?;
        if data.is_empty() {
            return Ok(());
        }
        self.changing(ino, || {
            let _gate = self.0.core.gates.write_in_place(self.0.bucket);
            self.disarm(ino, how.kill_privileges)?;
            if self.dirty(ino).is_some_and(|dirty| dirty.append_only) {
                return Err(Posix::NotPermitted.into());
            }
            if self.notes_writes() {
                return self.write_alone(ino, offset, data, how);
            }
            if self.write_dirty(ino, offset, data)? {
                return Ok(());
            }
            let _alone = self.0.core.gates.reshape(self.0.bucket, ino);
            self.write_cold(ino, offset, data, how)
        })
    }

    /// Writes for another machine, under the inode's exclusive lock: nobody else writes between the bytes and their note.
    fn write_alone(&self, ino: u64, offset: u64, data: &[u8], how: Write) -> Result<()> {
        let _alone = self.0.core.gates.reshape(self.0.bucket, ino);
        self.write_noted((ino, offset), data, || {
            let end = offset.checked_add(data.len() as u64).filter(|end| *end <= SIZE_MAX).ok_or(Posix::TooLarge)?;
            let dirty = match self.dirty(ino) {
                Some(dirty) if dirty.whole || end > dirty.size() => Some(dirty),
                Some(dirty) if self.is_in_place(ino, &dirty, offset, end)? => Some(dirty),
                _ => None,
            };
            match dirty {
                Some(dirty) if self.extend_dirty(ino, &dirty, offset, data)? => Ok(()),
                _ => self.write_cold(ino, offset, data, how),
            }
        })
    }

    /// Clears privileges of a dirty file that its writes have to clear.
    fn disarm(&self, ino: u64, kill: bool) -> Result<()> {
        match self.dirty(ino) {
            Some(dirty) if dirty.takes_privileges(kill) => self.change(without_privileges(ino, kill)),
            _ => Ok(()),
        }
    }

    /// Appends at the end of the file; no other write can come between. Returns the new end.
    pub fn append(&self, ino: u64, data: &[u8]) -> Result<u64> {
        self.refuse_write()?;
        if data.is_empty() {
            return Ok(self.look(ino)?.size);
        }
        self.changing(ino, || {
            let _gate = self.0.core.gates.write_in_place(self.0.bucket);
            let _alone = self.0.core.gates.reshape(self.0.bucket, ino);
            let write = |offset: u64| {
                if offset.checked_add(data.len() as u64).is_none_or(|end| end > SIZE_MAX) {
                    return Err(Posix::TooLarge.into());
                }
                match self.dirty(ino).filter(|dirty| !dirty.takes_privileges(false)) {
                    Some(dirty) if self.extend_dirty(ino, &dirty, offset, data)? => Ok(()),
                    _ => self.write_cold(ino, offset, data, Write { kill_privileges: false, what: Touching::Adds }),
                }
            };
            self.append_once(ino, self.look(ino)?.size, data.len() as u64, write)
        })
    }

    /// Has this session's own feed report a file's content, as if another client had changed it: an append landed
    /// elsewhere than the kernel assumed, so its cache is wrong. Recorded as undelivered like every invalidation.
    pub fn recall(&self, ino: u64) -> Result<()> {
        self.change(move |tx| {
            tx.tell_origin();
            tx.tell(Change::Content { ino });
            Ok(())
        })
    }

    /// Writes in a transaction. The caller holds the bucket's gate shared and the inode's lock exclusively.
    fn write_cold(&self, ino: u64, offset: u64, data: &[u8], how: Write) -> Result<()> {
        let kill = how.kill_privileges;
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= SIZE_MAX).ok_or(Posix::TooLarge)?;
        self.0.core.writable()?;
        self.leave_noncurrent(ino)?;
        self.begin_version(ino, how.what)?;
        let inode = self.look(ino)?;
        if inode.kind() != InodeKind::File {
            return Err(Posix::Invalid.into());
        }
        inode.refuse_fixed(how.what)?;
        if matches!(inode.content, None | Some(Content::Inline(_))) && end.max(inode.size) <= INLINE_MAX as u64 {
            return self.write_inline(ino, offset, data, kill);
        }
        // Growth beyond the quota is refused before any byte is written.
        self.check_growth(end.saturating_sub(inode.charged()))?;
        match self.find_in_place(ino)? {
            Found::Fresh(fresh) => {
                fresh.file().write_at(data, offset)?;
                self.move_in(ino, &inode, fresh, end, kill)
            }
            Found::Home(in_place) if in_place.whole => self.write_in_place(ino, &inode, &in_place, offset, data, kill),
            Found::Home(in_place) => self.write_extent(ino, &inode, &in_place, offset, data, kill),
        }
    }

    /// Flushes a file whose dirty entry may not be written through any more.
    pub(super) fn leave_noncurrent(&self, ino: u64) -> Result<()> {
        match self.0.core.dirty.get(self.0.bucket, ino) {
            Some(dirty) if dirty.is_noncurrent() => self.flush(ino),
            _ => Ok(()),
        }
    }

    fn write_inline(&self, ino: u64, offset: u64, data: &[u8], kill: bool) -> Result<()> {
        let data = data.to_vec();
        self.change(move |tx| {
            let mut inode = tx.own(ino)?;
            let held = match inode.content.take() {
                Some(Content::Inline(held)) => held,
                _ => Bytes::new(),
            };
            let start = usize::try_from(offset).map_err(|_| Posix::TooLarge)?;
            let end = start + data.len();
            let size = usize::try_from(inode.size).map_err(|_| Posix::TooLarge)?.max(end);
            let mut bytes = Vec::with_capacity(size);
            bytes.extend_from_slice(&held);
            bytes.resize(size, 0);
            bytes[start..end].copy_from_slice(&data);
            inode.content = Some(Content::Inline(bytes.into()));
            tx.resize(&mut inode, size as u64);
            wrote(tx, ino, inode, kill)
        })
    }

    /// Writes to a file that lies completely in its in-place blob.
    fn write_in_place(
        &self,
        ino: u64,
        inode: &Inode,
        in_place: &InPlaceBlob,
        offset: u64,
        data: &[u8],
        kill: bool,
    ) -> Result<()> {
        let dirty = match self.dirty(ino) {
            Some(dirty) => dirty,
            None => self.become_dirty(ino, inode, in_place, kill)?,
        };
        if self.extend_dirty(ino, &dirty, offset, data)? { Ok(()) } else { Err(overtaken()) }
    }

    /// Writes to a file in extents: the bytes go to the in-place blob, and then an extent shows them.
    fn write_extent(
        &self,
        ino: u64,
        inode: &Inode,
        in_place: &InPlaceBlob,
        offset: u64,
        data: &[u8],
        kill: bool,
    ) -> Result<()> {
        let (core, blob, end) = (&self.0.core, in_place.id.0, offset + data.len() as u64);
        let within = offset < inode.size;
        let (start, bytes) =
            if within { self.surrounded(ino, inode.size, offset, data) } else { (offset, data.into()) };
        let taken = start..start + bytes.len() as u64;
        let shown = self.reading(|tree| tree.extents(ino, taken.start, taken.end))?;
        let held = self.reading(|tree| tree.held_in_extents(ino, taken.start, taken.end))?;
        let added = (taken.end - taken.start - held).div_ceil(512);
        let mut dirty = self.dirty(ino);
        if dirty.is_none() && shown.iter().any(|placed| placed.extent.blob == blob) {
            dirty = Some(self.become_dirty(ino, inode, in_place, kill)?);
        }
        if let Some(dirty) = &dirty
            && self.is_in_place(ino, dirty, offset, end)?
        {
            let written = self.change_dirty(ino, dirty, end, || in_place.file.write_at(data, offset))?;
            return if written { Ok(()) } else { Err(overtaken()) };
        }
        if dirty.as_ref().is_some_and(|dirty| !dirty.begin()) {
            return Err(overtaken());
        }
        if !within {
            clear_tail(core, in_place, inode.size)?;
        }
        in_place.file.write_at(&bytes, start)?;
        core.blobs.mark_dirty(in_place.id);
        if within {
            // Synced before an extent shows it: the old bytes may be on disk by promise, and what the blob holds there
            // has no meaning yet.
            core.blobs.sync_file(in_place.id)?;
        }
        self.change(move |tx| {
            let mut inode = tx.own(ino)?;
            tx.cut_extents(ino, taken.start, taken.end)?;
            let extent = Extent { blob, blob_offset: taken.start, length: taken.end - taken.start };
            tx.add_extent(ino, taken.start, extent)?;
            let (size, space) = (inode.size.max(end), inode.taken() + added);
            tx.resize(&mut inode, size);
            inode.take(space);
            wrote(tx, ino, inode, kill)?;
            if let Some(dirty) = dirty {
                tx.txn.after_commit(Box::new(move || dirty.recorded(size)));
            }
            Ok(())
        })
    }

    /// The range extended to whole steps of a file of this size.
    pub(super) fn stepped(&self, range: &Range<u64>, size: u64) -> Range<u64> {
        around(range, self.0.core.blobs.copy_max_bytes() / STEPS, size)
    }

    /// A write within a file's size together with some of its surroundings, and their offset: so that the next write
    /// there finds its place in the in-place blob. Unreadable surroundings are left where they are, and a large hole
    /// stays a hole.
    fn surrounded<'a>(&self, ino: u64, size: u64, offset: u64, data: &'a [u8]) -> (u64, Cow<'a, [u8]>) {
        let written = offset..offset + data.len() as u64;
        let steps = self.stepped(&written, size);
        let held = self.reading(|tree| tree.held_in_extents(ino, steps.start, steps.end)).unwrap_or(0);
        let Range { start, end: stop } = if held == 0 { around(&written, BLOCK_BYTES, size) } else { steps };
        let lengths = usize::try_from(stop - start).and_then(|length| Ok((length, usize::try_from(offset - start)?)));
        let Ok((length, at)) = lengths else { return (offset, data.into()) };
        let Ok(before) = self.read(ino, start, length) else { return (offset, data.into()) };
        let mut bytes = before.to_vec();
        bytes.resize(length, 0);
        bytes[at..at + data.len()].copy_from_slice(data);
        (start, bytes.into())
    }

    /// Refuses growth beyond the quota.
    pub(super) fn check_growth(&self, bytes: u64) -> Result<()> {
        let record = self.0.core.bucket_known(&self.0.name)?;
        let Some(limit_bytes) = record.and_then(|bucket| bucket.quota_bytes).filter(|_| bytes > 0) else {
            return Ok(());
        };
        let used_bytes = self.used_bytes()?;
        if used_bytes.saturating_add(bytes) <= limit_bytes {
            return Ok(());
        }
        Err(Error::QuotaExceeded { bucket: self.0.name.to_string(), limit_bytes, used_bytes, asked_bytes: bytes })
    }

    /// Syncs a file or directory (fsync(2)): content, attributes and names.
    ///
    /// Syncing the in-place blob makes the content durable, and size and time of a dirty file with it. The metadata is
    /// durable already if nothing was committed since its last sync; otherwise both syncs run in parallel.
    pub fn sync(&self, ino: u64) -> Result<()> {
        self.sync_as(ino, false)
    }

    /// Syncs a file or directory, possibly without its mtime (fdatasync(2)).
    pub fn sync_without_time(&self, ino: u64) -> Result<()> {
        self.sync_as(ino, true)
    }

    fn sync_as(&self, ino: u64, data_only: bool) -> Result<()> {
        if self.0.read_only {
            return Ok(());
        }
        let core = &self.0.core;
        // Keeps the blob until it is synced, even if the file is truncated or replaced meanwhile.
        let _reading = core.readers.begin();
        let dirty = core.dirty.get(self.0.bucket, ino);
        let in_place = match &dirty {
            Some(dirty) => Some(dirty.blob),
            None => self.reading(|tree| {
                let (_, inode) = tree.dirty_inode(ino)?;
                let in_place = inode.in_place().map(crate::blob::BlobId);
                if in_place.is_none() {
                    bring_to_disk(core, tree, ino, &inode)?;
                }
                Ok(in_place)
            })?,
        };
        let Some(id) = in_place else {
            core.recent_syncs.note(self.0.bucket, ino, core.clock.now());
            return core.meta.sync_here();
        };
        if core.passthrough.is_mapped_writable((self.0.bucket, ino)) {
            // Writes through a mapping were not announced, so the blob is marked here.
            core.blobs.mark_dirty(id);
        }
        // The writer thread syncs it, in parallel with the content.
        let metadata = (!core.meta.is_synced()).then(|| core.meta.sync());
        let content = match dirty {
            // After a crash, a dirty file's time is its blob's.
            Some(_) if !data_only => core.blobs.sync_file_and_times(id),
            _ => core.blobs.sync_file(id),
        };
        let metadata = metadata.map_or(Ok(()), crate::ticket::Ticket::wait);
        content.and(metadata)
    }

    /// Syncs everything that this session and others wrote to the bucket, before a mount ends. For dirty files, syncing
    /// their in-place blobs is sufficient.
    pub fn sync_volume(&self) -> Result<()> {
        if self.0.read_only {
            return Ok(());
        }
        let core = &self.0.core;
        // Recorded before the sync: what is written during it is not promised.
        core.recent_syncs.note_all(self.0.bucket, core.clock.now());
        core.blobs.sync_dirty()?;
        core.meta.sync_here()
    }
}

/// The range extended to whole blocks, within a file of this size.
fn around(range: &Range<u64>, block: u64, size: u64) -> Range<u64> {
    range.start / block * block..range.end.next_multiple_of(block).min(size).max(range.end)
}

/// The error for a file that ceased to be dirty while it was written: the write is repeated.
pub(super) fn overtaken() -> Error {
    Error::Busy { what: "a file that was replaced while it was open".into() }
}

/// Marks content as changed by a mount, and saves the inode; refuses the change if a lock or flag forbids it.
pub(super) fn wrote(tx: &mut Tx<'_>, ino: u64, mut inode: Inode, kill: bool) -> Result<()> {
    tx.check_changeable(ino, &inode)?;
    inode.changed_by_mount(tx.now);
    if kill {
        disarm(tx, &mut inode);
    }
    inode.lose_capabilities();
    tx.save(ino, &inode);
    tx.tell(Change::Content { ino });
    Ok(())
}

/// Clears setuid and setgid of a file whose content changes. The kernel assumes a change of size and times only, so it
/// is notified.
pub(super) fn disarm(tx: &mut Tx<'_>, inode: &mut Inode) {
    if inode.may_lose_setuid() {
        inode.lose_setuid(false);
        tx.tell_origin();
    }
}

/// Clears bytes that a crash may have left in an in-place blob past the size, before the size grows over them or the
/// file becomes dirty. Synced, since after another crash they would be taken for the file's.
pub(super) fn clear_tail(core: &Core, in_place: &InPlaceBlob, size: u64) -> Result<()> {
    if in_place.file.len()? <= size {
        return Ok(());
    }
    in_place.file.set_len(size)?;
    core.blobs.mark_dirty(in_place.id);
    core.blobs.sync_file(in_place.id)
}
