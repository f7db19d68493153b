//! Content by reference: copies and parts that refer to the blobs of their source.
//!
//! - The source gives up its in-place blob, so that content with other references is never changed in place. The
//!   bucket's gate is held exclusively until that is committed.
//! - A blob open by passthrough stays the file's own: others refer to a copy. It is made before the
//!   transaction where the caller knows of it, and otherwise within it, up to a size.

use std::collections::HashMap;

use bytes::Bytes;

use super::Tx;
use super::extents::Placed;
use crate::blob::BlobId;
use crate::blob_records::{blob_record, copy_sums, put_blob, release, retain};
use crate::error::{Error, Result};
use crate::passthrough::{Duplicate, Reference};
use crate::record::blob::Blob;
use crate::record::inode::{BlobContent, Content, Extent, ExtentContent, Inode};

/// Content of a source, to be referred to by others in the same transaction.
pub(crate) enum SharedContent {
    /// Inline bytes.
    Inline(Bytes),
    /// A whole blob.
    Blob(u64),
    /// Ranges of blobs.
    Extents(Vec<Placed>),
    /// Nothing, or a hole.
    Nothing,
}

impl Tx<'_> {
    /// Makes the content of an inode safe to refer to, and returns it.
    ///
    /// # Errors
    /// [`Error::Busy`] if a program has it open by passthrough, no copy was prepared, and it is too large to copy it in
    /// the transaction.
    pub fn share_content(&mut self, ino: u64) -> Result<(Inode, SharedContent)> {
        let (branch, mut inode) = self.tree().dirty_inode(ino)?;
        let mut copies = Copies::default();
        let shared = match &inode.content {
            None => SharedContent::Nothing,
            Some(Content::Inline(data)) => SharedContent::Inline(data.clone()),
            Some(Content::Blob(content)) => SharedContent::Blob(self.lent(&mut copies, content.id)?),
            Some(Content::Extents(_)) => {
                let mut extents = self.tree().extents(ino, 0, u64::MAX)?;
                for placed in &mut extents {
                    placed.extent.blob = self.lent(&mut copies, placed.extent.blob)?;
                }
                SharedContent::Extents(extents)
            }
        };
        if branch == self.branch() {
            self.give_up_in_place(ino, &mut inode, &copies)?;
        }
        Ok((inode, shared))
    }

    /// The blob to refer to in place of `blob`: itself, or a copy, whose record is created here without a reference.
    fn lent(&mut self, copies: &mut Copies, blob: u64) -> Result<u64> {
        if let Some(known) = copies.known.get(&blob) {
            return Ok(known.unwrap_or(blob));
        }
        let copy = match self.core.passthrough.refer(blob) {
            Reference::Own(sharing) => {
                self.txn.after_commit(Box::new(move || drop(sharing)));
                None
            }
            Reference::Copy(copy) => Some(self.name_copy(blob, copy)?),
            // The file was opened before its bucket kept versions, and has become one of several names.
            Reference::Missing => match self.core.passthrough.copy_within(blob)? {
                Some(copy) => Some(self.name_copy(blob, copy)?),
                None => return Err(Error::Busy { what: "a file that a program has open for passthrough".into() }),
            },
        };
        copies.known.insert(blob, copy);
        Ok(copy.unwrap_or(blob))
    }

    /// Creates the record of a copy of `blob`, and returns its id.
    fn name_copy(&mut self, blob: u64, copy: Duplicate) -> Result<u64> {
        let record = blob_record(&*self.txn, blob)?;
        let copy = copy.name(self.txn);
        copy_sums(self.txn, BlobId(blob), copy, &record)?;
        put_blob(self.txn, copy.0, &Blob { refs: 0, ..record });
        Ok(copy.0)
    }

    fn give_up_in_place(&mut self, ino: u64, inode: &mut Inode, copies: &Copies) -> Result<()> {
        match &mut inode.content {
            Some(Content::Blob(content)) if copies.has(content.id) => return Ok(()),
            Some(Content::Blob(content @ BlobContent { in_place: true, .. })) => content.in_place = false,
            Some(Content::Extents(content @ ExtentContent { in_place: Some(_) })) => {
                if let Some(in_place) = content.in_place.take() {
                    release(self.txn, in_place)?;
                }
            }
            _ => return Ok(()),
        }
        self.save(ino, inode);
        Ok(())
    }

    /// Content for the inode `ino` that refers to shared content.
    pub fn take_shared(&mut self, ino: u64, shared: &SharedContent) -> Result<Option<Content>> {
        match shared {
            SharedContent::Nothing => Ok(None),
            SharedContent::Inline(data) => Ok(Some(Content::Inline(data.clone()))),
            SharedContent::Blob(id) => {
                retain(self.txn, *id)?;
                Ok(Some(Content::Blob(BlobContent { id: *id, in_place: false })))
            }
            SharedContent::Extents(extents) => {
                for placed in extents {
                    self.add_extent(ino, placed.offset, placed.extent)?;
                }
                Ok(Some(Content::Extents(ExtentContent { in_place: None })))
            }
        }
    }

    /// Makes ranges of an inode's blobs safe to refer to, and returns them, each with its reference. Blob zero stands
    /// for zeros.
    pub fn share_pieces(&mut self, ino: u64, pieces: Vec<Extent>) -> Result<Vec<Extent>> {
        let (branch, mut inode) = self.tree().dirty_inode(ino)?;
        let (mut shared, mut copies) = (Vec::with_capacity(pieces.len()), Copies::default());
        for piece in pieces {
            if piece.blob == 0 {
                shared.push(piece);
                continue;
            }
            let blob = self.lent(&mut copies, piece.blob)?;
            retain(self.txn, blob)?;
            shared.push(Extent { blob, ..piece });
        }
        if branch == self.branch() {
            self.give_up_in_place(ino, &mut inode, &copies)?;
        }
        Ok(shared)
    }
}

/// The replacements for blobs: a copy, or none for those that may be referred to.
#[derive(Default)]
struct Copies {
    known: HashMap<u64, Option<u64>>,
}

impl Copies {
    fn has(&self, blob: u64) -> bool {
        self.known.get(&blob).is_some_and(Option::is_some)
    }
}
