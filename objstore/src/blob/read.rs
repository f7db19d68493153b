//! Reading a blob that has a file of its own.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::block::BLOCK_BYTES;
use super::files::Files;
use super::id::BlobId;
use super::sums::{SUM_BLOCK, verify};
use crate::error::{Error, Result};

// Shorter reads get memory of their own: a whole block would be more than the page faults it saves.
const POOLED_BYTES_MIN: usize = BLOCK_BYTES / 2;

/// The checksums of a range of blocks, from wherever the caller keeps them.
pub type SumsOf<'a> = dyn Fn(Range<usize>) -> Result<Vec<u32>> + 'a;

/// `len` bytes at `offset`, unverified; what the file does not hold reads as zeros.
pub(super) fn read_file(files: &Files, id: BlobId, offset: u64, len: usize) -> Result<Bytes> {
    let mut buf = BytesMut::zeroed(len);
    files.get(id)?.read_at(&mut buf, offset)?;
    Ok(buf.freeze())
}

/// `len` bytes at `offset` of a blob of `file_length` bytes, compared with its checksums.
pub(super) fn read_verified(
    files: &Files,
    id: BlobId,
    offset: u64,
    len: usize,
    file_length: u64,
    sums: &SumsOf<'_>,
) -> Result<Bytes> {
    let end = offset.checked_add(len as u64).filter(|end| *end <= file_length);
    let end = end.ok_or_else(|| out_of_range(id, offset, len, file_length))?;
    if len == 0 {
        return Ok(Bytes::new());
    }
    let block = SUM_BLOCK as u64;
    let (first, past) = (offset / block, end.div_ceil(block));
    let start = first * block;
    let wide = (past * block).min(file_length) - start;
    let data = read_exactly(files, id, start, wide as usize)?;
    verify(&format!("blob {id}"), &data, first as usize, &sums(first as usize..past as usize)?)?;
    let skip = (offset - start) as usize;
    Ok(data.slice(skip..skip + len))
}

fn read_exactly(files: &Files, id: BlobId, offset: u64, len: usize) -> Result<Bytes> {
    let file = files.get(id)?;
    let short = |count: usize| {
        let expected = format!("{len} bytes at {offset}");
        Error::corrupt(format!("blob {id}"), expected, format!("{count} bytes"))
    };
    if (POOLED_BYTES_MIN..=BLOCK_BYTES).contains(&len) {
        let mut block = files.block();
        let count = block.load(|room| file.read_at(&mut room[..len], offset))?;
        return if count < len { Err(short(count)) } else { Ok(block.freeze()) };
    }
    let mut buf = BytesMut::zeroed(len);
    let count = file.read_at(&mut buf, offset)?;
    if count < len { Err(short(count)) } else { Ok(buf.freeze()) }
}

fn out_of_range(id: BlobId, offset: u64, len: usize, file_length: u64) -> Error {
    Error::invalid("range", format!("{len} bytes at {offset}"), format!("blob {id} has {file_length} bytes"))
}
