//! Changing a file's size and its holes.

use std::ops::Range;

use super::flags::Touching;
use super::in_place::{Found, InPlaceBlob};
use super::session::Volume;
use super::types::Allocate;
use super::write::{clear_tail, overtaken, wrote};
use crate::content::{INLINE_MAX, release};
use crate::disk;
use crate::error::{Posix, Result};
use crate::record::inode::{BlobContent, Content, Extent, ExtentContent, Inode, InodeKind};
use crate::tree::Tx;

impl Volume {
    /// Truncates a file, or extends it with zeros.
    pub(super) fn set_size(&self, ino: u64, size: u64, kill: bool) -> Result<()> {
        self.as_writer(ino, || self.changing(ino, || self.resize(ino, size, kill)))
    }

    fn resize(&self, ino: u64, size: u64, kill: bool) -> Result<()> {
        self.refuse_write()?;
        if size > i64::MAX as u64 {
            return Err(Posix::TooLarge.into());
        }
        let core = &self.0.core;
        core.writable()?;
        let _gate = core.gates.write_in_place(self.0.bucket);
        let _alone = core.gates.reshape(self.0.bucket, ino);
        let inode = self.regular(ino)?;
        inode.refuse_fixed(Touching::Changes)?;
        if size > inode.size && self.stretch(ino, size, kill)? {
            return Ok(());
        }
        self.leave_noncurrent(ino)?;
        self.begin_version(ino, Touching::Changes)?;
        let before = self.regular(ino)?;
        // A kernel reads a passthrough blob up to its end, so the blob's size changes before the record's.
        let passthrough = self.passthrough_in_place(ino)?;
        if size > before.size
            && let Some(in_place) = self.own_whole_in_place(ino)?
        {
            clear_tail(core, &in_place, before.size)?;
            if passthrough.is_some() {
                in_place.file.set_len(size)?;
            }
        }
        let kept = passthrough.is_some();
        let in_place = self.change(move |tx| {
            tx.flush_final(ino)?;
            let mut inode = tx.own(ino)?;
            if size <= inode.size {
                tx.unreserve(&mut inode);
            }
            let taken = inode.taken();
            let cut = reshape(tx, ino, &mut inode, size, kept)?;
            let in_place = cut.in_place;
            tx.resize(&mut inode, size);
            inode.take(taken.saturating_sub(cut.freed));
            wrote(tx, ino, inode, kill)?;
            Ok(in_place)
        })?;
        if let Some(in_place) = in_place.filter(|_| size <= before.size || kept) {
            core.blobs.file(crate::blob::BlobId(in_place))?.set_len(size)?;
            core.blobs.mark_dirty(crate::blob::BlobId(in_place));
        }
        Ok(())
    }

    /// Extends a dirty file. Returns whether the file is dirty. The caller holds the inode's lock exclusively.
    fn stretch(&self, ino: u64, size: u64, kill: bool) -> Result<bool> {
        match self.dirty(ino).filter(|dirty| dirty.whole && !dirty.takes_privileges(kill)) {
            Some(dirty) => self.grow_dirty(ino, &dirty, size, || dirty.file.set_len(size)),
            None => Ok(false),
        }
    }

    pub(super) fn regular(&self, ino: u64) -> Result<Inode> {
        let inode = self.look(ino)?;
        match inode.kind() {
            InodeKind::File => Ok(inode),
            InodeKind::Directory => Err(Posix::IsDirectory.into()),
            _ => Err(Posix::Invalid.into()),
        }
    }

    /// The in-place blob, if all content lies in it and this branch may change it.
    fn own_whole_in_place(&self, ino: u64) -> Result<Option<InPlaceBlob>> {
        let owned = self.reading(|tree| {
            let (branch, inode) = tree.dirty_inode(ino)?;
            let in_place = matches!(inode.content, Some(Content::Blob(BlobContent { in_place: true, .. })));
            Ok(in_place && branch == tree.ancestry.branch())
        })?;
        if owned { Ok(Some(self.in_place(ino)?.1)) } else { Ok(None) }
    }

    /// Reserves, punches or zeroes a range (fallocate(2)). Privileges are not cleared here: the kernel has that done
    /// before.
    pub fn allocate(&self, ino: u64, how: Allocate, offset: u64, len: u64) -> Result<()> {
        self.refuse_write()?;
        if len == 0 {
            return Err(Posix::Invalid.into());
        }
        let end = offset.checked_add(len).filter(|end| i64::try_from(*end).is_ok()).ok_or(Posix::TooLarge)?;
        let range = offset..end;
        match how {
            Allocate::Extend => self.reserve(ino, &range, disk::Allocate::Extend),
            Allocate::KeepSize => self.reserve(ino, &range, disk::Allocate::KeepSize),
            Allocate::PunchHole => self.changing(ino, || self.clear(ino, &range, Cleared::Hole)),
            // Allocated space stays, and holes get space.
            Allocate::ZeroRange | Allocate::ZeroRangeKeepSize => {
                self.refuse_fixed(ino, Touching::Changes)?;
                let grows = how == Allocate::ZeroRange;
                self.reserve(ino, &range, if grows { disk::Allocate::Extend } else { disk::Allocate::KeepSize })?;
                self.changing(ino, || self.clear(ino, &range, Cleared::Reserved))
            }
        }
    }

    /// Makes a range read as zeros.
    fn clear(&self, ino: u64, range: &Range<u64>, how: Cleared) -> Result<()> {
        let core = &self.0.core;
        core.writable()?;
        let _gate = core.gates.write_in_place(self.0.bucket);
        let _alone = core.gates.reshape(self.0.bucket, ino);
        self.leave_noncurrent(ino)?;
        self.begin_version(ino, Touching::Changes)?;
        let inode = self.regular(ino)?;
        inode.refuse_fixed(Touching::Changes)?;
        let (offset, end) = (range.start, range.end.min(inode.size));
        if offset >= end {
            return Ok(());
        }
        if matches!(inode.content, None | Some(Content::Inline(_))) {
            return self.clear_records(ino, offset, end);
        }
        match self.find_in_place(ino)? {
            Found::Fresh(fresh) => {
                how.make(&*fresh.file(), &(offset..end))?;
                self.move_in(ino, &inode, fresh, inode.size, false)
            }
            Found::Home(in_place) if in_place.whole => self.clear_in_place(ino, &inode, &in_place, &(offset..end), how),
            Found::Home(in_place) => {
                self.clear_records(ino, offset, end)?;
                // No extent shows these bytes any more, and none will before others were written and synced there: this
                // only frees their space.
                how.make(&*in_place.file, &(offset..end))?;
                core.blobs.mark_dirty(in_place.id);
                Ok(())
            }
        }
    }

    fn clear_in_place(
        &self,
        ino: u64,
        inode: &Inode,
        in_place: &InPlaceBlob,
        range: &Range<u64>,
        how: Cleared,
    ) -> Result<()> {
        let dirty = self.dirty_to_shape(ino, inode, in_place)?;
        let clear = || how.make(&*dirty.file, range);
        if self.change_dirty(ino, &dirty, 0, clear)? { Ok(()) } else { Err(overtaken()) }
    }

    fn clear_records(&self, ino: u64, offset: u64, end: u64) -> Result<()> {
        self.change(move |tx| {
            tx.flush_final(ino)?;
            let mut inode = tx.own(ino)?;
            match &mut inode.content {
                Some(Content::Inline(held)) => {
                    let mut bytes = held.to_vec();
                    let at = |position: u64| usize::try_from(position).map_or(held.len(), |at| at.min(held.len()));
                    bytes[at(offset)..at(end)].fill(0);
                    if at(end) == bytes.len() {
                        // Bytes beyond the record's are a hole.
                        bytes.truncate(at(offset));
                    }
                    *held = bytes.into();
                }
                Some(Content::Extents(_)) => {
                    let taken = inode.taken().saturating_sub(tx.tree().held_in_extents(ino, offset, end)? / 512);
                    tx.cut_extents(ino, offset, end)?;
                    inode.take(taken);
                }
                _ => {}
            }
            wrote(tx, ino, inode, false)
        })
    }
}

/// What happens to the space of a range that is to read as zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cleared {
    /// It is freed.
    Hole,
    /// It stays allocated to the file.
    Reserved,
}

impl Cleared {
    fn make(self, file: &dyn disk::File, range: &Range<u64>) -> Result<()> {
        let len = range.end - range.start;
        file.punch(range.start, len)?;
        match self {
            Self::Hole => Ok(()),
            Self::Reserved => file.allocate(range.start, len, disk::Allocate::KeepSize),
        }
    }
}

/// The effect of a new size on the content.
#[derive(Default)]
struct Reshaped {
    /// The size to which the in-place blob has to be truncated after the commit.
    in_place: Option<u64>,
    /// By how much the allocated space shrinks, in units of 512 bytes.
    freed: u64,
}

/// Adjusts content to a new size. `kept`: the in-place blob has to stay the file's.
fn reshape(tx: &mut Tx<'_>, ino: u64, inode: &mut Inode, size: u64, kept: bool) -> Result<Reshaped> {
    if size == 0 && !kept {
        tx.drop_content(ino, inode, true)?;
        inode.content = None;
        return Ok(Reshaped::default());
    }
    let grows = size > inode.size;
    match &mut inode.content {
        Some(Content::Inline(held)) => {
            let kept = usize::try_from(size).unwrap_or(INLINE_MAX).min(held.len());
            held.truncate(kept);
            Ok(Reshaped::default())
        }
        Some(Content::Blob(BlobContent { id, in_place: true })) => Ok(Reshaped { in_place: Some(*id), freed: 0 }),
        Some(Content::Blob(BlobContent { id, .. })) if grows => {
            let (blob, length) = (*id, inode.size);
            tx.add_extent(ino, 0, Extent { blob, blob_offset: 0, length })?;
            release(tx.txn, blob)?;
            inode.content = Some(Content::Extents(ExtentContent { in_place: None }));
            Ok(Reshaped::default())
        }
        Some(Content::Extents(ExtentContent { in_place })) if !grows => {
            // Bytes cut off here have to be removed from the in-place blob before the file grows again.
            let in_place = *in_place;
            let freed = tx.tree().held_in_extents(ino, size, inode.size)? / 512;
            tx.cut_extents(ino, size, u64::MAX)?;
            Ok(Reshaped { in_place, freed })
        }
        _ => Ok(Reshaped::default()),
    }
}
