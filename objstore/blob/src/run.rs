//! A run of a blob's blocks with its open file and checksums, for reading on without asking the metadata again.

use std::sync::Arc;

use bytes::Bytes;
use objstore_base::error::Result;
use objstore_disk::File;

use super::files::Files;
use super::id::BlobId;
use super::read::{self, Span};
use super::sums::verify;

/// Consecutive blocks of one blob.
pub struct Run {
    files: Arc<Files>,
    file: Arc<dyn File>,
    id: BlobId,
    length: u64,
    /// The index of the first block.
    first: usize,
    /// The checksums of the blocks, from `first` on.
    sums: Vec<u32>,
}

impl Run {
    /// A run of the blocks from `first` on, one for each checksum in `sums`, in the file of `id`, which has `length`
    /// bytes.
    pub(super) fn open(files: Arc<Files>, id: BlobId, length: u64, first: usize, sums: Vec<u32>) -> Result<Self> {
        let file = files.get(id)?;
        Ok(Self { files, file, id, length, first, sums })
    }

    /// Whether the run contains all of `len` bytes at `offset` of the blob.
    pub fn holds(&self, offset: u64, len: usize) -> bool {
        self.span(offset, len).is_some()
    }

    /// `len` bytes at `offset` of the blob, verified.
    pub fn read(&self, offset: u64, len: usize) -> Result<Bytes> {
        let span = self.span(offset, len).ok_or_else(|| read::out_of_range(self.id, offset, len, self.length))?;
        let data = read::read_exactly(&self.files, &*self.file, self.id, span.start, span.len)?;
        verify(&format!("blob {}", self.id), &data, span.blocks.start, self.sums_of(&span))?;
        Ok(span.cut(&data))
    }

    /// `len` bytes at `offset` of the blob, verified, from the page cache without waiting for the disk; `None` if they
    /// are not there, or differ from what was written.
    pub fn read_cached(&self, offset: u64, len: usize) -> Option<Bytes> {
        let span = self.span(offset, len)?;
        let data = read::read_cached(&self.files, &*self.file, span.start, span.len)?;
        verify("a blob", &data, span.blocks.start, self.sums_of(&span)).ok()?;
        Some(span.cut(&data))
    }

    /// The whole blocks around a range, if the run contains all of them.
    fn span(&self, offset: u64, len: usize) -> Option<Span> {
        let span = Span::around(offset, len, self.length)?;
        (self.first <= span.blocks.start && span.blocks.end <= self.first + self.sums.len()).then_some(span)
    }

    fn sums_of(&self, span: &Span) -> &[u32] {
        &self.sums[span.blocks.start - self.first..span.blocks.end - self.first]
    }
}
