//! Reserving space for a file, so that later writes of the range cannot fail for lack of it (fallocate(2)).
//!
//! - Space is reserved in the file's in-place blob, which it gets if it has none: a file in its record, one written by
//!   S3, or one that shares its content gets one first. So a file with a reservation is no longer inline.
//! - Reserved bytes past the file's end count against the quota at once, whether the file grows or not.
//! - The quota is checked first, the disk second, and the record is written last. If any of them refuses, the file is
//!   unchanged. A crash before the record leaves allocated space that no record mentions, until the file is cut or
//!   deleted; a file that grows in place has either size then, as after a write.
//! - A snapshot, clone or version shares the content that existed: later writes need new space. The share of the quota
//!   stays reserved; space on the disk is reserved by the next call.

use std::ops::Range;
use std::sync::Arc;

use super::flags::Touching;
use super::in_place::{Found, Fresh, InPlaceBlob};
use super::session::Volume;
use super::write::{overtaken, wrote};
use crate::disk::Allocate;
use crate::error::Result;
use crate::record::inode::Inode;
use crate::state::DirtyFile;
use crate::volume::Change;

impl Volume {
    /// Reserves space for a range; with [`Allocate::Extend`] the file grows to its end.
    pub(super) fn reserve(&self, ino: u64, range: &Range<u64>, size: Allocate) -> Result<()> {
        let reserve = || self.changing(ino, || self.reserve_once(ino, range, size));
        if size == Allocate::Extend && range.end > self.regular(ino)?.size {
            self.as_writer(ino, reserve)
        } else {
            reserve()
        }
    }

    fn reserve_once(&self, ino: u64, range: &Range<u64>, size: Allocate) -> Result<()> {
        let core = &self.0.core;
        core.writable()?;
        let _gate = core.gates.write_in_place(self.0.bucket);
        let _alone = core.gates.reshape(self.0.bucket, ino);
        self.leave_noncurrent(ino)?;
        self.begin_version(ino, Touching::Adds)?;
        let inode = self.regular(ino)?;
        inode.refuse_fixed(Touching::Adds)?;
        let grows = size == Allocate::Extend && range.end > inode.size;
        // Checked before a blob is created for it.
        self.check_growth(range.end.saturating_sub(inode.charged()))?;
        match self.find_in_place(ino)? {
            Found::Fresh(fresh) if grows => {
                fresh.file().allocate(range.start, range.end - range.start, Allocate::Extend)?;
                self.move_in(ino, &inode, fresh, range.end, false)
            }
            Found::Fresh(fresh) => self.reserve_fresh(ino, &inode, fresh, range),
            Found::Home(in_place) if in_place.whole && grows => self.reserve_dirty(ino, &inode, &in_place, range),
            Found::Home(in_place) => self.reserve_beside(ino, &inode, &in_place, range, grows),
        }
    }

    /// Reserves space in a new in-place blob of a file whose size does not change.
    fn reserve_fresh(&self, ino: u64, inode: &Inode, fresh: Fresh, range: &Range<u64>) -> Result<()> {
        let more = range.end.saturating_sub(inode.charged());
        self.reserve_growth(more)?;
        let reserved = fresh.file().allocate(range.start, range.end - range.start, Allocate::KeepSize);
        let end = range.end;
        let reserved = reserved.and_then(|()| self.settle_in(ino, inode, fresh, end).map(drop));
        reserved.inspect_err(|_| self.0.core.dirty.ledgers.shrink(self.0.bucket, more))
    }

    /// Lets a file that lies completely in its in-place blob grow, with space reserved for the range.
    fn reserve_dirty(&self, ino: u64, inode: &Inode, in_place: &InPlaceBlob, range: &Range<u64>) -> Result<()> {
        let dirty = self.dirty_to_shape(ino, inode, in_place)?;
        let reserve = || dirty.file.allocate(range.start, range.end - range.start, Allocate::Extend);
        if self.grow_dirty(ino, &dirty, range.end, reserve)? { Ok(()) } else { Err(overtaken()) }
    }

    /// The dirty entry for a change that is not a write; an entry whose writes clear privileges is created again.
    pub(super) fn dirty_to_shape(&self, ino: u64, inode: &Inode, in_place: &InPlaceBlob) -> Result<Arc<DirtyFile>> {
        match self.dirty(ino).filter(|dirty| !dirty.takes_privileges(false)) {
            Some(dirty) => Ok(dirty),
            None => {
                self.flush(ino)?;
                self.become_dirty(ino, inode, in_place, false)
            }
        }
    }

    /// Reserves space in an in-place blob whose length does not change; with `grows` the file's size still grows to the
    /// end of the range, as for one in extents.
    fn reserve_beside(
        &self,
        ino: u64,
        inode: &Inode,
        in_place: &InPlaceBlob,
        range: &Range<u64>,
        grows: bool,
    ) -> Result<()> {
        let more = range.end.saturating_sub(inode.charged());
        self.reserve_growth(more)?;
        let size = if grows { range.end } else { inode.size };
        let placed = if in_place.whole { range.clone() } else { self.stepped(range, size) };
        let reserved = in_place.file.allocate(placed.start, placed.end - placed.start, Allocate::KeepSize);
        let reserved = reserved.and_then(|()| self.note_reserved(ino, in_place, range.end, grows));
        reserved.inspect_err(|_| self.0.core.dirty.ledgers.shrink(self.0.bucket, more))
    }

    fn note_reserved(&self, ino: u64, in_place: &InPlaceBlob, end: u64, grows: bool) -> Result<()> {
        let file = in_place.file.clone();
        let (whole, length) = (in_place.whole, file.len()?);
        let had = self.look(ino)?.reserved;
        let noted = self.change(move |tx| {
            tx.flush_final(ino)?;
            let mut inode = tx.own(ino)?;
            if grows {
                let taken = inode.taken();
                tx.resize_settled(&mut inode, end);
                inode.take(taken);
                return wrote(tx, ino, inode, false);
            }
            tx.reserve_settled(&mut inode, end);
            if whole {
                inode.take(file.blocks()?);
            }
            inode.ctime = tx.now.0;
            tx.save(ino, &inode);
            tx.tell(Change::Attributes { ino });
            Ok(())
        });
        if noted.is_err() && had <= length {
            // Truncation frees the space past the end.
            in_place.file.set_len(length)?;
        }
        noted
    }
}
