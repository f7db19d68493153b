//! Reading blobs as their records describe them: packed, verified against their checksums, or in place.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::refs::blob;
use crate::blob::{BlobId, Blobs, Place, Run, SUM_BLOCK};
use crate::error::{Error, Result};
use crate::meta::Read;
use crate::record::blob::{Blob, SUMS_PER_RECORD, Sums};
use crate::record::decode;
use crate::record::key;

/// Reads a range of a blob, verified unless the blob is an in-place blob. Bytes past its end are zeros.
pub(crate) fn verified_blob(
    blobs: &Blobs,
    read: &dyn Read,
    id: u64,
    record: &Blob,
    offset: u64,
    length: u64,
) -> Result<Bytes> {
    verified_at(blobs, read, (id, BlobId(id)), record, offset, length)
}

/// Reads a range of the blob `id` whose bytes lie in `file`: the blob, or its copy.
pub(crate) fn verified_at(
    blobs: &Blobs,
    read: &dyn Read,
    (id, file): (u64, BlobId),
    record: &Blob,
    offset: u64,
    length: u64,
) -> Result<Bytes> {
    let len = to_usize(length)?;
    match record.place() {
        Place::Packed { segment, offset: at } => {
            let data = blobs.read_packed(BlobId(id), segment, at, record.length)?;
            let from = to_usize(offset)?;
            let held = data.slice(from.min(data.len())..(from + len).min(data.len()));
            Ok(padded(held, len))
        }
        Place::File if record.sums => {
            let held = to_usize(record.length.saturating_sub(offset).min(length))?;
            let sums = |blocks: Range<usize>| sums_of(read, id, blocks);
            Ok(padded(blobs.read_verified(file, offset, held, record.length, &sums)?, len))
        }
        Place::File => blobs.read_file(file, offset, len),
    }
}

fn sums_of(read: &dyn Read, id: u64, blocks: Range<usize>) -> Result<Vec<u32>> {
    let mut sums = Vec::with_capacity(blocks.len());
    for index in blocks.start / SUMS_PER_RECORD..blocks.end.div_ceil(SUMS_PER_RECORD) {
        let crc = sums_record(read, id, index)?;
        let first = index * SUMS_PER_RECORD;
        let (from, to) = (blocks.start.saturating_sub(first), (blocks.end - first).min(crc.len()));
        sums.extend_from_slice(crc.get(from..to).unwrap_or_default());
    }
    Ok(sums)
}

/// One record of checksums of a blob.
fn sums_record(read: &dyn Read, id: u64, index: usize) -> Result<Vec<u32>> {
    let what = || format!("checksums {index} of blob {id:016x}");
    let number = u32::try_from(index).map_err(|_| Error::corrupt(what(), "an index of 32 bits", "a larger one"))?;
    let value = read.get(&key::sums(id, number))?.ok_or_else(|| Error::corrupt(what(), "a record", "none"))?;
    Ok(decode::<Sums>("checksums of a blob", &value)?.crc)
}

/// The blocks around `offset` of a blob whose checksums are in one record; `None` if it has no checksums, or is packed.
pub(crate) fn run_at(blobs: &Blobs, read: &dyn Read, id: u64, offset: u64) -> Result<Option<Run>> {
    let record = blob(read, id)?;
    if record.place() != Place::File || !record.sums {
        return Ok(None);
    }
    let index = to_usize(offset)? / SUM_BLOCK / SUMS_PER_RECORD;
    let sums = sums_record(read, id, index)?;
    blobs.run(BlobId(id), record.length, index * SUMS_PER_RECORD, sums).map(Some)
}

fn padded(data: Bytes, len: usize) -> Bytes {
    if data.len() == len {
        return data;
    }
    let mut whole = BytesMut::with_capacity(len);
    whole.extend_from_slice(&data);
    whole.resize(len, 0);
    whole.freeze()
}

/// A length or an offset in memory.
pub(crate) fn to_usize(number: u64) -> Result<usize> {
    usize::try_from(number).map_err(|_| Error::invalid("length", number.to_string(), "it does not fit in memory"))
}

const _: () = assert!(SUM_BLOCK.is_power_of_two());
