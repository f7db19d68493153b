//! A reader of an object as it was when opened, however long reading takes.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::part::{Checksum, ObjectPart};
use super::plan::Plan;
use crate::blob::Run;
use crate::blob_records::run_at;
use crate::branch::Ancestry;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::meta::Snapshot;
use crate::record::inode::{Content, Inode};
use crate::state::ReadGuard;
use crate::tree::Tree;

/// How to find the content.
#[derive(Default)]
pub(crate) enum Way {
    /// Not determined yet.
    #[default]
    Unknown,
    /// One blob with checksums; this is the run read last.
    Run(Arc<Run>),
    /// By planning each read.
    Plan,
}

/// An object's content at one moment.
pub struct Reader {
    pub(crate) core: Arc<Core>,
    pub(crate) snapshot: Box<dyn Snapshot>,
    pub(crate) ancestry: Ancestry,
    pub(crate) ino: u64,
    pub(crate) inode: Inode,
    pub(crate) run: Mutex<Way>,
    pub(crate) guard: ReadGuard,
}

impl Reader {
    /// The parts in which the content was uploaded, in order; empty if it was put in one piece, copied, or changed by a
    /// mount since.
    pub fn parts(&self) -> Result<Vec<ObjectPart>> {
        let tree = Tree { read: &*self.snapshot, ancestry: &self.ancestry };
        let mut offset = 0;
        let placed = tree.parts(self.ino, &self.inode)?.into_iter().map(|part| {
            let at = offset;
            offset += part.size;
            let checksums = part.checksums.into_iter();
            let checksums = checksums.map(|sum| Checksum { algorithm: sum.algorithm, value: sum.value });
            ObjectPart { number: part.number, offset: at, size: part.size, checksums: checksums.collect() }
        });
        Ok(placed.collect())
    }

    /// Reads `len` bytes at `offset`, fewer only at the end. Blocking. Ask for up to a few MiB per call.
    pub fn read(&self, offset: u64, len: usize) -> Result<Bytes> {
        if let Some(run) = self.run_at(offset)?.filter(|run| self.holds(offset, len) && run.holds(offset, len)) {
            match run.read(offset, len) {
                // A mount may have turned the blob into an in-place blob since: the plan finds out.
                Err(Error::Corrupt { .. }) => *self.run.lock() = Way::Plan,
                read => return read,
            }
        }
        let tree = Tree { read: &*self.snapshot, ancestry: &self.ancestry };
        let plan = Plan::of(tree, self.ino, &self.inode, offset, len as u64)?;
        plan.read(&self.core.blobs, &self.core.meta, &*self.snapshot, &self.guard)
    }

    /// Reads on after [`Reader::read`] from the page cache: all of `len` bytes at `offset`, or `None` if that would
    /// wait for the disk. Does not block.
    pub fn read_cached(&self, offset: u64, len: usize) -> Option<Bytes> {
        let run = match &*self.run.try_lock()? {
            Way::Run(run) if self.holds(offset, len) => run.clone(),
            _ => return None,
        };
        run.read_cached(offset, len)
    }

    fn holds(&self, offset: u64, len: usize) -> bool {
        offset.checked_add(len as u64).is_some_and(|end| end <= self.inode.size)
    }

    /// The run of blocks around `offset`, if all of the content is one blob with checksums.
    fn run_at(&self, offset: u64) -> Result<Option<Arc<Run>>> {
        let Some(Content::Blob(content)) = &self.inode.content else { return Ok(None) };
        let mut way = self.run.lock();
        match &*way {
            Way::Plan => return Ok(None),
            Way::Run(run) if run.holds(offset, 1) => return Ok(Some(run.clone())),
            Way::Run(_) | Way::Unknown => {}
        }
        let run = match run_at(&self.core.blobs, &*self.snapshot, content.id, offset) {
            // The plan meets the same error, and knows whether it is one.
            Err(Error::Corrupt { .. }) => None,
            found => found?.map(Arc::new),
        };
        *way = run.clone().map_or(Way::Plan, Way::Run);
        Ok(run)
    }
}
