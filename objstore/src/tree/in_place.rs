//! Flushing of dirty files inside transactions: files whose content mounts write in place, ahead of their records.
//!
//! - A flush writes size, times and generation of a dirty file to its inode's record. Its growth was granted when it
//!   happened, so a flush is never refused for the quota.
//! - Before content is shared, cut or replaced, the file is flushed and made clean in the same transaction: the record
//!   of its dirty state is removed, and writes in progress find their entry retired (`state/live.rs`).

use std::sync::Arc;

use prost::Message;

use super::tx::Tx;
use crate::error::Result;
use crate::record::inode::Inode;
use crate::record::key;
use crate::record::live::Live as Record;
use crate::state::{Live, Pending};

/// The state of a dirty file after a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settle {
    /// It stays dirty.
    Keep,
    /// It is clean: the next write needs a transaction.
    End,
}

impl Tx<'_> {
    /// Records that a file is dirty from here on.
    pub fn begin_live(&mut self, ino: u64, live: &Live) {
        let record = Record { blob: live.blob.0, whole: live.whole };
        self.txn.put(key::live(self.bucket.id, ino), record.encode_to_vec());
    }

    /// Flushes a file and ends its dirty state. Returns whether it was dirty.
    pub fn settle_for_good(&mut self, ino: u64) -> Result<bool> {
        let Some(live) = self.core.live.entry(self.bucket.id, ino) else { return Ok(false) };
        self.settle(ino, &live, Settle::End)
    }

    /// Flushes a dirty file. Returns whether it is dirty. An entry without a record has not begun or has ended.
    pub fn settle(&mut self, ino: u64, live: &Arc<Live>, how: Settle) -> Result<bool> {
        let record = key::live(self.bucket.id, ino);
        if self.txn.get(&record)?.is_none() {
            return Ok(false);
        }
        let pending = match how {
            Settle::Keep => live.pending(),
            Settle::End => live.end(),
        };
        if self.tree().inode(ino)?.is_some() {
            self.catch_up(ino, live, &pending)?;
        }
        let (core, bucket, entry) = (self.core.clone(), self.bucket.id, live.clone());
        if how == Settle::End {
            self.txn.delete(record);
            self.txn.after_commit(Box::new(move || core.live.remove(bucket, ino, &entry)));
        } else {
            self.txn.after_commit(Box::new(move || entry.settled(&pending)));
        }
        Ok(true)
    }

    fn catch_up(&mut self, ino: u64, live: &Live, pending: &Pending) -> Result<()> {
        let mut inode = self.own(ino)?;
        let before = inode.size;
        pending.show(&mut inode);
        let size = std::mem::replace(&mut inode.size, before);
        self.resize_settled(&mut inode, size);
        live.measure(&mut inode);
        if pending.seen_before {
            inode.generation += 1;
        }
        self.save(ino, &inode);
        Ok(())
    }

    /// The current inode, though its record may be out of date.
    pub fn as_written(&self, ino: u64, mut inode: Inode) -> Inode {
        if let Some(live) = self.core.live.entry(self.bucket.id, ino) {
            live.show_changed(&mut inode);
        }
        inode
    }

    /// By how much a dirty file has grown beyond its recorded size.
    pub fn live_growth(&self, ino: u64, inode: &Inode) -> u64 {
        let live = self.core.live.entry(self.bucket.id, ino);
        live.map_or(0, |live| live.size().saturating_sub(inode.charged()))
    }

    /// Removes the dirty state of a file that is deleted: its growth is no longer counted.
    pub(super) fn drop_live(&mut self, ino: u64, inode: &Inode) -> Result<()> {
        let Some(live) = self.core.live.entry(self.bucket.id, ino) else { return Ok(()) };
        let record = key::live(self.bucket.id, ino);
        if self.txn.get(&record)?.is_none() {
            return Ok(());
        }
        self.txn.delete(record);
        self.release_growth(live.end().size.saturating_sub(inode.charged()));
        let (core, bucket) = (self.core.clone(), self.bucket.id);
        self.txn.after_commit(Box::new(move || core.live.remove(bucket, ino, &live)));
        Ok(())
    }
}
