//! Staged content: written, but not yet named by any record.
//!
//! - Dropped staged content is removed, unless a commit failed, because the record that names it may be on disk. A
//!   crash leaves a file that opening the store collects, or bytes in a segment that count as dead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::readers::ReadGuard;
use super::{INLINE_MAX, PACKED_MAX};
use crate::blob::{BlobId, Blobs, Block, FileWriter, Packed};
use crate::core::Core;
use crate::error::Result;
use crate::meta::Txn;
use crate::record::blob::PackedAt;
use crate::ticket::Ticket;

/// Content on disk (or small enough for a record) that no record names yet.
pub struct Staged {
    pub(super) length: u64,
    pub(super) body: Body,
    /// Removes the file unless a transaction took it over.
    pub(super) cleanup: Option<Cleanup>,
    /// Keeps the segment, in which nothing may be referenced yet.
    pub(super) guard: Option<ReadGuard>,
}

/// Where staged content lies.
pub(super) enum Body {
    /// In memory, for the record.
    Inline(Bytes),
    /// In a segment.
    Packed(BlobId, PackedAt),
    /// In a separate file, with its checksums.
    File(BlobId, Vec<u32>),
}

/// Removes the file of a blob that no record names.
pub(super) struct Cleanup {
    blobs: Blobs,
    id: BlobId,
    named: AtomicBool,
}

impl Cleanup {
    pub fn new(blobs: Blobs, id: BlobId) -> Self {
        Self { blobs, id, named: AtomicBool::new(false) }
    }

    /// Keeps the file once the transaction that names it is committed. If the transaction is refused, the file is
    /// removed; if its commit fails, the store is poisoned and refuses to remove it.
    pub fn keep_after(self, txn: &mut dyn Txn) {
        txn.after_commit(Box::new(move || self.named.store(true, Ordering::Relaxed)));
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        if self.named.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.blobs.remove_file(self.id) {
            tracing::warn!(%error, "an unreferenced content file could not be removed; the next start removes it");
        }
    }
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
    /// Appends bytes; those of a [`Block`] of this store are written without a copy.
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
    core.stamp.store(core.meta.synced_batch(), Ordering::Relaxed);
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

impl crate::Store {
    /// Stages content held in memory: on disk when it returns, except up to 4 KiB, which are stored in the record.
    pub async fn stage(&self, data: Bytes) -> Result<Staged> {
        if data.len() <= PACKED_MAX {
            return stage_small(&self.core, data).answer().await;
        }
        let mut writer = self.stage_writer();
        let task = tokio::task::spawn_blocking(move || {
            writer.write(&data)?;
            writer.finish()
        });
        task.await.unwrap_or_else(|error| Err(crate::Error::Engine { why: format!("staging stopped: {error}") }))
    }

    /// A writer for content of any length.
    pub fn stage_writer(&self) -> StageWriter {
        StageWriter { core: self.core.clone(), buffer: Vec::new(), file: None, length: 0 }
    }

    /// An empty block of memory, to collect content for [`StageWriter::write`].
    pub fn block(&self) -> Block {
        self.core.blobs.block()
    }

    /// Staged content as a blob: inline content is packed, for records that can refer to blobs only.
    pub(crate) async fn in_blob(&self, staged: Staged) -> Result<Staged> {
        match staged.body {
            Body::Inline(data) => pack(&self.core, data).answer().await,
            _ => Ok(staged),
        }
    }
}
