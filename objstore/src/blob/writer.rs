//! Writing one large blob as it arrives.
//!
//! - The file gets whole chunks at multiples of their size, whatever the pieces that come in.
//! - Checksums are made on the way; nothing is read back.
//! - Content and name are durable when [`FileWriter::finish`] returns; until then nobody else knows the id.
//!
//! A crash, or a drop before the end, leaves nothing that counts: the drop removes the file, and after a crash the
//! collector of unreferenced files does.

use std::sync::Arc;

use super::files::Files;
use super::id::BlobId;
use super::sums::Summer;
use crate::disk::File;
use crate::error::Result;

const CHUNK: usize = 1024 * 1024;
// The disk begins its work after so many bytes, beside the arrival of the rest: a third more speed for one stream.
const STRIDE: u64 = 8 * 1024 * 1024;

/// Writes one blob into a file of its own.
pub struct FileWriter {
    files: Arc<Files>,
    id: BlobId,
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    written: u64,
    // Up to here the system was asked to write to disk.
    begun: u64,
    sums: Summer,
    stage: Stage,
}

enum Stage {
    Open,
    // A write failed: what the file holds is not known any more.
    Failed(crate::error::Error),
    Finished,
}

/// A blob that is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Its name.
    pub id: BlobId,
    /// Its length, in bytes.
    pub length: u64,
    /// One checksum per [`SUM_BLOCK`](super::SUM_BLOCK) bytes.
    pub sums: Vec<u32>,
}

impl FileWriter {
    pub(super) fn create(files: Arc<Files>, id: BlobId) -> Result<Self> {
        let file = files.create_private(id)?;
        Ok(Self {
            files,
            id,
            file,
            buffer: Vec::new(),
            written: 0,
            begun: 0,
            sums: Summer::default(),
            stage: Stage::Open,
        })
    }

    /// The blob's name to be.
    pub fn id(&self) -> BlobId {
        self.id
    }

    /// Appends `data`. After an error the writer only repeats it.
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
        self.files.sync_content(&*self.file)?;
        self.files.sync_name(self.id)?;
        self.stage = Stage::Finished;
        Ok(Finished { id: self.id, length: self.written, sums: std::mem::take(&mut self.sums).finish() })
    }

    fn take(&mut self, mut data: &[u8]) -> Result<()> {
        if !self.buffer.is_empty() {
            let (head, rest) = data.split_at(data.len().min(CHUNK - self.buffer.len()));
            self.buffer.extend_from_slice(head);
            data = rest;
            if self.buffer.len() == CHUNK {
                self.flush()?;
            }
        }
        let (whole, rest) = data.split_at(data.len() / CHUNK * CHUNK);
        // Whole chunks go to the file as they are.
        self.put(whole)?;
        if !rest.is_empty() {
            self.buffer.reserve_exact(CHUNK - self.buffer.len());
            self.buffer.extend_from_slice(rest);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.put(&buffer);
        buffer.clear();
        self.buffer = buffer;
        result
    }

    fn put(&mut self, data: &[u8]) -> Result<()> {
        if !data.is_empty() {
            self.file.write_at(data, self.written)?;
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
            tracing::warn!(blob = %self.id, %error, "an unfinished blob stays until the next collection");
        }
    }
}
