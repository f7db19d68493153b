//! Streaming writer of one large blob.
//!
//! - The file receives whole blocks, from aligned memory and at aligned offsets, however the input is split. Input
//!   pieces that are such blocks already are not copied.
//! - The beginning is written through the page cache, where the next reader finds it; bytes beyond [`CACHED_BYTES`]
//!   bypass it if the file system can (docs/internals/decisions/0016).
//! - Checksums are computed while writing; nothing is read back.
//! - Content and name are durable when [`FileWriter::finish`] returns; until then no one else knows the id.
//!
//! Dropping the writer early removes the file. After a crash the collector of unreferenced files removes it.

use std::sync::Arc;

use objstore_base::error::Result;
use objstore_disk::{File, direct_part};

use super::block::Block;
use super::files::Files;
use super::id::BlobId;
use super::sums::Summer;

// How much of a blob is written through the page cache, in bytes: most content is soon read, but one large blob should
// not displace everything else, nor wait until the kernel has made space.
const CACHED_BYTES: u64 = 64 * 1024 * 1024;
// After this many bytes the disk starts to write, while the rest arrives: one stream becomes a third faster.
const STRIDE: u64 = 8 * 1024 * 1024;
// Shorter pieces are collected first, since a write to disk costs more than copying them.
const UNCOPIED_BYTES_MIN: usize = 64 * 1024;

/// Writes one blob to its own file.
pub struct FileWriter {
    files: Arc<Files>,
    id: BlobId,
    file: Arc<dyn File>,
    // Content that was received and is not written yet; allocated when first needed.
    buffer: Option<Block>,
    written: u64,
    // The offset up to which the system was asked to write to disk.
    begun: u64,
    sums: Summer,
    stage: Stage,
}

enum Stage {
    Open,
    // A write failed, so the content of the file is unknown.
    Failed(objstore_base::error::Error),
    Finished,
}

/// A blob that is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Its id.
    pub id: BlobId,
    /// Its length, in bytes.
    pub length: u64,
    /// One checksum per [`SUM_BLOCK`](super::SUM_BLOCK) bytes.
    pub sums: Vec<u32>,
}

impl FileWriter {
    pub(super) fn create(files: Arc<Files>, id: BlobId) -> Result<Self> {
        let file = files.create_whole(id)?;
        Ok(Self { files, id, file, buffer: None, written: 0, begun: 0, sums: Summer::default(), stage: Stage::Open })
    }

    /// The id of the blob.
    pub fn id(&self) -> BlobId {
        self.id
    }

    /// Appends `data`. After an error, every later call returns that error.
    pub fn write(&mut self, data: &[u8]) -> Result<()> {
        self.check()?;
        self.sums.add(data);
        let result = self.take(data);
        self.note(result)
    }

    /// Makes the blob durable.
    pub fn finish(mut self) -> Result<Finished> {
        self.check()?;
        self.flush()?;
        self.files.publish(self.id, &*self.file)?;
        self.stage = Stage::Finished;
        Ok(Finished { id: self.id, length: self.written, sums: std::mem::take(&mut self.sums).finish() })
    }

    fn take(&mut self, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            let (ready, rest) = data.split_at(self.ready(data));
            self.put(ready)?;
            data = &rest[self.keep(rest)..];
            if self.buffer.as_ref().is_some_and(Block::is_full) {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// How many bytes of the front of `data` can be written directly from where they are.
    fn ready(&self, data: &[u8]) -> usize {
        let between_blocks = self.buffer.as_ref().is_none_or(Block::is_empty);
        if between_blocks && data.len() >= UNCOPIED_BYTES_MIN { direct_part(data, self.written) } else { 0 }
    }

    /// Copies bytes into the buffer; returns how many fit.
    fn keep(&mut self, data: &[u8]) -> usize {
        if data.is_empty() {
            return 0;
        }
        self.buffer.get_or_insert_with(|| self.files.block()).fill(data)
    }

    fn flush(&mut self) -> Result<()> {
        let Some(mut buffer) = self.buffer.take() else { return Ok(()) };
        let result = self.put(buffer.as_ref());
        buffer.clear();
        self.buffer = Some(buffer);
        result
    }

    fn put(&mut self, data: &[u8]) -> Result<()> {
        if !data.is_empty() {
            let written = match self.written < CACHED_BYTES {
                true => self.file.write_at(data, self.written),
                false => self.file.write_direct(data, self.written),
            };
            self.files.judge_write(written)?;
            self.written += data.len() as u64;
            if self.written - self.begun >= STRIDE {
                self.file.begin_sync(self.begun, self.written - self.begun);
                self.begun = self.written;
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        match &self.stage {
            Stage::Failed(error) => Err(error.clone()),
            Stage::Open | Stage::Finished => Ok(()),
        }
    }

    fn note(&mut self, result: Result<()>) -> Result<()> {
        if let Err(error) = &result {
            self.stage = Stage::Failed(error.clone());
        }
        result
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Finished) {
            return;
        }
        if let Err(error) = self.files.remove(self.id) {
            tracing::warn!(blob = %self.id, %error, "an unfinished blob could not be removed; the next collection removes it");
        }
    }
}
