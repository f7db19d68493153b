//! Read plans: where the bytes of a range lie, read from the metadata at one moment and executed on blobs afterwards.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::blob::{BlobId, Blobs, Place};
use crate::blob_records::{blob_record, to_usize, verified_at};
use crate::disk::{File, data_runs};
use crate::error::{Error, Result};
use crate::meta::{Meta, Read};
use crate::record::blob::Blob;
use crate::record::inode::{Content, Extent, Inode};
use crate::state::ReadGuard;
use crate::tree::{Tree, Tx};

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
                let record = blob_record(tree.read, content.id)?;
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
pub(super) struct Part {
    pub offset: u64,
    pub piece: Piece,
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
        let record = blob_record(tree.read, placed.extent.blob)?;
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
    /// The number of bytes.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Zeros(length) | Self::Blob { length, .. } => *length,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// The parts that contain data. A blob with checksums was written as a whole.
    pub(super) fn without_holes(&self, blobs: &Blobs, reading: &ReadGuard) -> Result<Vec<Part>> {
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
        Err(damage @ Error::Corrupt { .. }) if record.sums => match blob_record(&*meta.snapshot(), id) {
            Ok(now) if !now.sums => blobs.read_file(file, offset, to_usize(length)?),
            _ => Err(damage),
        },
        answer => answer,
    }
}

/// The pieces of a part that is a range of an inode, each with its reference.
///
/// # Errors
/// [`Error::Busy`] if some of the bytes lie in the record, or a program has a blob open by passthrough and no copy was
/// prepared.
pub(crate) fn share_range(tx: &mut Tx<'_>, ino: u64, offset: u64, length: u64) -> Result<Vec<Extent>> {
    let (_, inode) = tx.tree().dirty_inode(ino)?;
    let plan = Plan::of(tx.tree(), ino, &inode, offset, length)?;
    let extents = plan.0.into_iter().map(|piece| match piece {
        Piece::Zeros(length) => Ok(Extent { blob: 0, blob_offset: 0, length }),
        Piece::Blob { id, offset, length, .. } => Ok(Extent { blob: id, blob_offset: offset, length }),
        Piece::Bytes(_) => Err(Error::Busy { what: "the object, which is being written,".into() }),
    });
    let extents: Vec<Extent> = extents.collect::<Result<_>>()?;
    tx.share_pieces(ino, extents)
}
