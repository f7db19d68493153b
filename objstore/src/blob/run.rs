//! A run of a blob's blocks with its open file and checksums, for reading on without asking the metadata again.

use std::sync::Arc;

use bytes::Bytes;

use super::files::Files;
use super::id::BlobId;
use super::read::{self, Span};
use super::sums::verify;
use crate::disk::File;
use crate::error::Result;

/// Blocks of one blob that lie one after the other.
pub struct Run {
    files: Arc<Files>,
    file: Arc<dyn File>,
    id: BlobId,
    length: u64,
    /// The first block.
    first: usize,
    /// The checksums from there on.
    sums: Vec<u32>,
}

impl Run {
    /// The blocks of `sums`, the first of which is `first`, in the file of `id`, which has `length` bytes.
    pub(super) fn open(files: Arc<Files>, id: BlobId, length: u64, first: usize, sums: Vec<u32>) -> Result<Self> {
        let file = files.get(id)?;
        Ok(Self { files, file, id, length, first, sums })
    }

    /// Whether it holds all of `len` bytes at `offset` of the blob.
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

    /// The same from the memory of the system, without waiting for the disk; `None` where that cannot be, and for
    /// bytes that are not what was written.
    pub fn read_cached(&self, offset: u64, len: usize) -> Option<Bytes> {
        let span = self.span(offset, len)?;
        let data = read::read_cached(&self.files, &*self.file, span.start, span.len)?;
        verify("a blob", &data, span.blocks.start, self.sums_of(&span)).ok()?;
        Some(span.cut(&data))
    }

    /// The whole blocks around a range, if all of them are in the run.
    fn span(&self, offset: u64, len: usize) -> Option<Span> {
        let span = Span::around(offset, len, self.length)?;
        (self.first <= span.blocks.start && span.blocks.end <= self.first + self.sums.len()).then_some(span)
    }

    fn sums_of(&self, span: &Span) -> &[u32] {
        &self.sums[span.blocks.start - self.first..span.blocks.end - self.first]
    }
}
