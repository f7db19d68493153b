//! Reference counts of blobs, kept in the blob's record and changed in the transaction that adds or drops the
//! reference.
//!
//! - Each of these holds one reference: an inode version's blob or in-place blob, an extent version, a piece of a part.
//! - The last reference removes the blob's record and puts its file in the trash; packed bytes count as dead in their
//!   segment.

use prost::Message;

use super::staged::{Body, Staged};
use crate::blob::BlobId;
use crate::error::{Error, Result};
use crate::meta::{Read, Txn};
use crate::record::blob::{Blob, PackedAt, SUMS_PER_RECORD, Segment, Sums, Trash};
use crate::record::decode;
use crate::record::inode::{BlobContent, Content, ExtentContent, Inode};
use crate::record::key::{self, tag};
use crate::tree::Tx;

/// The record of a referenced blob.
pub(crate) fn blob(read: &dyn Read, id: u64) -> Result<Blob> {
    let value = read.get(&key::by_id(tag::BLOB, id))?;
    let value = value
        .ok_or_else(|| Error::corrupt(format!("blob {id:016x}"), "a record, since something refers to it", "none"))?;
    decode("a blob", &value)
}

pub(super) fn put_blob(txn: &mut dyn Txn, id: u64, blob: &Blob) {
    txn.put(key::by_id(tag::BLOB, id), blob.encode_to_vec());
}

/// Adds a reference.
pub(crate) fn retain(txn: &mut dyn Txn, id: u64) -> Result<()> {
    let mut record = blob(&*txn, id)?;
    record.refs += 1;
    put_blob(txn, id, &record);
    Ok(())
}

/// Drops a reference.
pub(crate) fn release(txn: &mut dyn Txn, id: u64) -> Result<()> {
    let mut record = blob(&*txn, id)?;
    if record.refs > 1 {
        record.refs -= 1;
        put_blob(txn, id, &record);
        return Ok(());
    }
    txn.delete(key::by_id(tag::BLOB, id));
    drop_sums(txn, id, &record);
    match record.packed {
        Some(at) => count_segment(txn, at, -i64::try_from(record.length).unwrap_or(i64::MAX)),
        None => discard(txn, id),
    }
}

/// Removes the checksums of a blob.
pub(crate) fn drop_sums(txn: &mut dyn Txn, id: u64, record: &Blob) {
    if record.sums {
        for index in 0..sum_records(record.length) {
            txn.delete(key::sums(id, index));
        }
    }
}

/// Records that a blob has no checksums any more, because it is about to change in place.
pub(crate) fn forget_sums(txn: &mut dyn Txn, id: u64, record: &Blob) {
    put_blob(txn, id, &Blob { sums: false, length: 0, ..*record });
}

fn sum_records(length: u64) -> u32 {
    let covered = crate::blob::SUM_BLOCK as u64 * SUMS_PER_RECORD as u64;
    u32::try_from(length.div_ceil(covered)).unwrap_or(u32::MAX)
}

/// Puts a blob's file in the trash.
fn discard(txn: &mut dyn Txn, id: u64) -> Result<()> {
    let order = crate::header::next_trash(txn)?;
    txn.put(key::by_id(tag::TRASH, order), Trash { blob: id }.encode_to_vec());
    Ok(())
}

/// Adds to or subtracts from the bytes of a segment.
fn count_segment(txn: &mut dyn Txn, at: PackedAt, bytes: i64) -> Result<()> {
    let segment_key = key::by_id(tag::SEGMENT, at.segment);
    let mut segment: Segment =
        txn.get(&segment_key)?.map_or(Ok(Segment::default()), |value| decode("a segment", &value))?;
    segment.live_bytes = segment.live_bytes.saturating_add_signed(bytes);
    segment.stored_bytes += u64::try_from(bytes).unwrap_or(0);
    txn.put(segment_key, segment.encode_to_vec());
    Ok(())
}

/// Moves the bytes of a packed blob from one segment's count to another's.
pub(crate) fn move_packed(txn: &mut dyn Txn, id: u64, record: &Blob, to: PackedAt) -> Result<()> {
    if let Some(from) = record.packed {
        count_segment(txn, from, -i64::try_from(record.length).unwrap_or(i64::MAX))?;
    }
    count_segment(txn, to, i64::try_from(record.length).unwrap_or(i64::MAX))?;
    put_blob(txn, id, &Blob { packed: Some(to), ..*record });
    Ok(())
}

/// Takes staged content into the transaction, with one reference; `None` for empty content.
pub(crate) fn take_staged(txn: &mut dyn Txn, staged: Staged) -> Result<Option<Content>> {
    let Staged { length, body, cleanup, guard } = staged;
    let content = match body {
        Body::Inline(data) if data.is_empty() => None,
        Body::Inline(data) => Some(Content::Inline(data)),
        Body::Packed(id, at) => {
            put_blob(txn, id.0, &Blob { refs: 1, length, packed: Some(at), sums: false });
            count_segment(txn, at, i64::try_from(length).unwrap_or(i64::MAX))?;
            Some(Content::Blob(BlobContent { id: id.0, in_place: false }))
        }
        Body::File(id, sums) => {
            put_blob(txn, id.0, &Blob { refs: 1, length, packed: None, sums: true });
            for (index, block) in (0..).zip(sums.chunks(SUMS_PER_RECORD)) {
                txn.put(key::sums(id.0, index), Sums { crc: block.to_vec() }.encode_to_vec());
            }
            Some(Content::Blob(BlobContent { id: id.0, in_place: false }))
        }
    };
    if let Some(cleanup) = cleanup {
        cleanup.keep_after(txn);
    }
    if let Some(guard) = guard {
        txn.after_commit(Box::new(move || drop(guard)));
    }
    Ok(content)
}

/// Adds the record of a new in-place blob.
pub(crate) fn add_in_place(txn: &mut dyn Txn, id: BlobId) {
    put_blob(txn, id.0, &Blob { refs: 1, length: 0, packed: None, sums: false });
}

impl Tx<'_> {
    /// For a version inherited from an ancestor: refers to the ancestor's content without an in-place blob.
    pub fn adopt_content(&mut self, inode: &mut Inode) -> Result<()> {
        match &mut inode.content {
            Some(Content::Blob(content)) => {
                content.in_place = false;
                retain(self.txn, content.id)
            }
            Some(Content::Extents(content)) => {
                content.in_place = None;
                Ok(())
            }
            Some(Content::Inline(_)) | None => Ok(()),
        }
    }

    /// Replaces an inode's content; `content` carries its reference already.
    pub fn replace_content(&mut self, ino: u64, inode: &mut Inode, content: Option<Content>, size: u64) -> Result<()> {
        self.drop_content(ino, inode, true)?;
        inode.content = content;
        self.resize(inode, size);
        Ok(())
    }

    /// Drops an inode's references. `owned`: the inode is this branch's own version.
    pub fn drop_content(&mut self, ino: u64, inode: &Inode, owned: bool) -> Result<()> {
        if let Some(Content::Extents(_)) = &inode.content {
            self.cut_extents(ino, 0, u64::MAX)?;
        }
        match &inode.content {
            Some(Content::Blob(content)) if owned => release(self.txn, content.id),
            Some(Content::Extents(ExtentContent { in_place: Some(in_place) })) if owned => release(self.txn, *in_place),
            _ => Ok(()),
        }
    }
}
