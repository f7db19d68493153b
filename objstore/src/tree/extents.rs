//! Extents: which bytes of an inode lie in which blob, as one branch sees it.
//!
//! - Visible extents never overlap. A change first cuts its range free, then adds what it wrote.
//! - Each extent version holds one reference to its blob.

use prost::Message;

use super::{Tree, Tx};
use crate::blob_records::{release, retain};
use crate::branch::Seen;
use crate::error::{Error, Result};
use crate::record::decode;
use crate::record::inode::{Content, Extent, Inode};
use crate::record::key::{self, Branch};

/// An extent at its position in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    /// Its first byte in the file.
    pub offset: u64,
    /// The branch that wrote it.
    pub branch: Branch,
    /// Where its bytes lie.
    pub extent: Extent,
}

impl Placed {
    /// The first byte of the file after it.
    pub fn end(&self) -> u64 {
        self.offset + self.extent.length
    }

    /// The part of it from `start` to `end`.
    fn part(&self, start: u64, end: u64) -> Extent {
        Extent {
            blob: self.extent.blob,
            blob_offset: self.extent.blob_offset + (start - self.offset),
            length: end - start,
        }
    }
}

fn placed(seen: &Seen) -> Result<Placed> {
    let offset = key::u64_at(&seen.base, key::EXTENT_OFFSET_AT);
    let offset = offset.ok_or_else(|| Error::corrupt("an extent", "an offset in its key", "none"))?;
    let extent: Extent = decode("an extent", &seen.value)?;
    let length = extent.length.max(1);
    if offset.checked_add(length).is_none() || extent.blob_offset.checked_add(length).is_none() {
        return Err(Error::corrupt("an extent", "an end below 2^64", format!("{length} bytes at {offset}")));
    }
    Ok(Placed { offset, branch: seen.branch, extent })
}

impl Tree<'_> {
    /// The extents of an inode with bytes from `start` to `end`, in order.
    pub fn extents(&self, ino: u64, start: u64, end: u64) -> Result<Vec<Placed>> {
        let mut found: Vec<Placed> =
            self.extent_before(ino, start)?.into_iter().filter(|before| before.end() > start).collect();
        let to = key::extent(self.ancestry.clone_group, ino, end);
        for extent in self.ancestry.records(self.read, &key::extent(self.ancestry.clone_group, ino, start), &to) {
            found.push(placed(&extent?)?);
        }
        Ok(found)
    }

    /// The number of bytes from `start` to `end` that lie in extents.
    pub fn held_in_extents(&self, ino: u64, start: u64, end: u64) -> Result<u64> {
        let held = |placed: &Placed| placed.end().min(end).saturating_sub(placed.offset.max(start));
        Ok(self.extents(ino, start, end)?.iter().map(held).sum())
    }

    /// The blobs of an inode's content, without an in-place blob that no extent shows.
    pub fn blobs_of(&self, ino: u64, inode: &Inode) -> Result<Vec<u64>> {
        match &inode.content {
            Some(Content::Blob(content)) => Ok(vec![content.id]),
            Some(Content::Extents(_)) => {
                let shown = self.extents(ino, 0, u64::MAX)?;
                let mut blobs: Vec<u64> = shown.iter().map(|placed| placed.extent.blob).collect();
                blobs.sort_unstable();
                blobs.dedup();
                Ok(blobs)
            }
            Some(Content::Inline(_)) | None => Ok(Vec::new()),
        }
    }

    /// The last extent that begins before `offset`.
    fn extent_before(&self, ino: u64, offset: u64) -> Result<Option<Placed>> {
        let from = key::extents(self.ancestry.clone_group, ino);
        let to = key::extent(self.ancestry.clone_group, ino, offset);
        self.ancestry.last(self.read, &from, &to)?.map(|seen| placed(&seen)).transpose()
    }
}

impl Tx<'_> {
    /// Makes the range read as zeros.
    pub fn cut_extents(&mut self, ino: u64, start: u64, end: u64) -> Result<()> {
        for placed in self.tree().extents(ino, start, end)? {
            if placed.offset < start {
                self.put_extent(ino, placed.offset, placed.part(placed.offset, start))?;
            }
            if placed.end() > end {
                self.put_extent(ino, end, placed.part(end, placed.end()))?;
            }
            if placed.offset >= start {
                self.remove_extent(ino, &placed)?;
            }
        }
        Ok(())
    }

    /// Places a range that was cut free in `extent`, merged with the extent before it if they are contiguous.
    pub fn add_extent(&mut self, ino: u64, offset: u64, extent: Extent) -> Result<()> {
        if extent.length == 0 {
            return Ok(());
        }
        let joins = |before: &Placed| {
            before.end() == offset
                && before.extent.blob == extent.blob
                && before.extent.blob_offset + before.extent.length == extent.blob_offset
        };
        match self.tree().extent_before(ino, offset)?.filter(joins) {
            Some(before) => {
                let joined = Extent { length: before.extent.length + extent.length, ..before.extent };
                self.put_extent(ino, before.offset, joined)
            }
            None => self.put_extent(ino, offset, extent),
        }
    }

    /// Places a range of a new inode in `extent`, whose reference the caller transfers.
    pub fn take_extent(&mut self, ino: u64, offset: u64, extent: Extent) {
        if extent.length > 0 {
            let base = key::extent(self.ancestry.clone_group, ino, offset);
            self.ancestry.put(self.txn, &base, extent.encode_to_vec());
        }
    }

    /// Moves all extents of one inode to another that has none.
    pub fn move_extents(&mut self, from: u64, to: u64) -> Result<()> {
        for placed in self.tree().extents(from, 0, u64::MAX)? {
            self.add_extent(to, placed.offset, placed.extent)?;
        }
        self.cut_extents(from, 0, u64::MAX)
    }

    /// Writes this branch's version of the extent at `offset`, with its reference.
    fn put_extent(&mut self, ino: u64, offset: u64, extent: Extent) -> Result<()> {
        let base = key::extent(self.ancestry.clone_group, ino, offset);
        let before = self.txn.get(&key::branched(&base, self.branch()))?;
        self.ancestry.shadow(self.txn, &base)?;
        retain(self.txn, extent.blob)?;
        if let Some(value) = before.filter(|value| !value.is_empty()) {
            release(self.txn, decode::<Extent>("an extent", &value)?.blob)?;
        }
        self.ancestry.put(self.txn, &base, extent.encode_to_vec());
        Ok(())
    }

    fn remove_extent(&mut self, ino: u64, placed: &Placed) -> Result<()> {
        let base = key::extent(self.ancestry.clone_group, ino, placed.offset);
        self.ancestry.remove(self.txn, &base)?;
        if placed.branch == self.branch() { release(self.txn, placed.extent.blob) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_that_ends_past_all_numbers_is_damage() {
        let read = |offset, blob_offset, length| {
            let value = Extent { blob: 1, blob_offset, length }.encode_to_vec().into();
            placed(&Seen { base: key::extent(1, 2, offset).into(), branch: 3, value })
        };
        assert_eq!(read(7, 9, 5).unwrap().end(), 12);
        for (offset, blob_offset, length) in [(u64::MAX, 0, 0), (u64::MAX - 4, 0, 5), (0, 1, u64::MAX)] {
            assert!(matches!(read(offset, blob_offset, length), Err(Error::Corrupt { .. })));
        }
    }
}
