//! Flushing of dirty files inside transactions: files whose content mounts write in place, ahead of their records.
//!
//! - A flush writes size, times and generation of a dirty file to its inode's record. Its growth was granted when it
//!   happened, so a flush is never refused for the quota.
//! - Before content is shared, cut or replaced, the file is flushed and made clean in the same transaction: the record
//!   of its dirty state is removed, and writes in progress find their entry retired (`state/dirty.rs`).

use std::sync::Arc;

use prost::Message;

use super::tx::Tx;
use crate::error::Result;
use crate::record::dirty::DirtyFile as Record;
use crate::record::inode::Inode;
use crate::record::key;
use crate::state::{DirtyFile, Pending};

/// The state of a dirty file after a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushMode {
    /// It stays dirty.
    Keep,
    /// It is clean: the next write needs a transaction.
    End,
}

impl Tx<'_> {
    /// Records that a file is dirty from here on.
    pub fn begin_dirty(&mut self, ino: u64, dirty: &DirtyFile) {
        let record = Record { blob: dirty.blob.0, whole: dirty.whole };
        self.txn.put(key::dirty(self.bucket.id, ino), record.encode_to_vec());
    }

    /// Flushes a file and ends its dirty state. Returns whether it was dirty.
    pub fn flush_final(&mut self, ino: u64) -> Result<bool> {
        let Some(dirty) = self.core.dirty.entry(self.bucket.id, ino) else { return Ok(false) };
        self.flush(ino, &dirty, FlushMode::End)
    }

    /// Flushes a dirty file. Returns whether it is dirty. An entry without a record has not begun or has ended.
    pub fn flush(&mut self, ino: u64, dirty: &Arc<DirtyFile>, how: FlushMode) -> Result<bool> {
        let record = key::dirty(self.bucket.id, ino);
        if self.txn.get(&record)?.is_none() {
            return Ok(false);
        }
        let pending = match how {
            FlushMode::Keep => dirty.pending(),
            FlushMode::End => dirty.end(),
        };
        if self.tree().inode(ino)?.is_some() {
            self.catch_up(ino, dirty, &pending)?;
        }
        let (core, bucket, entry) = (self.core.clone(), self.bucket.id, dirty.clone());
        if how == FlushMode::End {
            self.txn.delete(record);
            self.txn.after_commit(Box::new(move || core.dirty.remove(bucket, ino, &entry)));
        } else {
            self.txn.after_commit(Box::new(move || entry.settled(&pending)));
        }
        Ok(true)
    }

    fn catch_up(&mut self, ino: u64, dirty: &DirtyFile, pending: &Pending) -> Result<()> {
        let mut inode = self.own(ino)?;
        let before = inode.size;
        pending.show(&mut inode);
        let size = std::mem::replace(&mut inode.size, before);
        self.resize_settled(&mut inode, size);
        dirty.measure(&mut inode);
        if pending.seen_before {
            inode.generation += 1;
        }
        self.save(ino, &inode);
        Ok(())
    }

    /// The current inode, though its record may be out of date.
    pub fn as_written(&self, ino: u64, mut inode: Inode) -> Inode {
        if let Some(dirty) = self.core.dirty.entry(self.bucket.id, ino) {
            dirty.show_changed(&mut inode);
        }
        inode
    }

    /// By how much a dirty file has grown beyond its recorded size.
    pub fn dirty_growth(&self, ino: u64, inode: &Inode) -> u64 {
        let dirty = self.core.dirty.entry(self.bucket.id, ino);
        dirty.map_or(0, |dirty| dirty.size().saturating_sub(inode.charged()))
    }

    /// Removes the dirty state of a file that is deleted: its growth is no longer counted.
    pub(super) fn drop_dirty(&mut self, ino: u64, inode: &Inode) -> Result<()> {
        let Some(dirty) = self.core.dirty.entry(self.bucket.id, ino) else { return Ok(()) };
        let record = key::dirty(self.bucket.id, ino);
        if self.txn.get(&record)?.is_none() {
            return Ok(());
        }
        self.txn.delete(record);
        self.release_growth(dirty.end().size.saturating_sub(inode.charged()));
        let (core, bucket) = (self.core.clone(), self.bucket.id);
        self.txn.after_commit(Box::new(move || core.dirty.remove(bucket, ino, &dirty)));
        Ok(())
    }
}
