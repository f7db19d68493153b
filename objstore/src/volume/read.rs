//! Reading, and finding data and holes.

use bytes::Bytes;

use super::session::Volume;
use crate::blob::{BlobId, Place};
use crate::content::{Piece, Plan};
use crate::error::{Posix, Result};
use crate::record::inode::InodeKind;
use crate::tree::Tree;

impl Volume {
    /// Reads up to `len` bytes at `offset`, fewer only at the end of the file.
    pub fn read(&self, ino: u64, offset: u64, len: usize) -> Result<Bytes> {
        let core = &self.0.core;
        self.0.check(false)?;
        // Registered before anything is looked up: content found afterwards is kept until this ends.
        let reading = core.readers.begin();
        if let Some(dirty) = core.dirty.get(self.0.bucket, ino).filter(|dirty| dirty.whole) {
            let held = dirty.size().saturating_sub(offset).min(len as u64);
            let held = usize::try_from(held).unwrap_or(len);
            return if held == 0 { Ok(Bytes::new()) } else { core.blobs.read_file(dirty.blob, offset, held) };
        }
        let (snapshot, ancestry) = self.0.now()?;
        let tree = Tree { read: &*snapshot, ancestry: &ancestry };
        let (_, inode) = tree.dirty_inode(ino)?;
        if inode.is_dir() {
            return Err(Posix::IsDirectory.into());
        }
        Plan::of(tree, ino, &inode, offset, len as u64)?.read(&core.blobs, &core.meta, &*snapshot, &reading)
    }

    /// The first byte of data (or of a hole) at or after `offset`; `None` past the end (lseek(2), SEEK_DATA).
    pub fn seek(&self, ino: u64, offset: u64, data: bool) -> Result<Option<u64>> {
        let _reading = self.0.core.readers.begin();
        let dirty = self.0.core.dirty.get(self.0.bucket, ino);
        let (snapshot, ancestry) = self.0.now()?;
        let tree = Tree { read: &*snapshot, ancestry: &ancestry };
        let (_, mut inode) = tree.dirty_inode(ino)?;
        if let Some(dirty) = dirty {
            dirty.show(&mut inode);
        }
        if inode.kind() != InodeKind::File {
            return Err(Posix::Invalid.into());
        }
        if offset >= inode.size {
            return Ok(None);
        }
        let mut at = offset;
        for piece in Plan::of(tree, ino, &inode, offset, inode.size - offset)?.0 {
            let (length, found) = self.seek_piece(&piece, data)?;
            if let Some(within) = found {
                return Ok(Some(at + within));
            }
            at += length;
        }
        // The end of the file counts as a hole.
        Ok((!data).then_some(inode.size))
    }

    /// The length of a piece, and the position of data (or a hole) in it.
    fn seek_piece(&self, piece: &Piece, data: bool) -> Result<(u64, Option<u64>)> {
        match piece {
            Piece::Zeros(length) => Ok((*length, (!data).then_some(0))),
            Piece::Bytes(bytes) => Ok((bytes.len() as u64, data.then_some(0))),
            Piece::Blob { id, record, offset, length } => {
                if record.sums || matches!(record.place(), Place::Packed { .. }) {
                    return Ok((*length, data.then_some(0)));
                }
                let file = self.0.core.blobs.file(BlobId(*id))?;
                let found = if data { file.seek_data(*offset)? } else { file.seek_hole(*offset)?.or(Some(*offset)) };
                let within = found.map(|found| found - offset).filter(|within| within < length);
                Ok((*length, within))
            }
        }
    }
}
