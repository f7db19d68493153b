//! A pool of memory blocks for content on its way to and from disk.
//!
//! - A block is aligned to a page, so that a disk accepts it without a copy.
//! - A returned block serves the next writer: fresh memory costs a page fault per page, as much as a copy.
//! - At most [`KEPT`] idle blocks are kept. The users bound the number of blocks in use.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use objstore_base::error::Result;
use objstore_disk::DIRECT_BLOCK;

/// The capacity of a block, in bytes: large enough that the cost of a step from block to block does not matter. It is
/// not larger, because each request that is sent or received holds two.
pub const BLOCK_BYTES: usize = 256 * 1024;
/// The number of idle blocks that are kept.
const KEPT: usize = 32;

/// The idle blocks; clones share them.
#[derive(Clone, Default)]
pub(super) struct BlockPool(Arc<Mutex<Vec<Vec<u8>>>>);

impl BlockPool {
    /// An empty block.
    pub(super) fn block(&self) -> Block {
        // One page larger than the capacity, so that there is an aligned place for all of it.
        let memory = self.0.lock().pop().unwrap_or_else(|| vec![0; BLOCK_BYTES + DIRECT_BLOCK]);
        let start = memory.as_ptr().align_offset(DIRECT_BLOCK);
        Block { memory, start, len: 0, shelf: self.clone() }
    }
}

/// A block of memory that is being filled.
pub struct Block {
    memory: Vec<u8>,
    start: usize,
    len: usize,
    shelf: BlockPool,
}

impl Block {
    /// Appends as much of `data` as fits; returns the number of bytes appended.
    pub fn fill(&mut self, data: &[u8]) -> usize {
        let count = data.len().min(BLOCK_BYTES - self.len);
        let at = self.start + self.len;
        self.memory[at..at + count].copy_from_slice(&data[..count]);
        self.len += count;
        count
    }

    /// Lets `read` fill the block from its start; `read` returns the number of bytes that the block then has.
    pub(super) fn load(&mut self, read: impl FnOnce(&mut [u8]) -> Result<usize>) -> Result<usize> {
        self.len = read(&mut self.memory[self.start..self.start + BLOCK_BYTES])?.min(BLOCK_BYTES);
        Ok(self.len)
    }

    /// Whether the block is full.
    pub fn is_full(&self) -> bool {
        self.len == BLOCK_BYTES
    }

    /// Whether the block is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The content, for sharing; the memory returns to the pool when the last clone is dropped.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }

    /// Removes the content.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut idle = self.shelf.0.lock();
        if idle.len() < KEPT {
            idle.push(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_what_fits_begins_at_a_page_and_is_used_again() {
        let shelf = BlockPool::default();
        let mut block = shelf.block();
        assert!(
            block.is_empty() && block.fill(&[1; 10]) == 10 && block.fill(&vec![2; BLOCK_BYTES]) == BLOCK_BYTES - 10
        );
        assert!(block.is_full() && block.fill(&[3]) == 0);
        let place = block.as_ref().as_ptr();
        assert!(place.addr().is_multiple_of(DIRECT_BLOCK));
        let content = block.freeze();
        assert_eq!((&content[..10], &content[10..12], content.as_ptr()), (&[1; 10][..], &[2; 2][..], place));
        let other = shelf.block();
        assert_ne!(other.as_ref().as_ptr(), place, "a block is not given away while its content is shared");
        drop((content, other));
        let again: Vec<_> = (0..2).map(|_| shelf.block()).collect();
        assert!(again.iter().any(|block| block.as_ref().as_ptr() == place) && again.iter().all(Block::is_empty));
    }

    #[test]
    fn idle_blocks_are_bounded() {
        let shelf = BlockPool::default();
        drop((0..2 * KEPT).map(|_| shelf.block()).collect::<Vec<_>>());
        assert_eq!(shelf.0.lock().len(), KEPT);
    }
}
