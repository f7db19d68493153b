//! Content on its way from a bucket to a data folder.
//!
//! - Everything is read as a server reads it: objects are compared with their checksums, patches lie over chunks.
//! - What is here already from an earlier run is compared, and not fetched again.
//! - Nothing is durable before the caller syncs the folder.
//!
//! A crash leaves a part of the files. The next run compares them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;

use super::Counts;
use super::blobs::Walk;
use super::workers;
use crate::blob::{BlobId, Blobs, CHUNK_BYTES, ChunkAt, Place, Places as _, Saved};
use crate::blob_records::verified_blob;
use crate::disk::{File, is_missing};
use crate::error::{Error, Result};
use crate::meta::Meta;
use crate::record::blob::Blob;
use crate::record::key::tag;
use crate::remote::MetaPlaces;

/// Bytes read at a time.
const STEP: u64 = 4 << 20;

/// The content of a store on its way to a data folder.
pub(super) struct Download<'a> {
    pub meta: &'a Meta,
    pub remote: &'a Blobs,
    pub local: &'a Blobs,
    pub counts: Counts<'a>,
}

impl<'a> Download<'a> {
    /// Fetches everything, and returns what was counted.
    pub fn run(self) -> Result<Counts<'a>> {
        let mut walk = Walk::new(self.meta.snapshot(), tag::SEGMENT);
        workers::for_each(|| walk.next_segment(), |segment| self.fetch_segment(segment))?;
        let mut walk = Walk::new(self.meta.snapshot(), tag::BLOB);
        workers::for_each(
            || walk.next_blob(),
            |(id, blob)| {
                let fetched = match blob.place() {
                    Place::Packed { .. } => self.verify(id, &blob),
                    Place::File if blob.sums => self.fetch_blob(id, &blob),
                    Place::File => self.fetch_file(id),
                };
                self.counts.judge(id, fetched)?;
                self.counts.blob_done();
                // Bounds what was read and stays here.
                self.remote.tend()
            },
        )?;
        Ok(self.counts)
    }

    /// Compares the copy of a packed blob with its checksum.
    fn verify(&self, id: u64, blob: &Blob) -> Result<()> {
        verified_blob(self.local, &*self.meta.snapshot(), id, blob, 0, blob.length).map(drop)
    }

    fn fetch_segment(&self, segment: u64) -> Result<()> {
        let copied = self.remote.segment_file(segment).and_then(|file| {
            self.counts.copied(file.len()?);
            self.local.adopt_segment(segment, &*file)
        });
        match copied {
            // Its blobs are compared one after the other, and then found to be damaged.
            Err(error) if super::is_damage(&error) || is_missing(&error) => Ok(()),
            copied => copied.map(drop),
        }
    }

    fn fetch_blob(&self, id: u64, blob: &Blob) -> Result<()> {
        if self.local.file(BlobId(id)).is_ok() {
            if self.is_whole(id, blob)? {
                self.counts.found();
                return Ok(());
            }
            self.local.remove_file(BlobId(id))?;
        }
        let file = self.local.create_file(BlobId(id))?;
        let (snapshot, mut at) = (self.meta.snapshot(), 0);
        while at < blob.length {
            let length = STEP.min(blob.length - at);
            let read = verified_blob(self.remote, &*snapshot, id, blob, at, length);
            let bytes = match read {
                Err(error) if self.counts.is_known(id, &error) => {
                    self.remote.read_file(BlobId(id), at, usize::try_from(length).unwrap_or(0))?
                }
                read => read?,
            };
            file.write_at(&bytes, at)?;
            self.counts.copied(length);
            at += length;
        }
        Ok(())
    }

    /// Whether the copy of a blob has its length and checksums.
    fn is_whole(&self, id: u64, blob: &Blob) -> Result<bool> {
        let (snapshot, mut at) = (self.meta.snapshot(), 0);
        if self.local.file(BlobId(id))?.len()? != blob.length {
            return Ok(false);
        }
        while at < blob.length {
            let length = STEP.min(blob.length - at);
            match verified_blob(self.local, &*snapshot, id, blob, at, length) {
                Err(error) if super::is_damage(&error) => return Ok(false),
                read => drop(read?),
            }
            at += length;
        }
        Ok(true)
    }

    /// Fetches a file that is written in place.
    fn fetch_file(&self, id: u64) -> Result<()> {
        let id = BlobId(id);
        let saved = MetaPlaces(self.meta.clone()).load(id)?;
        let source = self.remote.file(id)?;
        let length = source.len()?;
        let (file, new) = match self.local.file(id) {
            Ok(file) => (file, false),
            Err(_) => (self.local.create_file(id)?, true),
        };
        file.set_len(length)?;
        let modified = saved.as_ref().map(|saved| saved.head.modified_ns);
        let layout = Layout::of(saved, length);
        for index in 0..length.div_ceil(CHUNK_BYTES) {
            let at = index * CHUNK_BYTES;
            let len = CHUNK_BYTES.min(length - at);
            match layout.at(u32::try_from(index).unwrap_or(u32::MAX)) {
                Origin::Zeros if new => {}
                Origin::Zeros => file.punch(at, len)?,
                Origin::Chunk(chunk) if !new && is_there(&*file, at, len, chunk)? => self.counts.found(),
                Origin::Chunk(_) | Origin::Other => {
                    let bytes = read(&*source, at, len)?;
                    if new && bytes.iter().all(|byte| *byte == 0) {
                        continue;
                    }
                    file.write_at(&bytes, at)?;
                    self.counts.copied(len);
                }
            }
        }
        self.local.mark_dirty(id);
        modified.map_or(Ok(()), |modified_ns| set_modified(&file, modified_ns))
    }
}

/// Where the bytes of a file are, chunk by chunk.
struct Layout {
    chunks: HashMap<u32, ChunkAt>,
    patched: HashSet<u32>,
    whole: u64,
}

/// Where the bytes of a chunk are.
enum Origin {
    Zeros,
    /// In an object of its own, without patches.
    Chunk(ChunkAt),
    Other,
}

impl Layout {
    fn of(saved: Option<Saved>, length: u64) -> Self {
        // Without a record the file is one object.
        let Some(saved) = saved else {
            return Self { chunks: HashMap::new(), patched: HashSet::new(), whole: length };
        };
        let patched = saved.patches.iter().map(|(chunk, _, _)| *chunk).collect();
        Self { chunks: saved.chunks.into_iter().collect(), patched, whole: saved.head.whole }
    }

    fn at(&self, index: u32) -> Origin {
        match self.chunks.get(&index) {
            _ if self.patched.contains(&index) => Origin::Other,
            Some(chunk) if chunk.object == 0 => Origin::Zeros,
            Some(chunk) => Origin::Chunk(*chunk),
            None if u64::from(index) * CHUNK_BYTES < self.whole => Origin::Other,
            None => Origin::Zeros,
        }
    }
}

/// Whether the file has the bytes of a chunk, and zeros behind them.
fn is_there(file: &dyn File, at: u64, len: u64, chunk: ChunkAt) -> Result<bool> {
    let bytes = read(file, at, len)?;
    let (held, rest) = bytes.split_at(bytes.len().min(chunk.length as usize));
    Ok(crc_fast::crc32_iscsi(held) == chunk.crc && rest.iter().all(|byte| *byte == 0))
}

fn read(file: &dyn File, at: u64, len: u64) -> Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    file.read_at(&mut bytes, at)?;
    Ok(bytes.into())
}

/// Sets the modification time of a file, which counts where its attributes were not recorded yet.
fn set_modified(file: &Arc<dyn File>, modified_ns: u64) -> Result<()> {
    let Some(descriptor) = file.raw() else { return Ok(()) };
    let since = Duration::from_nanos(modified_ns);
    let whole = i64::try_from((UNIX_EPOCH + since).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs());
    let tv_nsec = since.subsec_nanos().into();
    let time = rustix::fs::Timespec { tv_sec: whole.unwrap_or(i64::MAX), tv_nsec };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    let set = rustix::fs::futimens(descriptor, &times);
    set.map_err(|error| Error::io("setting the modification time of a file", error.into()))
}
