//! Staged content: written, but not yet named by any record.
//!
//! - Dropped staged content is removed, unless a commit failed, because the record that names it may be on disk. A
//!   crash leaves a file that opening the store collects, or bytes in a segment that count as dead.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use prost::Message;

use super::{INLINE_MAX, PACKED_MAX};
use crate::blob::{BlobId, FileWriter, Packed};
use crate::blob_records::{count_segment, put_blob};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::meta::Txn;
use crate::record::blob::{Blob, PackedAt, SUMS_PER_RECORD, Sums};
use crate::record::inode::{BlobContent, Content};
use crate::record::key;
use crate::state::{Cleanup, ReadGuard};
use crate::ticket::Ticket;

/// Content on disk (or small enough for a record) that no record names yet.
pub struct Staged {
    length: u64,
    body: Body,
    /// Removes the file unless a transaction took it over.
    cleanup: Option<Cleanup>,
    /// Keeps the segment, in which nothing may be referenced yet.
    guard: Option<ReadGuard>,
}

/// Where staged content lies.
enum Body {
    /// In memory, for the record.
    Inline(Bytes),
    /// In a segment.
    Packed(BlobId, PackedAt),
    /// In a separate file, with its checksums.
    File(BlobId, Vec<u32>),
}

impl Staged {
    /// Its length, in bytes.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// Writes content of unknown length, in order. Blocking.
pub struct StageWriter {
    core: Arc<Core>,
    buffer: Vec<u8>,
    file: Option<FileWriter>,
    length: u64,
}

impl StageWriter {
    /// A writer of content that goes into this store.
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { core: core.clone(), buffer: Vec::new(), file: None, length: 0 }
    }

    /// Appends bytes; those of a [`Block`](super::Block) of this store are written without a copy.
    pub fn write(&mut self, data: &[u8]) -> Result<()> {
        self.length += data.len() as u64;
        if self.file.is_none() && self.buffer.len() + data.len() <= PACKED_MAX {
            self.buffer.extend_from_slice(data);
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let mut file = self.core.blobs.writer()?;
                file.write(&std::mem::take(&mut self.buffer))?;
                self.file.insert(file)
            }
        };
        file.write(data)
    }

    /// Finishes the content, which is on disk when it returns.
    pub fn finish(self) -> Result<Staged> {
        let Some(file) = self.file else {
            return stage_small(&self.core, self.buffer.into()).wait();
        };
        let finished = file.finish()?;
        let cleanup = Some(Cleanup::new(self.core.blobs.clone(), finished.id));
        Ok(Staged { length: finished.length, body: Body::File(finished.id, finished.sums), cleanup, guard: None })
    }
}

/// Stages up to [`PACKED_MAX`] bytes.
fn stage_small(core: &Core, data: Bytes) -> Staging {
    if data.len() <= INLINE_MAX {
        return Staging::Inline(data);
    }
    pack(core, data)
}

/// Stages contents that records refer to as blobs, all at once, so that they share syncs. Each has up to [`PACKED_MAX`]
/// bytes.
pub(crate) fn pack_all(core: &Core, contents: Vec<Bytes>) -> Result<Vec<Staged>> {
    let packing: Vec<Staging> = contents.into_iter().map(|data| pack(core, data)).collect();
    packing.into_iter().map(Staging::wait).collect()
}

/// Packs content in a segment.
fn pack(core: &Core, data: Bytes) -> Staging {
    core.watermark.store(core.meta.synced_batch(), Ordering::Relaxed);
    let guard = core.readers.begin();
    let id = core.blobs.next_id();
    Staging::Packing(id, core.blobs.append(id, data), guard)
}

/// Small content on its way to disk.
enum Staging {
    Inline(Bytes),
    Packing(BlobId, Ticket<Packed>, ReadGuard),
}

impl Staging {
    fn wait(self) -> Result<Staged> {
        match self {
            Self::Inline(data) => Ok(inline(data)),
            Self::Packing(id, ticket, guard) => ticket.wait().map(|packed| at(id, &packed, guard)),
        }
    }

    async fn answer(self) -> Result<Staged> {
        match self {
            Self::Inline(data) => Ok(inline(data)),
            Self::Packing(id, ticket, guard) => ticket.await.map(|packed| at(id, &packed, guard)),
        }
    }
}

fn inline(data: Bytes) -> Staged {
    Staged { length: data.len() as u64, body: Body::Inline(data), cleanup: None, guard: None }
}

fn at(id: BlobId, packed: &Packed, guard: ReadGuard) -> Staged {
    let place = PackedAt { segment: packed.segment, offset: packed.offset };
    Staged { length: packed.length, body: Body::Packed(id, place), cleanup: None, guard: Some(guard) }
}

/// Stages content held in memory: on disk when it returns, except up to 4 KiB, which are stored in the record.
pub(crate) async fn stage(core: &Arc<Core>, data: Bytes) -> Result<Staged> {
    if data.len() <= PACKED_MAX {
        return stage_small(core, data).answer().await;
    }
    let mut writer = StageWriter::new(core);
    let task = tokio::task::spawn_blocking(move || {
        writer.write(&data)?;
        writer.finish()
    });
    task.await.unwrap_or_else(|error| Err(Error::Engine { why: format!("staging stopped: {error}") }))
}

/// Staged content as a blob: inline content is packed, for records that can refer to blobs only.
pub(crate) async fn in_blob(core: &Core, staged: Staged) -> Result<Staged> {
    match staged.body {
        Body::Inline(data) => pack(core, data).answer().await,
        _ => Ok(staged),
    }
}

/// Takes staged content into the transaction, with one reference; `None` for empty content.
pub(crate) fn take_staged(txn: &mut dyn Txn, staged: Staged) -> Result<Option<Content>> {
    let Staged { length, body, cleanup, guard } = staged;
    let content = match body {
        Body::Inline(data) if data.is_empty() => None,
        Body::Inline(data) => Some(Content::Inline(data)),
        Body::Packed(id, at) => {
            put_blob(txn, id.0, &Blob { refs: 1, length, packed: Some(at), sums: false });
            count_segment(txn, at, i64::try_from(length).unwrap_or(i64::MAX))?;
            Some(Content::Blob(BlobContent { id: id.0, in_place: false }))
        }
        Body::File(id, sums) => {
            put_blob(txn, id.0, &Blob { refs: 1, length, packed: None, sums: true });
            for (index, block) in (0..).zip(sums.chunks(SUMS_PER_RECORD)) {
                txn.put(key::sums(id.0, index), Sums { crc: block.to_vec() }.encode_to_vec());
            }
            Some(Content::Blob(BlobContent { id: id.0, in_place: false }))
        }
    };
    if let Some(cleanup) = cleanup {
        cleanup.keep_after(txn);
    }
    if let Some(guard) = guard {
        txn.after_commit(Box::new(move || drop(guard)));
    }
    Ok(content)
}
