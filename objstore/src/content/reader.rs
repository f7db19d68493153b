//! Reading an object as it was when opened, however long that takes.

use std::sync::Arc;

use bytes::Bytes;

use super::plan::Plan;
use super::readers::ReadGuard;
use crate::branch::Line;
use crate::core::Core;
use crate::error::Result;
use crate::meta::Snapshot;
use crate::record::inode::Inode;
use crate::store::{Checksum, ObjectPart};
use crate::tree::Tree;

/// An object's content at one moment.
pub struct Reader {
    pub(crate) core: Arc<Core>,
    pub(crate) snapshot: Box<dyn Snapshot>,
    pub(crate) line: Line,
    pub(crate) ino: u64,
    pub(crate) inode: Inode,
    pub(crate) _guard: ReadGuard,
}

impl Reader {
    /// The parts the content was uploaded in, in order; none if it was put whole, copied, or changed by a mount since.
    pub fn parts(&self) -> Result<Vec<ObjectPart>> {
        let tree = Tree { read: &*self.snapshot, line: &self.line };
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

    /// Reads `len` bytes at `offset`, fewer only at the end. Blocking. Ask for up to a few MiB a call.
    pub fn read(&self, offset: u64, len: usize) -> Result<Bytes> {
        let tree = Tree { read: &*self.snapshot, line: &self.line };
        let plan = Plan::of(tree, self.ino, &self.inode, offset, len as u64)?;
        plan.read(&self.core.blobs, &self.core.meta, &*self.snapshot)
    }
}
