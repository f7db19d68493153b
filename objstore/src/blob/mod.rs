//! Content outside the metadata: blobs in separate files, and small blobs packed in segments.
//!
//! - A blob's id is never reused, and an immutable blob's bytes never change.
//! - This module does not know which blobs are referenced. A blob's bytes are durable first; the metadata that refers
//!   to it is committed after that.
//! - Content read with its checksums is what was written, or an [`Error::Corrupt`](crate::error::Error::Corrupt).
//! - After a failed sync, of content or of metadata, nothing is written or removed until the store is reopened.
//!
//! A crash leaves unreferenced blobs, in files and in segments; the collector finds them by [`Blobs::file_ids`] and
//! [`Blobs::scan_segment`]. A crash may undo a removal, which is found the same way.

mod block;
mod files;
mod group_sync;
mod id;
mod open_files;
mod pending;
mod read;
mod run;
mod segment;
mod spare;
mod sums;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;

use crate::disk::{Disk, File, Poison};
use crate::error::Result;
use crate::ticket::Ticket;

use files::Files;
use id::Ids;
use open_files::OpenFiles;
use pending::Extent;
use segment::{Grow, Segments};
use spare::Spares;

pub use block::{BLOCK_BYTES, Block};
pub use id::{BlobId, Place};
pub use read::SumsOf;
pub use run::Run;
pub use segment::{Packed, Record, SegmentInfo};
pub use sums::{SUM_BLOCK, Summer, sums};
pub use writer::{FileWriter, Finished};

/// How blobs are kept.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many files stay open for the next reader.
    pub open_files: usize,
    /// A segment that has reached this size is followed by a new one.
    pub segment_bytes: u64,
    /// Up to so many bytes are copied rather than referred to, where somebody goes on to change them.
    pub copy_max_bytes: u64,
    /// Who appends to segments, and makes files ahead.
    pub helpers: Helpers,
}

/// Who does what callers need not do themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helpers {
    /// Threads of their own.
    Threads,
    /// The callers, one after the other: a test that replays has one thread.
    #[cfg(test)]
    Callers,
}

impl Default for Options {
    fn default() -> Self {
        let (segment_bytes, copy_max_bytes) = (256 << 20, 1 << 20);
        Self { open_files: 512, segment_bytes, copy_max_bytes, helpers: Helpers::Threads }
    }
}

/// All blobs of a store; clones share one.
#[derive(Clone)]
pub struct Blobs(Arc<Inner>);

struct Inner {
    ids: Arc<Ids>,
    spares: Spares,
    files: Arc<Files>,
    segments: Segments,
    copy_max_bytes: u64,
    poison: Poison,
}

impl Blobs {
    /// Opens the blobs in `dir`. `epoch` is larger at each opening: the caller keeps it, durably, before this call.
    /// `poison` is the one of the metadata that names them. The file system is synced once: a process that was killed
    /// may have left writes that nobody remembers to sync.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, epoch: u32, poison: Poison, options: Options) -> Result<Self> {
        let Options { open_files, segment_bytes, copy_max_bytes, helpers } = options;
        disk.make_dir_all(dir)?;
        disk.sync_everything(dir)?;
        let ids = Arc::new(Ids::open(disk.clone(), dir, epoch, poison.clone())?);
        let open = Arc::new(OpenFiles::new(disk.clone(), open_files));
        let files = Arc::new(Files::open(disk.clone(), dir.join("blobs"), open.clone(), poison.clone())?);
        let first = u64::from(ids.epoch()) << 32 | 1;
        let grow = Grow { first, segment_bytes, helpers };
        let segments = Segments::open(disk, dir.join("segments"), open, poison.clone(), grow)?;
        let spares = Spares::new(files.clone(), ids.clone(), helpers);
        Ok(Self(Arc::new(Inner { ids, spares, files, segments, copy_max_bytes, poison })))
    }

    /// Up to so many bytes are copied rather than referred to, where somebody goes on to change them.
    pub fn copy_max_bytes(&self) -> u64 {
        self.0.copy_max_bytes
    }

    /// A name never used before.
    pub fn next_id(&self) -> BlobId {
        self.0.ids.next()
    }

    /// Creates the file of `id`, to be written in place. It is dirty, and its name is not durable, until
    /// [`Blobs::sync_file`] or [`Blobs::sync_dirty`].
    pub fn create_file(&self, id: BlobId) -> Result<Arc<dyn File>> {
        self.0.files.create(id)
    }

    /// A new file to be written in place, under a name that is on disk already where one was made ahead. It is dirty until
    /// [`Blobs::sync_file`] or [`Blobs::sync_dirty`].
    pub fn new_home(&self) -> Result<(BlobId, Arc<dyn File>)> {
        self.0.poison.check()?;
        self.0.spares.take()
    }

    /// The file of `id`; damage when it is missing.
    pub fn file(&self, id: BlobId) -> Result<Arc<dyn File>> {
        self.0.files.get(id)
    }

    /// Makes the file of `id` durable: its content, and its name if that is not yet.
    pub fn sync_file(&self, id: BlobId) -> Result<()> {
        self.0.files.sync(id, Extent::Content)
    }

    /// The same, and when it was changed last.
    pub fn sync_file_and_times(&self, id: BlobId) -> Result<()> {
        self.0.files.sync(id, Extent::ContentAndTime)
    }

    /// Removes the file of `id`; an absent one is no error. Refused once a commit failed: it may name the file.
    pub fn remove_file(&self, id: BlobId) -> Result<()> {
        self.0.poison.check()?;
        self.0.files.remove(id)
    }

    /// The ids of all files there are, in no order: those being written included, those made ahead not.
    pub fn file_ids(&self) -> Result<Vec<BlobId>> {
        let mut ids = self.0.files.ids()?;
        ids.retain(|id| !self.0.spares.holds(*id));
        Ok(ids)
    }

    /// Notes that the file of `id` was written; call it after the write.
    pub fn mark_dirty(&self, id: BlobId) {
        self.0.files.mark_dirty(id);
    }

    /// Makes all files created or marked dirty since the last call durable, with one sync of the file system.
    pub fn sync_dirty(&self) -> Result<()> {
        self.0.files.sync_dirty()
    }

    /// Begins a large blob, under a new id, in a file of its own.
    pub fn writer(&self) -> Result<FileWriter> {
        FileWriter::create(self.0.files.clone(), self.next_id())
    }

    /// An empty block of memory, which [`FileWriter::write`] takes to disk without a copy.
    pub fn block(&self) -> Block {
        self.0.files.block()
    }

    /// `len` bytes at `offset` of the file of `id`, not verified; past the end of the file they are zeros.
    pub fn read_file(&self, id: BlobId, offset: u64, len: usize) -> Result<Bytes> {
        read::read_file(&self.0.files, id, offset, len)
    }

    /// `len` bytes at `offset` of the file of `id`, whose length is `file_length`, verified: whole blocks of
    /// [`SUM_BLOCK`] are read and compared with what `sums` gives for their indexes.
    pub fn read_verified(
        &self,
        id: BlobId,
        offset: u64,
        len: usize,
        file_length: u64,
        sums: &SumsOf<'_>,
    ) -> Result<Bytes> {
        read::read_verified(&self.0.files, id, offset, len, file_length, sums)
    }

    /// A run of blocks of the file of `id`, whose length is `file_length`: those of `sums`, the first of which is
    /// `first`.
    pub fn run(&self, id: BlobId, file_length: u64, first: usize, sums: Vec<u32>) -> Result<Run> {
        Run::open(self.0.files.clone(), id, file_length, first, sums)
    }

    /// Appends a small blob to the segment that grows; durable when answered. Appends that wait together share one
    /// write and one sync.
    pub fn append(&self, id: BlobId, data: Bytes) -> Ticket<Packed> {
        self.0.segments.append(id, data)
    }

    /// The data of a packed blob, verified.
    pub fn read_packed(&self, id: BlobId, segment: u64, offset: u64, length: u64) -> Result<Bytes> {
        self.0.segments.read(id, segment, offset, length)
    }

    /// Lets the system forget what it holds in memory of a range of the file of `id`.
    ///
    /// # Errors
    /// Those of opening the file.
    pub fn forget_cached(&self, id: BlobId, offset: u64, length: u64) -> Result<()> {
        self.0.files.get(id)?.forget_cached(offset, length);
        Ok(())
    }

    /// The same of a packed blob.
    ///
    /// # Errors
    /// Those of opening the segment.
    pub fn forget_cached_packed(&self, segment: u64, offset: u64, length: u64) -> Result<()> {
        self.0.segments.forget_cached(segment, offset, length)
    }

    /// All segments, oldest first.
    pub fn segments(&self) -> Result<Vec<SegmentInfo>> {
        self.0.segments.list()
    }

    /// The records of a segment, in order. A group torn by a crash ends them; damage in front of synced records is an
    /// error, so that nobody takes part of a segment for all of it. In the last group the two look alike: before a
    /// segment is removed, ask the references, not only this.
    pub fn scan_segment(&self, segment: u64) -> Result<Vec<Record>> {
        self.0.segments.scan(segment)
    }

    /// Removes a segment; [`Error::Busy`](crate::error::Error::Busy) for the one that grows.
    pub fn remove_segment(&self, segment: u64) -> Result<()> {
        self.0.segments.remove(segment)
    }

    /// The largest batch number in the newest segment that holds a record, 0 without any. A metadata log that ends
    /// before this batch has lost its tail.
    pub fn highest_batch(&self) -> Result<u64> {
        self.0.segments.highest_batch()
    }

    /// Takes the number of the last synced metadata batch, which every record is stamped with, from `batch`; it must
    /// never fall.
    pub fn set_synced_batch(&self, batch: Arc<AtomicU64>) {
        self.0.segments.set_batch(batch);
    }

    /// Why nothing is written any more: the first sync that failed.
    pub fn poisoned(&self) -> Option<String> {
        self.0.poison.why()
    }
}
