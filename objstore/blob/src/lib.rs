//! Content outside the metadata: blobs in separate files, and small blobs packed in segments.
//!
//! - A blob's id is never reused, and an immutable blob's bytes never change.
//! - This crate does not know which blobs are referenced. A blob's bytes are durable first; the metadata that refers
//!   to it is committed after that.
//! - Content read with its checksums is what was written, or an
//!   [`Error::Corrupt`](objstore_base::error::Error::Corrupt).
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
mod preallocated;
mod read;
mod remote;
mod run;
mod segment;
mod shards;
mod sums;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;

use objstore_base::error::Result;
use objstore_base::ticket::Ticket;
use objstore_disk::{Disk, File, Poison};

use files::Files;
use id::Ids;
use open_files::OpenFiles;
use pending::Extent;
use preallocated::PreallocatedFiles;
use remote::RemoteDisk;
use segment::{Grow, Segments};

pub use block::{BLOCK_BYTES, Block};
pub use id::{BlobId, Place};
pub use read::SumsOf;
pub use remote::{
    CHUNK_BYTES, Change, ChunkAt, FileHead, Opening, Patch, Places, Remote, RemoteStats, Saved, put_chunk,
};
pub use run::Run;
pub use segment::{Packed, Record, SegmentInfo};
pub use sums::{SUM_BLOCK, Summer, sums};
pub use writer::{FileWriter, Finished};

/// Options of the blob store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The number of files that stay open for the next reader.
    pub open_files: usize,
    /// The size in bytes at which a segment is followed by a new one.
    pub segment_bytes: u64,
    /// The size in bytes up to which content is copied rather than shared, where the copy will probably be changed.
    pub copy_max_bytes: u64,
    /// The threads that append to segments and preallocate blob files.
    pub helpers: Helpers,
}

/// The threads for work that callers need not do themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helpers {
    /// Separate threads.
    Threads,
    /// The calling threads, one after another, so that a test that replays its run has one thread.
    Callers,
}

impl Default for Options {
    fn default() -> Self {
        let (segment_bytes, copy_max_bytes) = (256 << 20, 1 << 20);
        Self { open_files: 512, segment_bytes, copy_max_bytes, helpers: Helpers::Threads }
    }
}

/// All blobs of a store; clones share them.
#[derive(Clone)]
pub struct Blobs(Arc<Inner>);

struct Inner {
    ids: Arc<Ids>,
    preallocated: PreallocatedFiles,
    files: Arc<Files>,
    segments: Segments,
    copy_max_bytes: u64,
    poison: Poison,
    remote: Option<RemoteDisk>,
    /// The epoch of the first id that was given out.
    first_epoch: u32,
    /// The last field: the others still remove files.
    _closes: Closes,
}

/// Lets go of the files of a bucket when it is dropped.
struct Closes(Option<RemoteDisk>);

impl Drop for Closes {
    fn drop(&mut self) {
        if let Some(remote) = &self.0 {
            remote.close();
        }
    }
}

impl Blobs {
    /// Opens the blobs in `dir`.
    ///
    /// - `epoch` is larger at each opening; the caller makes it durable before this call.
    /// - `poison` is shared with the metadata that refers to the blobs.
    /// - The file system is synced once, since a process that was killed may have left unsynced writes.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, epoch: u32, poison: Poison, options: Options) -> Result<Self> {
        Self::open_in(disk, dir, epoch, poison, options, None)
    }

    /// Opens blobs that are in a bucket, with `dir` as their cache; otherwise as [`Blobs::open`]. Without a name of the opening
    /// the bucket is only read, and `dir` is empty.
    ///
    /// # Errors
    /// [`Error::Unusable`](objstore_base::error::Error::Unusable) if the bucket has content of a later epoch than
    /// [`Remote::last_epoch`].
    pub fn open_remote(
        disk: Arc<dyn Disk>,
        dir: &Path,
        epoch: u32,
        poison: Poison,
        options: Options,
        remote: Remote,
    ) -> Result<Self> {
        Self::open_in(disk, dir, epoch, poison, options, Some(remote))
    }

    fn open_in(
        disk: Arc<dyn Disk>,
        dir: &Path,
        epoch: u32,
        poison: Poison,
        options: Options,
        remote: Option<Remote>,
    ) -> Result<Self> {
        let Options { open_files, segment_bytes, copy_max_bytes, helpers } = options;
        disk.make_dir_all(dir)?;
        disk.sync_everything(dir)?;
        let ids = Arc::new(Ids::open(disk.clone(), dir, epoch, poison.clone())?);
        let last_epoch = remote.as_ref().map_or(0, |remote| remote.last_epoch);
        let openings = remote.as_ref().and_then(|remote| Some((remote.last_opening, remote.opening?)));
        let remote = remote.map(|remote| RemoteDisk::new(disk.clone(), dir.to_owned(), ids.clone(), remote));
        // Also if opening fails.
        let _closes = Closes(remote.clone());
        let disk = remote.clone().map_or(disk, |remote| Arc::new(remote));
        let open = Arc::new(OpenFiles::new(disk.clone(), open_files));
        let mut files = Files::open(disk.clone(), dir.join("blobs"), open.clone(), poison.clone())?;
        if let Some(remote) = &remote {
            files = files.in_bucket(remote.clone());
        }
        let files = Arc::new(files);
        let first_epoch = ids.epoch();
        let first = u64::from(first_epoch) << 32 | 1;
        let grow = Grow { first, segment_bytes, helpers, remote: remote.clone() };
        let segments = Segments::open(disk, dir.join("segments"), open, poison.clone(), grow)?;
        if let (Some(remote), Some((last, opening))) = (&remote, openings) {
            remote.check_epoch(last_epoch)?;
            remote.recover(last, opening)?.into_iter().for_each(|id| files.mark_dirty(id));
            remote.abort_uploads();
        }
        let preallocated = PreallocatedFiles::new(files.clone(), ids.clone(), helpers);
        Ok(Self(Arc::new(Inner {
            ids,
            preallocated,
            files,
            segments,
            copy_max_bytes,
            poison,
            remote,
            first_epoch,
            _closes,
        })))
    }

    /// The size in bytes up to which content is copied rather than shared, where the copy will probably be changed.
    pub fn copy_max_bytes(&self) -> u64 {
        self.0.copy_max_bytes
    }

    /// A new blob id.
    pub fn next_id(&self) -> BlobId {
        self.0.ids.next()
    }

    /// Creates the file of `id`, to be written in place. Content and name are not durable before [`Blobs::sync_file`]
    /// or [`Blobs::sync_dirty`].
    pub fn create_file(&self, id: BlobId) -> Result<Arc<dyn File>> {
        self.0.files.create(id)
    }

    /// A new in-place blob: its file is a preallocated one, whose name is on disk, or else a new one. Its content is
    /// not durable before [`Blobs::sync_file`] or [`Blobs::sync_dirty`].
    pub fn new_in_place(&self) -> Result<(BlobId, Arc<dyn File>)> {
        self.0.poison.check()?;
        self.0.preallocated.take()
    }

    /// The open file of `id`.
    ///
    /// # Errors
    /// [`Error::Corrupt`](objstore_base::error::Error::Corrupt) if it is missing.
    pub fn file(&self, id: BlobId) -> Result<Arc<dyn File>> {
        self.0.files.get(id)
    }

    /// Makes the content of `id`'s file durable, and its name if it is not yet.
    pub fn sync_file(&self, id: BlobId) -> Result<()> {
        self.0.files.sync(id, Extent::Content)
    }

    /// Makes the content of `id`'s file and its modification time durable, and its name if it is not yet.
    pub fn sync_file_and_times(&self, id: BlobId) -> Result<()> {
        self.0.files.sync(id, Extent::ContentAndTime)
    }

    /// Removes the file of `id`; an absent one is no error. Refused after a failed commit, which may have left a record
    /// that refers to the file.
    pub fn remove_file(&self, id: BlobId) -> Result<()> {
        self.0.poison.check()?;
        self.0.files.remove(id)
    }

    /// The ids of all existing files, in no order: including those that are being written, without preallocated ones.
    pub fn file_ids(&self) -> Result<Vec<BlobId>> {
        let mut ids = self.0.remote.as_ref().map_or_else(|| self.0.files.ids(), RemoteDisk::ids)?;
        ids.retain(|id| !self.0.preallocated.holds(*id));
        Ok(ids)
    }

    /// Records that the file of `id` was written; call it after the write.
    pub fn mark_dirty(&self, id: BlobId) {
        self.0.files.mark_dirty(id);
    }

    /// Makes all files created or marked dirty since the last call durable, with one sync of the file system.
    pub fn sync_dirty(&self) -> Result<()> {
        self.0.files.sync_dirty()
    }

    /// Starts to write a large blob with a new id and its own file.
    pub fn writer(&self) -> Result<FileWriter> {
        FileWriter::create(self.0.files.clone(), self.next_id())
    }

    /// An empty block of memory, whose content [`FileWriter::write`] passes to the disk without a copy.
    pub fn block(&self) -> Block {
        self.0.files.block()
    }

    /// `len` bytes at `offset` of the file of `id`, not verified; bytes beyond the end of the file are zeros.
    pub fn read_file(&self, id: BlobId, offset: u64, len: usize) -> Result<Bytes> {
        read::read_file(&self.0.files, id, offset, len)
    }

    /// `len` bytes at `offset` of the file of `id`, whose length is `file_length`, verified: whole blocks of
    /// [`SUM_BLOCK`] bytes are read and compared with the checksums that `sums` returns for their indexes.
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

    /// A run of blocks of the file of `id`, whose length is `file_length`: from the block `first`, one for each
    /// checksum in `sums`.
    pub fn run(&self, id: BlobId, file_length: u64, first: usize, sums: Vec<u32>) -> Result<Run> {
        Run::open(self.0.files.clone(), id, file_length, first, sums)
    }

    /// Appends a small blob to the growing segment; the ticket is answered once it is durable. Appends that wait at the
    /// same time share one write and one sync.
    pub fn append(&self, id: BlobId, data: Bytes) -> Ticket<Packed> {
        self.0.segments.append(id, data)
    }

    /// The data of a packed blob, verified.
    pub fn read_packed(&self, id: BlobId, segment: u64, offset: u64, length: u64) -> Result<Bytes> {
        self.0.segments.read(id, segment, offset, length)
    }

    /// Lets the operating system drop a range of the file of `id` from the page cache.
    ///
    /// # Errors
    /// Those of opening the file.
    pub fn forget_cached(&self, id: BlobId, offset: u64, length: u64) -> Result<()> {
        self.0.files.get(id)?.forget_cached(offset, length);
        Ok(())
    }

    /// Lets the operating system drop a packed blob from the page cache.
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

    /// The records of a segment, in order. A group torn by a crash ends them; damage before synced records is an error,
    /// so that no caller takes part of a segment for all of it. In the last group the two cannot be distinguished:
    /// before you remove a segment, check the references too.
    pub fn scan_segment(&self, segment: u64) -> Result<Vec<Record>> {
        self.0.segments.scan(segment)
    }

    /// The file of a segment that no longer grows, to copy it.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn segment_file(&self, segment: u64) -> Result<Arc<dyn File>> {
        self.0.segments.file(segment)
    }

    /// Copies a segment of another store here, without the numbers of that store's metadata batches; nothing is done if its
    /// copy is here. Returns the blobs whose bytes do not have their checksum. Content and name are not durable before a
    /// sync of the folder.
    ///
    /// # Errors
    /// Those of reading and writing, and [`Error::Corrupt`](objstore_base::error::Error::Corrupt) if synced records lie
    /// behind a damaged one.
    pub fn adopt_segment(&self, segment: u64, source: &dyn File) -> Result<Vec<BlobId>> {
        self.0.segments.adopt(segment, source)
    }

    /// Removes a segment; [`Error::Busy`](objstore_base::error::Error::Busy) for the growing one.
    pub fn remove_segment(&self, segment: u64) -> Result<()> {
        self.0.segments.remove(segment)
    }

    /// The largest batch number in the newest segment that has a record; 0 if there is none. A metadata log that ends
    /// before this batch has lost its end.
    pub fn highest_batch(&self) -> Result<u64> {
        if self.0.remote.is_some() {
            // Opening has compared the epochs of all content instead, without reading any.
            return Ok(0);
        }
        self.0.segments.highest_batch()
    }

    /// Sets where to read the number of the last synced metadata batch, which every record contains; that number must
    /// never fall.
    pub fn set_synced_batch(&self, batch: Arc<AtomicU64>) {
        self.0.segments.set_batch(batch);
    }

    /// Whether the content is in a bucket.
    pub fn is_remote(&self) -> bool {
        self.0.remote.is_some()
    }

    /// Counts and sizes of content in a bucket.
    pub fn remote_stats(&self) -> Option<RemoteStats> {
        self.0.remote.as_ref().map(RemoteDisk::stats)
    }

    /// For content in a bucket: removes objects that are waiting for it, and frees local space that exceeds the cache's size.
    pub fn tend(&self) -> Result<()> {
        self.0.remote.as_ref().map_or(Ok(()), RemoteDisk::tend)
    }

    /// For content in a bucket: removes objects that an earlier process left and no record names. `named` says whether a blob
    /// has a record. Returns how many were removed.
    pub fn collect_unnamed(&self, named: &dyn Fn(BlobId) -> Result<bool>) -> Result<u64> {
        self.0.poison.check()?;
        let epoch = self.0.first_epoch;
        self.0.remote.as_ref().map_or(Ok(0), |remote| remote.collect_unnamed(epoch, named))
    }

    /// The first failed sync, if there was one: since then nothing is written.
    pub fn poisoned(&self) -> Option<String> {
        self.0.poison.why()
    }
}
