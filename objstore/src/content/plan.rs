//! Read plans: where the bytes of a range lie, read from the metadata at one moment and executed on blobs afterwards.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::refs::blob;
use crate::blob::{BlobId, Blobs, Place, Run, SUM_BLOCK};
use crate::disk::{File, data_runs};
use crate::error::{Error, Result};
use crate::meta::{Meta, Read};
use crate::record::blob::{Blob, SUMS_PER_RECORD, Sums};
use crate::record::decode;
use crate::record::inode::{Content, Inode};
use crate::record::key;
use crate::state::ReadGuard;
use crate::tree::Tree;

/// A run of bytes.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    /// This many zeros.
    Zeros(u64),
    /// Bytes from the record.
    Bytes(Bytes),
    /// `length` bytes at `offset` of a blob.
    Blob {
        /// The blob's id.
        id: u64,
        /// Its record.
        record: Blob,
        /// The offset in the blob.
        offset: u64,
        /// The number of bytes.
        length: u64,
    },
}

/// The runs that make up a range.
pub(crate) struct Plan(pub Vec<Piece>);

impl Plan {
    /// Plans `len` bytes of an inode at `offset`, limited by its size.
    pub fn of(tree: Tree<'_>, ino: u64, inode: &Inode, offset: u64, len: u64) -> Result<Self> {
        let end = offset.saturating_add(len).min(inode.size);
        if offset >= end {
            return Ok(Self(Vec::new()));
        }
        let pieces = match &inode.content {
            None => vec![Piece::Zeros(end - offset)],
            Some(Content::Inline(data)) => inline(data, offset, end),
            Some(Content::Blob(content)) => {
                let record = blob(tree.read, content.id)?;
                vec![Piece::Blob { id: content.id, record, offset, length: end - offset }]
            }
            Some(Content::Extents(_)) => in_extents(tree, ino, offset, end)?,
        };
        Ok(Self(pieces))
    }

    /// Reads the bytes. `read` holds the records from which the plan was made, and was taken after `reading` began.
    pub fn read(&self, blobs: &Blobs, meta: &Meta, read: &dyn Read, reading: &ReadGuard) -> Result<Bytes> {
        if let [piece] = self.0.as_slice() {
            return piece.read(blobs, meta, read, reading);
        }
        let mut all = BytesMut::new();
        for piece in &self.0 {
            all.extend_from_slice(&piece.read(blobs, meta, read, reading)?);
        }
        Ok(all.freeze())
    }
}

impl Plan {
    /// Writes the bytes to a new file, from its beginning; holes stay holes. `read` and `reading` as in [`Plan::read`].
    pub fn copy_to(
        &self,
        file: &dyn File,
        blobs: &Blobs,
        meta: &Meta,
        read: &dyn Read,
        reading: &ReadGuard,
    ) -> Result<()> {
        let mut at = 0;
        for piece in &self.0 {
            for part in piece.without_holes(blobs, reading)? {
                let bytes = part.piece.read(blobs, meta, read, reading)?;
                file.write_at(&bytes, at + part.offset)?;
            }
            at += piece.length();
        }
        Ok(())
    }
}

/// A part of a piece, and its offset in the piece.
struct Part {
    offset: u64,
    piece: Piece,
}

fn inline(data: &Bytes, offset: u64, end: u64) -> Vec<Piece> {
    let at = |position: u64| usize::try_from(position).map_or(data.len(), |position| position.min(data.len()));
    let held = data.slice(at(offset)..at(end));
    let rest = end - offset - held.len() as u64;
    // An empty run counts as no data: otherwise a search for data beyond the stored bytes would find it again and
    // again.
    let bytes = (!held.is_empty()).then_some(Piece::Bytes(held));
    bytes.into_iter().chain((rest > 0).then_some(Piece::Zeros(rest))).collect()
}

fn in_extents(tree: Tree<'_>, ino: u64, offset: u64, end: u64) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut at = offset;
    for placed in tree.extents(ino, offset, end)? {
        let (from, to) = (placed.offset.max(offset), placed.end().min(end));
        if from > at {
            pieces.push(Piece::Zeros(from - at));
        }
        let record = blob(tree.read, placed.extent.blob)?;
        let blob_offset = placed.extent.blob_offset + (from - placed.offset);
        pieces.push(Piece::Blob { id: placed.extent.blob, record, offset: blob_offset, length: to - from });
        at = to;
    }
    if at < end {
        pieces.push(Piece::Zeros(end - at));
    }
    Ok(pieces)
}

impl Piece {
    fn length(&self) -> u64 {
        match self {
            Self::Zeros(length) | Self::Blob { length, .. } => *length,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// The parts that contain data. A blob with checksums was written as a whole.
    fn without_holes(&self, blobs: &Blobs, reading: &ReadGuard) -> Result<Vec<Part>> {
        match self {
            Self::Zeros(_) => Ok(Vec::new()),
            Self::Blob { id, record, offset, length } if record.place() == Place::File && !record.sums => {
                let file = blobs.file(reading.find(BlobId(*id)).blob)?;
                let part = |run: Range<u64>| {
                    let piece = Self::Blob { id: *id, record: *record, offset: run.start, length: run.end - run.start };
                    Part { offset: run.start - offset, piece }
                };
                Ok(data_runs(&*file, *offset..offset + length)?.into_iter().map(part).collect())
            }
            piece => Ok(vec![Part { offset: 0, piece: piece.clone() }]),
        }
    }

    fn read(&self, blobs: &Blobs, meta: &Meta, read: &dyn Read, reading: &ReadGuard) -> Result<Bytes> {
        match self {
            Self::Zeros(length) => Ok(BytesMut::zeroed(to_usize(*length)?).freeze()),
            Self::Bytes(bytes) => Ok(bytes.clone()),
            Self::Blob { id, record, offset, length } => {
                let found = reading.find(BlobId(*id));
                read_blob(blobs, meta, read, (*id, found.blob), record, *offset, *length)
            }
        }
    }
}

/// Reads a range of a blob, verified unless the blob is an in-place blob. Bytes past its end are zeros.
pub(crate) fn verified_blob(
    blobs: &Blobs,
    read: &dyn Read,
    id: u64,
    record: &Blob,
    offset: u64,
    length: u64,
) -> Result<Bytes> {
    verified_at(blobs, read, (id, BlobId(id)), record, offset, length)
}

/// Reads a range of a blob whose bytes lie in `file`.
fn verified_at(
    blobs: &Blobs,
    read: &dyn Read,
    (id, file): (u64, BlobId),
    record: &Blob,
    offset: u64,
    length: u64,
) -> Result<Bytes> {
    let len = to_usize(length)?;
    match record.place() {
        Place::Packed { segment, offset: at } => {
            let data = blobs.read_packed(BlobId(id), segment, at, record.length)?;
            let from = to_usize(offset)?;
            let held = data.slice(from.min(data.len())..(from + len).min(data.len()));
            Ok(padded(held, len))
        }
        Place::File if record.sums => {
            let held = to_usize(record.length.saturating_sub(offset).min(length))?;
            let sums = |blocks: Range<usize>| sums_of(read, id, blocks);
            Ok(padded(blobs.read_verified(file, offset, held, record.length, &sums)?, len))
        }
        Place::File => blobs.read_file(file, offset, len),
    }
}

fn read_blob(
    blobs: &Blobs,
    meta: &Meta,
    read: &dyn Read,
    (id, file): (u64, BlobId),
    record: &Blob,
    offset: u64,
    length: u64,
) -> Result<Bytes> {
    match verified_at(blobs, read, (id, file), record, offset, length) {
        // A mount may have turned the blob into an in-place blob and changed it since the plan was made.
        Err(damage @ Error::Corrupt { .. }) if record.sums => match blob(&*meta.snapshot(), id) {
            Ok(now) if !now.sums => blobs.read_file(file, offset, to_usize(length)?),
            _ => Err(damage),
        },
        answer => answer,
    }
}

fn sums_of(read: &dyn Read, id: u64, blocks: Range<usize>) -> Result<Vec<u32>> {
    let mut sums = Vec::with_capacity(blocks.len());
    for index in blocks.start / SUMS_PER_RECORD..blocks.end.div_ceil(SUMS_PER_RECORD) {
        let crc = sums_record(read, id, index)?;
        let first = index * SUMS_PER_RECORD;
        let (from, to) = (blocks.start.saturating_sub(first), (blocks.end - first).min(crc.len()));
        sums.extend_from_slice(crc.get(from..to).unwrap_or_default());
    }
    Ok(sums)
}

/// One record of checksums of a blob.
fn sums_record(read: &dyn Read, id: u64, index: usize) -> Result<Vec<u32>> {
    let what = || format!("checksums {index} of blob {id:016x}");
    let number = u32::try_from(index).map_err(|_| Error::corrupt(what(), "an index of 32 bits", "a larger one"))?;
    let value = read.get(&key::sums(id, number))?.ok_or_else(|| Error::corrupt(what(), "a record", "none"))?;
    Ok(decode::<Sums>("checksums of a blob", &value)?.crc)
}

/// The blocks around `offset` of a blob whose checksums are in one record; `None` if it has no checksums, or is packed.
pub(super) fn run_at(blobs: &Blobs, read: &dyn Read, id: u64, offset: u64) -> Result<Option<Run>> {
    let record = blob(read, id)?;
    if record.place() != Place::File || !record.sums {
        return Ok(None);
    }
    let index = to_usize(offset)? / SUM_BLOCK / SUMS_PER_RECORD;
    let sums = sums_record(read, id, index)?;
    blobs.run(BlobId(id), record.length, index * SUMS_PER_RECORD, sums).map(Some)
}

fn padded(data: Bytes, len: usize) -> Bytes {
    if data.len() == len {
        return data;
    }
    let mut whole = BytesMut::with_capacity(len);
    whole.extend_from_slice(&data);
    whole.resize(len, 0);
    whole.freeze()
}

fn to_usize(number: u64) -> Result<usize> {
    usize::try_from(number).map_err(|_| Error::invalid("length", number.to_string(), "it does not fit in memory"))
}

const _: () = assert!(SUM_BLOCK.is_power_of_two());
