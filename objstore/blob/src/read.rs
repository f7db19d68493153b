//! Reading a blob from its own file.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use objstore_base::error::{Error, Result};
use objstore_disk::File;

use super::block::BLOCK_BYTES;
use super::files::Files;
use super::id::BlobId;
use super::sums::{SUM_BLOCK, verify};

// The shortest read that uses a pooled block, in bytes. For shorter ones a whole block would cost more than the page
// faults it saves.
const POOLED_BYTES_MIN: usize = BLOCK_BYTES / 2;

/// Returns the checksums of a range of blocks.
pub type SumsOf<'a> = dyn Fn(Range<usize>) -> Result<Vec<u32>> + 'a;

/// The whole blocks around a range of bytes.
pub(super) struct Span {
    pub(super) blocks: Range<usize>,
    /// The offset of the first block, and the length of all of them, in bytes.
    pub(super) start: u64,
    pub(super) len: usize,
    /// The range, relative to the first block.
    range: Range<usize>,
}

impl Span {
    /// The blocks around `len` bytes at `offset` of a blob of `length` bytes; `None` if the range extends beyond the
    /// blob.
    pub(super) fn around(offset: u64, len: usize, length: u64) -> Option<Self> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= length)?;
        let block = SUM_BLOCK as u64;
        let (first, past) = (offset / block, end.div_ceil(block));
        let start = first * block;
        let wide = (past * block).min(length).saturating_sub(start);
        let skip = (offset - start) as usize;
        Some(Self { blocks: first as usize..past as usize, start, len: wide as usize, range: skip..skip + len })
    }

    /// The range, cut out of the blocks' content.
    pub(super) fn cut(&self, data: &Bytes) -> Bytes {
        data.slice(self.range.clone())
    }
}

/// `len` bytes at `offset`, not verified; bytes beyond the end of the file are zeros.
pub(super) fn read_file(files: &Files, id: BlobId, offset: u64, len: usize) -> Result<Bytes> {
    let mut buf = BytesMut::zeroed(len);
    files.get(id)?.read_at(&mut buf, offset)?;
    Ok(buf.freeze())
}

/// `len` bytes at `offset` of a blob of `file_length` bytes, verified by its checksums.
pub(super) fn read_verified(
    files: &Files,
    id: BlobId,
    offset: u64,
    len: usize,
    file_length: u64,
    sums: &SumsOf<'_>,
) -> Result<Bytes> {
    let span = Span::around(offset, len, file_length);
    let span = span.ok_or_else(|| out_of_range(id, offset, len, file_length))?;
    if len == 0 {
        return Ok(Bytes::new());
    }
    let data = read_exactly(files, &*files.get(id)?, id, span.start, span.len)?;
    verify(&format!("blob {id}"), &data, span.blocks.start, &sums(span.blocks.clone())?)?;
    Ok(span.cut(&data))
}

/// Exactly `len` bytes at `offset` of the open file of `id`.
pub(super) fn read_exactly(files: &Files, file: &dyn File, id: BlobId, offset: u64, len: usize) -> Result<Bytes> {
    let mut count = 0;
    let data = filled(files, len, |room| {
        count = file.read_at(room, offset)?;
        Ok(())
    })?;
    if count < len {
        let expected = format!("{len} bytes at {offset}");
        return Err(Error::corrupt(format!("blob {id}"), expected, format!("{count} bytes")));
    }
    Ok(data)
}

/// Exactly `len` bytes at `offset` of the open file, from the page cache; `None` if not all of them are in it.
pub(super) fn read_cached(files: &Files, file: &dyn File, offset: u64, len: usize) -> Option<Bytes> {
    let mut all = false;
    let data = filled(files, len, |room| {
        all = file.read_cached(room, offset);
        Ok(())
    });
    data.ok().filter(|_| all)
}

/// `len` bytes of memory, filled by `fill`.
fn filled(files: &Files, len: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Bytes> {
    if (POOLED_BYTES_MIN..=BLOCK_BYTES).contains(&len) {
        let mut block = files.block();
        block.load(|room| fill(&mut room[..len]).map(|()| len))?;
        return Ok(block.freeze());
    }
    let mut buf = BytesMut::zeroed(len);
    fill(&mut buf)?;
    Ok(buf.freeze())
}

/// The error for a range that extends beyond the blob.
pub(super) fn out_of_range(id: BlobId, offset: u64, len: usize, file_length: u64) -> Error {
    Error::invalid("range", format!("{len} bytes at {offset}"), format!("blob {id} has {file_length} bytes"))
}
