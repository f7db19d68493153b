//! Blob content in a backup: small blobs share a chunk, large ones have their own chunks.

use std::collections::{BTreeMap, HashSet};

use super::chunks::{Reader, Writer};
use super::folder::Folder;
use super::format::{BlobEntry, Chunk, Manifest, PIECE_MAX, Piece, SMALL_MAX};
use super::{Progress, ProgressSink};
use crate::blob::BlobId;
use crate::content::{blob_record, verified_blob};
use crate::core::Core;
use crate::disk::data_runs;
use crate::error::{Error, Result};
use crate::record::blob::Blob;

/// Bytes read at a time.
const STEP: u64 = 4 << 20;

/// Writes the blobs that the last backup does not contain.
pub(super) struct Blobs<'a> {
    core: &'a Core,
    folder: &'a Folder,
    told: &'a ProgressSink,
    progress: Progress,
    writer: Writer,
    pack: Vec<u8>,
    /// Blobs in the pack, and those that have to follow them.
    waiting: Vec<BlobEntry>,
    /// Chunks of the last backup known to exist.
    there: HashSet<Vec<u8>>,
    damaged: Vec<String>,
}

/// The written blobs of a bucket.
pub(super) struct Written {
    pub chunks: Vec<Chunk>,
    pub content_bytes: u64,
    pub sent_bytes: u64,
    pub damaged: Vec<String>,
}

impl<'a> Blobs<'a> {
    pub(super) fn new(core: &'a Core, folder: &'a Folder, told: &'a ProgressSink, progress: Progress) -> Self {
        let (writer, pack, waiting) = (Writer::default(), Vec::new(), Vec::new());
        let (there, damaged) = (HashSet::new(), Vec::new());
        Self { core, folder, told, progress, writer, pack, waiting, there, damaged }
    }

    /// Writes these blobs, each up to an end; blobs in `base` are not read.
    pub(super) fn write(mut self, blobs: &BTreeMap<u64, u64>, base: Option<&Manifest>) -> Result<Written> {
        let mut known = base.map(|base| Reader::new(self.folder, &base.blobs));
        let mut next: Option<BlobEntry> = None;
        for (id, end) in blobs {
            while let Some(reader) = &mut known
                && next.as_ref().is_none_or(|next| next.id < *id)
            {
                next = reader.next()?;
                if next.is_none() {
                    known = None;
                }
            }
            let reusable = next.as_ref().filter(|next| next.id == *id).cloned();
            self.blob(*id, *end, reusable)?;
            (self.told)(self.progress.clone())?;
        }
        self.flush()?;
        let (chunks, sent) = self.writer.finish(self.folder)?;
        let Progress { done_bytes, sent_bytes, .. } = self.progress;
        Ok(Written { chunks, content_bytes: done_bytes, sent_bytes: sent_bytes + sent, damaged: self.damaged })
    }

    fn blob(&mut self, id: u64, end: u64, known: Option<BlobEntry>) -> Result<()> {
        if let Some(known) = known
            && known.damaged.is_none()
            && (known.summed || known.length >= end)
            && self.all_there(&known)?
        {
            self.progress.done_bytes += known.length;
            return self.add(known);
        }
        let done = self.progress.done_bytes;
        match self.read(id, end) {
            Ok(entry) => self.add(entry),
            // An unreadable blob is reported, and everything else is backed up.
            Err(error @ Error::Corrupt { .. }) => {
                self.progress.done_bytes = done;
                let why = error.to_string();
                let who = crate::check::owners_of(self.core, id)?.join(", ");
                self.damaged.push(if who.is_empty() { why.clone() } else { format!("{who}: {why}") });
                self.add(BlobEntry { id, damaged: Some(why), ..BlobEntry::default() })
            }
            Err(error) => Err(error),
        }
    }

    fn all_there(&mut self, entry: &BlobEntry) -> Result<bool> {
        for piece in entry.pieces.iter().filter(|piece| !piece.hash.is_empty()) {
            if !self.there.contains(&piece.hash) {
                if !self.folder.has_chunk(&piece.hash)? {
                    return Ok(false);
                }
                self.there.insert(piece.hash.clone());
            }
        }
        Ok(true)
    }

    fn add(&mut self, entry: BlobEntry) -> Result<()> {
        self.waiting.push(entry);
        if self.pack.len() as u64 >= PIECE_MAX || self.waiting.len() >= 4096 { self.flush() } else { Ok(()) }
    }

    /// Writes the pack, and the entries that waited for it.
    fn flush(&mut self) -> Result<()> {
        let pack = std::mem::take(&mut self.pack);
        let hash = if pack.is_empty() { Vec::new() } else { self.chunk(&pack)? };
        for mut entry in std::mem::take(&mut self.waiting) {
            for piece in entry.pieces.iter_mut().filter(|piece| piece.hash == IN_PACK) {
                piece.hash.clone_from(&hash);
            }
            self.writer.add(self.folder, &entry, &entry.id.to_be_bytes())?;
        }
        Ok(())
    }

    fn chunk(&mut self, bytes: &[u8]) -> Result<Vec<u8>> {
        let (hash, sent) = self.folder.put_chunk(bytes)?;
        self.progress.sent_bytes += sent;
        Ok(hash)
    }

    /// Reads a blob and writes its bytes, or adds them to the pack.
    fn read(&mut self, id: u64, end: u64) -> Result<BlobEntry> {
        let record = blob_record(&*self.core.meta.snapshot(), id)?;
        let summed = record.sums || record.packed.is_some();
        let runs = if summed { vec![(0, record.length)] } else { self.runs(id, end)? };
        let length = if summed { record.length } else { end };
        let mut entry = BlobEntry { id, length, summed, ..BlobEntry::default() };
        let mut at = 0;
        for (from, to) in runs {
            if from > at {
                entry.pieces.push(Piece { hash: Vec::new(), offset: 0, length: from - at });
            }
            self.run(&mut entry, (from, to), length <= SMALL_MAX)?;
            at = to;
        }
        if at < length {
            entry.pieces.push(Piece { hash: Vec::new(), offset: 0, length: length - at });
            self.progress.done_bytes += length - at;
        }
        Ok(entry)
    }

    /// The runs of data of a file that a mount wrote, without holes.
    fn runs(&self, id: u64, end: u64) -> Result<Vec<(u64, u64)>> {
        let file = self.core.blobs.file(BlobId(id))?;
        let end = end.min(file.len()?);
        Ok(data_runs(&*file, 0..end)?.into_iter().map(|run| (run.start, run.end)).collect())
    }

    fn run(&mut self, entry: &mut BlobEntry, (from, to): (u64, u64), small: bool) -> Result<()> {
        let mut at = from;
        // All of a run is read before any of it is added to the pack, so damage leaves nothing there.
        let mut packed = Vec::new();
        while at < to {
            let length = if small { to - at } else { PIECE_MAX.min(to - at) };
            let bytes = self.bytes(entry.id, at, length)?;
            self.progress.done_bytes += length;
            if small {
                packed.extend_from_slice(&bytes);
            } else {
                let hash = self.chunk(&bytes)?;
                entry.pieces.push(Piece { hash, offset: 0, length });
                (self.told)(self.progress.clone())?;
            }
            at += length;
        }
        if small && to > from {
            let offset = self.pack.len() as u64;
            entry.pieces.push(Piece { hash: IN_PACK.to_vec(), offset, length: to - from });
            self.pack.extend_from_slice(&packed);
        }
        Ok(())
    }

    fn bytes(&self, id: u64, from: u64, length: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < length {
            let at = bytes.len() as u64;
            // A segment may be rewritten meanwhile, so each read looks up the blob's position again.
            let _reading = self.core.readers.begin();
            let snapshot = self.core.meta.snapshot();
            let record: Blob = blob_record(&*snapshot, id)?;
            let step = if record.packed.is_some() { length } else { STEP.min(length - at) };
            bytes.extend_from_slice(&verified_blob(&self.core.blobs, &*snapshot, id, &record, from + at, step)?);
        }
        Ok(bytes)
    }
}

/// The placeholder for the hash of the pack that is being filled.
const IN_PACK: &[u8] = b"pack";
