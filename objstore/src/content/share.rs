//! Content by reference: copies and parts refer to the blobs of their source.
//!
//! - The source gives up its home, so that nobody changes in place what others refer to. The bucket's gate is held
//!   alone until that is committed.

use super::extents::Placed;
use super::plan::{Piece, Plan};
use super::refs::{release, retain};
use crate::error::{Error, Result};
use crate::record::inode::{BlobContent, Content, Extent, ExtentContent, Inode};
use crate::tree::Tx;

/// Content of a source, to be given to others in the same transaction.
pub(crate) enum Shared {
    /// Bytes.
    Inline(Vec<u8>),
    /// The whole of a blob.
    Blob(u64),
    /// Ranges of blobs.
    Extents(Vec<Placed>),
    /// Nothing, or a hole.
    Nothing,
}

impl Tx<'_> {
    /// Makes the content of an inode safe to refer to, and gives it.
    pub fn share_content(&mut self, ino: u64) -> Result<(Inode, Shared)> {
        let (branch, mut inode) = self.tree().live_inode(ino)?;
        if branch == self.branch() {
            self.give_up_home(ino, &mut inode)?;
        }
        let shared = match &inode.content {
            None => Shared::Nothing,
            Some(Content::Inline(data)) => Shared::Inline(data.clone()),
            Some(Content::Blob(content)) => Shared::Blob(content.id),
            Some(Content::Extents(_)) => Shared::Extents(self.tree().extents(ino, 0, u64::MAX)?),
        };
        Ok((inode, shared))
    }

    fn give_up_home(&mut self, ino: u64, inode: &mut Inode) -> Result<()> {
        match &mut inode.content {
            Some(Content::Blob(content @ BlobContent { home: true, .. })) => content.home = false,
            Some(Content::Extents(content @ ExtentContent { home: Some(_) })) => {
                if let Some(home) = content.home.take() {
                    release(self.txn, home)?;
                }
            }
            _ => return Ok(()),
        }
        self.save(ino, inode);
        Ok(())
    }

    /// Content for the inode `ino` that refers to what was shared.
    pub fn take_shared(&mut self, ino: u64, shared: &Shared) -> Result<Option<Content>> {
        match shared {
            Shared::Nothing => Ok(None),
            Shared::Inline(data) => Ok(Some(Content::Inline(data.clone()))),
            Shared::Blob(id) => {
                retain(self.txn, *id)?;
                Ok(Some(Content::Blob(BlobContent { id: *id, home: false })))
            }
            Shared::Extents(extents) => {
                for placed in extents {
                    self.add_extent(ino, placed.offset, placed.extent)?;
                }
                Ok(Some(Content::Extents(ExtentContent { home: None })))
            }
        }
    }

    /// The pieces of a part that is a range of an inode, each with its reference.
    pub fn share_range(&mut self, ino: u64, offset: u64, length: u64) -> Result<Vec<Extent>> {
        let (inode, _) = self.share_content(ino)?;
        let plan = Plan::of(self.tree(), ino, &inode, offset, length)?;
        let mut pieces = Vec::new();
        for piece in plan.0 {
            match piece {
                Piece::Zeros(length) => pieces.push(Extent { blob: 0, blob_offset: 0, length }),
                Piece::Blob { id, offset, length, .. } => {
                    retain(self.txn, id)?;
                    pieces.push(Extent { blob: id, blob_offset: offset, length });
                }
                Piece::Bytes(_) => return Err(Error::Busy { what: "the object, which is being written,".into() }),
            }
        }
        Ok(pieces)
    }
}
