//! Content on its way from a data folder to a bucket, in the layout that a server expects there.
//!
//! - Large blobs and segments are objects with their ids, which are written once: after a crash those that are there are
//!   found by their lengths, since an object appears whole.
//! - Bytes are compared with their checksums as they are read, and the bucket compares them again.
//! - In-place files become chunks, of which the records are written as the chunks arrive. Holes become nothing.
//! - At most eight objects are under way, and one of them in parts: about 200 MiB of memory.
//!
//! A crash leaves objects that the next run finds, and chunks that no record names, which the store removes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use prost::Message;

use super::Counts;
use super::blobs::Walk;
use super::workers;
use crate::blob::{self, BlobId, Blobs, CHUNK_BYTES, ChunkAt, Place, Places as _};
use crate::blob_records::verified_blob;
use crate::bucket::{self, Bucket};
use crate::disk::{File, is_missing};
use crate::error::{Error, Result};
use crate::meta::{Durability, Meta};
use crate::record::blob::Blob;
use crate::record::key::{self, tag};
use crate::record::placed::{PlacedChunk, PlacedFile};
use crate::remote::{MetaPlaces, failed};

/// The size in bytes above which an object is sent in parts.
const ONE_REQUEST_MAX: u64 = 16 << 20;
/// The most chunks and files whose records are written with one transaction.
const CHUNKS_AT_ONCE: usize = 128;
const FILES_AT_ONCE: usize = 256;

/// The content of a store on its way to a bucket.
pub(super) struct Upload<'a> {
    pub meta: &'a Meta,
    pub blobs: &'a Blobs,
    pub target: &'a Meta,
    pub bucket: &'a Bucket,
    /// The epoch of the ids of chunks, of which no earlier run had any.
    pub epoch: u32,
    /// Whether an earlier run may have sent some.
    pub resumed: bool,
    pub counts: Counts<'a>,
    /// Held while an object is sent in parts.
    pub in_parts: Mutex<()>,
}

impl<'a> Upload<'a> {
    /// Sends everything, and returns what was counted.
    pub fn run(self) -> Result<Counts<'a>> {
        let mut walk = Walk::new(self.meta.snapshot(), tag::BLOB);
        workers::for_each(
            || walk.next_blob(),
            |(id, blob)| {
                let sent = match blob.place() {
                    Place::Packed { .. } => self.verify(id, &blob),
                    Place::File if blob.sums => self.send_blob(id, &blob),
                    Place::File => return Ok(()),
                };
                self.counts.judge(id, sent)?;
                self.counts.blob_done();
                Ok(())
            },
        )?;
        let mut walk = Walk::new(self.meta.snapshot(), tag::SEGMENT);
        workers::for_each(|| walk.next_segment(), |segment| self.send_segment(segment))?;
        self.send_in_place()?;
        Ok(self.counts)
    }

    /// Compares a packed blob with its checksum. Its segment is sent as a whole.
    fn verify(&self, id: u64, blob: &Blob) -> Result<()> {
        verified_blob(self.blobs, &*self.meta.snapshot(), id, blob, 0, blob.length).map(drop)
    }

    fn send_blob(&self, id: u64, blob: &Blob) -> Result<()> {
        let bytes = Verified { meta: self.meta.clone(), blobs: self.blobs.clone(), id, blob: *blob };
        match self.send(&format!("blobs/{id:016x}"), blob.length, bytes) {
            Err(error) if self.counts.is_known(id, &error) => {
                // What is left of it: each block is compared again when it is read.
                self.send(&format!("blobs/{id:016x}"), blob.length, Plain(self.blobs.file(BlobId(id))?))
            }
            sent => sent,
        }
    }

    fn send_segment(&self, segment: u64) -> Result<()> {
        let file = match self.blobs.segment_file(segment) {
            // Its blobs were found to be damaged.
            Err(error) if super::is_damage(&error) || is_missing(&error) => return Ok(()),
            file => file?,
        };
        self.send(&format!("packs/{segment:016x}"), file.len()?, Plain(file))
    }

    /// Sends the object `key`, unless it is there.
    fn send(&self, key: &str, length: u64, bytes: impl Bytewise) -> Result<()> {
        let there = || self.bucket.length(key).map_err(|error| failed(&error));
        if self.resumed && there()? == Some(length) {
            self.counts.found();
            return Ok(());
        }
        let source = Arc::new(Remembering { bytes, failure: Mutex::default() });
        let sent = if length <= ONE_REQUEST_MAX {
            let whole = source.bytes.read(0, usize::try_from(length).unwrap_or(0))?;
            self.bucket.put(key, whole).map(drop)
        } else {
            let _one = self.in_parts.lock();
            self.bucket.put_large(key, length, source.clone())
        };
        match sent {
            Ok(()) => self.counts.copied(length),
            Err(bucket::Error::Conflict { .. }) if there()? == Some(length) => self.counts.found(),
            Err(error) => return Err(source.failure.lock().take().unwrap_or_else(|| failed(&error))),
        }
        Ok(())
    }

    /// Sends the chunks of all files that are written in place.
    fn send_in_place(&self) -> Result<()> {
        let mut walk = Walk::new(self.meta.snapshot(), tag::BLOB);
        let (places, mut group) = (MetaPlaces(self.target.clone()), Group::default());
        let numbers = AtomicU64::new(1);
        while let Some((id, blob)) = walk.next_blob()? {
            if blob.place() != Place::File || blob.sums {
                continue;
            }
            let found = self.blobs.file(BlobId(id));
            let sent = found.and_then(|file| self.send_file(id, &file, &places, (&mut group, &numbers)));
            self.counts.judge(id, sent)?;
            self.counts.blob_done();
        }
        self.save(&mut group, &numbers)
    }

    /// Adds a file to the group.
    fn send_file(
        &self,
        id: u64,
        file: &Arc<dyn File>,
        places: &MetaPlaces,
        (group, numbers): (&mut Group, &AtomicU64),
    ) -> Result<()> {
        let (length, modified) = (file.len()?, file.modified()?);
        let modified_ns = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let modified_ns = u64::try_from(modified_ns).unwrap_or(u64::MAX);
        let saved = if self.resumed { places.load(BlobId(id))? } else { None };
        let mut known: HashMap<u32, ChunkAt> = saved.into_iter().flat_map(|saved| saved.chunks).collect();
        group.files.push((id, PlacedFile { length, modified_ns, whole: 0 }));
        let mut next = 0;
        while let Some(index) = next_chunk(&**file, next, length)? {
            let known = known.remove(&index);
            group.chunks.push(Piece { blob: id, index, file: file.clone(), length, known });
            if group.chunks.len() >= CHUNKS_AT_ONCE {
                self.save(group, numbers)?;
            }
            next = u64::from(index) + 1;
        }
        group.gone.extend(known.into_keys().map(|index| (id, index)));
        if group.files.len() >= FILES_AT_ONCE {
            self.save(group, numbers)?;
        }
        Ok(())
    }

    /// Sends the chunks of a group, and writes its records.
    fn save(&self, group: &mut Group, numbers: &AtomicU64) -> Result<()> {
        let Group { files, chunks, mut gone } = std::mem::take(group);
        let (mut pieces, sent) = (chunks.into_iter(), Mutex::new(Vec::new()));
        workers::for_each(
            || Ok(pieces.next()),
            |piece| {
                let outcome = self.send_chunk(&piece, numbers);
                if let Ok(Some(at)) = &outcome {
                    sent.lock().push((piece.blob, piece.index, *at));
                }
                self.counts.judge(piece.blob, outcome.map(drop))
            },
        )?;
        let (zeros, sent): (Vec<_>, Vec<_>) = sent.into_inner().into_iter().partition(|(_, _, at)| at.object == 0);
        gone.extend(zeros.into_iter().map(|(blob, index, _)| (blob, index)));
        let written = self.target.write(Durability::Synced, move |txn| {
            for (blob, head) in files {
                txn.put(key::by_id(tag::PLACED, blob), head.encode_to_vec());
            }
            for (blob, index, ChunkAt { object, length, crc }) in sent {
                txn.put(key::placed_chunk(blob, index), PlacedChunk { object, length, crc }.encode_to_vec());
            }
            gone.into_iter().for_each(|(blob, index)| txn.delete(key::placed_chunk(blob, index)));
            Ok(())
        });
        written.wait()
    }

    /// Sends a chunk; `None` if its record has these bytes already.
    fn send_chunk(&self, piece: &Piece, numbers: &AtomicU64) -> Result<Option<ChunkAt>> {
        let from = u64::from(piece.index) * CHUNK_BYTES;
        let len = usize::try_from(CHUNK_BYTES.min(piece.length - from)).unwrap_or(0);
        let bytes = Plain(piece.file.clone()).read(from, len)?;
        if let Some(known) = piece.known
            && (known.length as usize, known.crc) == (len, crc_fast::crc32_iscsi(&bytes))
        {
            self.counts.found();
            return Ok(None);
        }
        let id = u64::from(self.epoch) << 32 | numbers.fetch_add(1, Ordering::Relaxed);
        let at = blob::put_chunk(self.bucket, BlobId(id), bytes)?;
        self.counts.copied(u64::from(at.length));
        Ok(Some(at))
    }
}

/// Chunks and heads of files whose records are written together.
#[derive(Default)]
struct Group {
    files: Vec<(u64, PlacedFile)>,
    chunks: Vec<Piece>,
    /// Chunks of which an earlier run wrote records and that the file has no more.
    gone: Vec<(u64, u32)>,
}

/// A chunk to send.
struct Piece {
    blob: u64,
    index: u32,
    file: Arc<dyn File>,
    /// That of the file.
    length: u64,
    known: Option<ChunkAt>,
}

/// The first chunk from `next` on in which the file has data.
fn next_chunk(file: &dyn File, next: u64, length: u64) -> Result<Option<u32>> {
    let from = next.saturating_mul(CHUNK_BYTES);
    if from >= length {
        return Ok(None);
    }
    let data = file.seek_data(from)?.filter(|data| *data < length);
    Ok(data.map(|data| u32::try_from(data / CHUNK_BYTES).unwrap_or(u32::MAX)))
}

/// Bytes to send.
trait Bytewise: Send + Sync + 'static {
    fn read(&self, offset: u64, len: usize) -> Result<Bytes>;
}

/// The bytes of a file as they are.
struct Plain(Arc<dyn File>);

impl Bytewise for Plain {
    fn read(&self, offset: u64, len: usize) -> Result<Bytes> {
        let mut bytes = BytesMut::zeroed(len);
        self.0.read_at(&mut bytes, offset)?;
        Ok(bytes.freeze())
    }
}

/// The bytes of a blob, compared with its checksums.
struct Verified {
    meta: Meta,
    blobs: Blobs,
    id: u64,
    blob: Blob,
}

impl Bytewise for Verified {
    fn read(&self, offset: u64, len: usize) -> Result<Bytes> {
        verified_blob(&self.blobs, &*self.meta.snapshot(), self.id, &self.blob, offset, len as u64)
    }
}

/// Keeps the error of the store, of which the bucket knows the text alone.
struct Remembering<B> {
    bytes: B,
    failure: Mutex<Option<Error>>,
}

impl<B: Bytewise> bucket::Source for Remembering<B> {
    fn read(&self, offset: u64, len: usize) -> Result<Bytes, String> {
        self.bytes.read(offset, len).map_err(|error| {
            let text = error.to_string();
            self.failure.lock().get_or_insert(error);
            text
        })
    }
}
