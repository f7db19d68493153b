//! Reference counts of blobs, kept in the blob's record and changed in the transaction that adds or drops the
//! reference.
//!
//! - Each of these holds one reference: an inode version's blob or in-place blob, an extent version, a piece of a part.
//! - The last reference removes the blob's record and puts its file in the trash; packed bytes count as dead in their
//!   segment.

use prost::Message;

use crate::blob::{BlobId, Blobs};
use crate::error::{Error, Result};
use crate::meta::{Read, Txn};
use crate::record::blob::{Blob, PackedAt, SUMS_PER_RECORD, Segment, Trash};
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::placed::PlacedFile;
use crate::scan::all;

/// The record of a referenced blob.
pub(crate) fn blob(read: &dyn Read, id: u64) -> Result<Blob> {
    let value = read.get(&key::by_id(tag::BLOB, id))?;
    let value = value
        .ok_or_else(|| Error::corrupt(format!("blob {id:016x}"), "a record, since something refers to it", "none"))?;
    decode("a blob", &value)
}

/// Writes the record of a blob.
pub(crate) fn put_blob(txn: &mut dyn Txn, id: u64, blob: &Blob) {
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

/// Gives a copy of a blob the checksums of the original, whose record this is.
pub(crate) fn copy_sums(txn: &mut dyn Txn, blob: BlobId, copy: BlobId, record: &Blob) -> Result<()> {
    if !record.sums {
        return Ok(());
    }
    for pair in all(&*txn, &key::sums_of(blob.0))? {
        let index = pair.key.last_chunk::<4>().map_or(0, |index| u32::from_be_bytes(*index));
        txn.put(key::sums(copy.0, index), pair.value.to_vec());
    }
    Ok(())
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
pub(crate) fn count_segment(txn: &mut dyn Txn, at: PackedAt, bytes: i64) -> Result<()> {
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

/// Adds the record of a new in-place blob. In a bucket nothing may be of it yet: its placed record says that it is there,
/// and empty, so that it is no damage if its server dies before its first save.
pub(crate) fn add_in_place(txn: &mut dyn Txn, blobs: &Blobs, id: BlobId) -> Result<()> {
    put_blob(txn, id.0, &Blob { refs: 1, length: 0, packed: None, sums: false });
    let placed = key::by_id(tag::PLACED, id.0);
    // It may have been saved already.
    if blobs.is_remote() && txn.get(&placed)?.is_none() {
        txn.put(placed, PlacedFile::default().encode_to_vec());
    }
    Ok(())
}
