//! Copying between files of the bucket (copy_file_range(2)).
//!
//! - A whole file copied into an empty one is copied by reference, at any size: both then refer to the same
//!   blobs, and each writes new blobs when it changes. The source's content is synced before, as an fsync of the copy
//!   promises.
//! - Anything else is copied here, a bounded piece per call: the caller asks for the rest. So are small files, files
//!   open for writing (one that is rewritten in place should not lose its blob for a copy), and files open by
//!   passthrough.
//! - If both have blob files, the system copies from one to the other, and shares the space where it can. Content with
//!   checksums is verified on the way, unless it was verified recently.
//! - Holes of the source stay holes where the target ends before them.
//! - A crash leaves the pieces copied so far, as after write(2).

use std::sync::Arc;

use super::flags::Touching;
use super::session::Volume;
use super::types::Spot;
use super::write::wrote;
use crate::blob::BlobId;
use crate::content::{blob_record, bring_to_disk};
use crate::disk::File;
use crate::error::{Error, Posix, Result};
use crate::record::inode::{Content, Inode, InodeKind};
use crate::tree::{Tree, Tx};

/// The most bytes copied by one call, which cannot be interrupted.
const CALL_BYTES: u64 = 256 << 20;
/// Bytes copied at a time through memory.
const PIECE_BYTES: u64 = 1 << 20;
/// Bytes copied at a time by the system, while the target is locked.
const STEP_BYTES: u64 = 16 << 20;
/// Ranges smaller than this are copied through memory.
const STEP_BYTES_MIN: u64 = 64 << 10;

impl Volume {
    /// Copies up to `len` bytes and returns how many: fewer at the end of the source, and beyond a limit of this
    /// module.
    ///
    /// # Errors
    /// EINVAL if one is not a regular file, or for overlapping ranges of one file.
    pub fn copy_range(&self, from: Spot, to: Spot, len: u64) -> Result<u64> {
        self.refuse_write()?;
        let source = self.regular_file(from.ino)?;
        let target = self.regular_file(to.ino)?;
        target.refuse_fixed(Touching::Changes)?;
        let (size, held) = (source.size, target.size);
        let len = len.min(size.saturating_sub(from.offset));
        let end = to.offset.checked_add(len).filter(|end| i64::try_from(*end).is_ok()).ok_or(Posix::TooLarge)?;
        if from.ino == to.ino && from.offset < end && to.offset < from.offset + len {
            return Err(Posix::Invalid.into());
        }
        let whole = (from.offset, to.offset, len, held) == (0, 0, size, 0) && from.ino != to.ino;
        // For small files a reference costs more than it saves.
        let large = size > self.0.core.blobs.copy_max_bytes();
        if whole && large && self.refer(from.ino, to.ino, size)? {
            return Ok(len);
        }
        if let Some(bytes) = in_record(&source, from.offset, len) {
            self.write(to.ino, to.offset, bytes, false)?;
            return Ok(len);
        }
        let holes_past = (large || !is_dense(&source)).then_some(held);
        self.copy_bytes(from, to, len.min(CALL_BYTES), holes_past)
    }

    fn regular_file(&self, ino: u64) -> Result<Inode> {
        let inode = self.look(ino)?;
        match inode.kind() {
            InodeKind::File => Ok(inode),
            InodeKind::Directory => Err(Posix::IsDirectory.into()),
            _ => Err(Posix::Invalid.into()),
        }
    }

    /// Makes an empty file refer to all content of another. Returns whether that was possible.
    fn refer(&self, from: u64, to: u64, size: u64) -> Result<bool> {
        let (core, bucket) = (&self.0.core, self.0.bucket);
        // The target may be open by passthrough; its content then stays in its blob.
        if core.writers.has_handles(bucket, from) || core.passthrough.blob((bucket, to)).is_some() {
            return Ok(false);
        }
        core.writable()?;
        // Most of it is synced before writes are blocked, the rest afterwards.
        self.bring_to_disk(from)?;
        let gate = core.gates.share(bucket);
        self.bring_to_disk(from)?;
        self.flush(to)?;
        let referred =
            self.begin_version(to, Touching::Changes).and_then(|()| self.change(move |tx| refer(tx, from, to, size)));
        drop(gate);
        match referred {
            Err(Error::Busy { .. }) => Ok(false),
            answer => answer,
        }
    }

    /// Syncs the content of a file, and flushes its attributes.
    fn bring_to_disk(&self, ino: u64) -> Result<()> {
        self.flush(ino)?;
        self.reading(|tree| bring_to_disk(&self.0.core, tree, ino, &tree.dirty_inode(ino)?.1))
    }

    /// Copies a range. Holes stay holes beyond the target offset `holes_past`, if given.
    fn copy_bytes(&self, from: Spot, to: Spot, len: u64, holes_past: Option<u64>) -> Result<u64> {
        let mut done = 0;
        while done < len {
            match self.copy_piece(at(from, done), at(to, done), len - done, holes_past) {
                Ok(0) => break,
                Ok(copied) => done += copied,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        // A trailing hole was not written.
        let end = to.offset + done;
        if done > 0 && holes_past.is_some() && self.regular_file(to.ino)?.size < end {
            self.set_size(to.ino, end, false)?;
        }
        Ok(done)
    }

    /// Copies a piece or skips a hole. Returns the number of bytes.
    fn copy_piece(&self, from: Spot, to: Spot, len: u64, holes_past: Option<u64>) -> Result<u64> {
        let mut want = len;
        if holes_past.is_some_and(|held| to.offset >= held) {
            let next = |data| Ok::<_, Error>(self.seek(from.ino, from.offset, data)?.map(|found| found - from.offset));
            let hole = next(true)?.unwrap_or(len).min(len);
            if hole > 0 {
                return Ok(hole);
            }
            want = want.min(next(false)?.unwrap_or(want));
        }
        if want >= STEP_BYTES_MIN {
            let step = want.min(STEP_BYTES);
            match self.copy_file(from, to, step) {
                Ok(true) => return Ok(step),
                // A smaller piece may fit.
                Ok(false) | Err(Error::QuotaExceeded { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let want = usize::try_from(want.min(PIECE_BYTES)).map_err(|_| Posix::TooLarge)?;
        let bytes = self.read(from.ino, from.offset, want)?;
        self.write(to.ino, to.offset, &bytes, false)?;
        Ok(bytes.len() as u64)
    }
}

impl Volume {
    /// Copies a range directly between the files of the source and the dirty target. Returns whether that was possible.
    fn copy_file(&self, from: Spot, to: Spot, len: u64) -> Result<bool> {
        let Some(source) = self.source_file(from.ino)? else { return Ok(false) };
        let core = &self.0.core;
        let _gate = core.gates.write_in_place(self.0.bucket);
        let _alone = core.gates.reshape(self.0.bucket, to.ino);
        let dirty = self.dirty(to.ino).filter(|dirty| dirty.whole && !dirty.takes_privileges(false));
        let Some(dirty) = dirty else { return Ok(false) };
        let end = to.offset + len;
        let copy = || dirty.file.copy_from(&*source, from.offset, to.offset, len);
        if end > dirty.size() {
            self.grow_dirty(to.ino, &dirty, end, copy)
        } else {
            self.change_dirty(to.ino, &dirty, end, copy)
        }
    }

    /// The file that holds all of an inode's content at the same offsets, if it may be read without verifying
    /// checksums.
    fn source_file(&self, ino: u64) -> Result<Option<Arc<dyn File>>> {
        let core = &self.0.core;
        let _reading = core.readers.begin();
        if let Some(dirty) = core.dirty.get(self.0.bucket, ino).filter(|dirty| dirty.whole) {
            return Ok(Some(dirty.file.clone()));
        }
        let (snapshot, ancestry) = self.0.now()?;
        let (_, inode) = Tree { read: &*snapshot, ancestry: &ancestry }.dirty_inode(ino)?;
        let Some(Content::Blob(content)) = inode.content else { return Ok(None) };
        let record = blob_record(&*snapshot, content.id)?;
        if record.packed.is_some() || (record.sums && !core.passthrough.is_verified(content.id)) {
            return Ok(None);
        }
        core.blobs.file(BlobId(content.id)).map(Some)
    }
}

/// The bytes of a range of a file whose content is inline.
fn in_record(inode: &Inode, offset: u64, len: u64) -> Option<&[u8]> {
    let Some(Content::Inline(bytes)) = &inode.content else { return None };
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(len).ok()?)?)
}

/// Whether a file has no holes.
fn is_dense(inode: &Inode) -> bool {
    inode.holes == 0 && inode.content.as_ref().is_some_and(Content::is_in_place)
}

fn at(spot: Spot, done: u64) -> Spot {
    Spot { offset: spot.offset + done, ..spot }
}

/// Makes an empty inode refer to the content of another of `size` bytes; `false` if either has changed.
fn refer(tx: &mut Tx<'_>, from: u64, to: u64, size: u64) -> Result<bool> {
    let file = |inode: &Inode| inode.kind() == InodeKind::File;
    let (_, source) = tx.tree().dirty_inode(from)?;
    let (_, target) = tx.tree().dirty_inode(to)?;
    let blobs = matches!(source.content, Some(Content::Blob(_) | Content::Extents(_)));
    if !blobs || source.size != size || target.size != 0 || !file(&source) || !file(&target) {
        return Ok(false);
    }
    let mut target = tx.own(to)?;
    target.refuse_fixed(Touching::Changes)?;
    tx.check_changeable(to, &target)?;
    let (_, shared) = tx.share_content(from)?;
    tx.drop_content(to, &target, true)?;
    target.content = tx.take_shared(to, &shared)?;
    tx.resize(&mut target, size);
    target.take(source.taken());
    wrote(tx, to, target, false)?;
    Ok(true)
}
