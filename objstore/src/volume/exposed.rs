//! Files that programs may write through a mapping of a passthrough blob: their writes are counted as changes when
//! someone looks.
//!
//! - Looking first writes the blob's dirty pages back, so that the next store into the mapping changes the blob's time
//!   again. If the time changed since the last look, the content changed.

use std::sync::Arc;

use super::session::Volume;
use crate::clock::Timestamp;
use crate::core::Core;
use crate::error::{Error, Posix, Result};
use crate::meta::Durability;
use crate::record::inode::Inode;
use crate::store;
use crate::tree::Tx;

impl Core {
    /// Counts writes through mappings of these files as changes. Returns whether there were any.
    pub fn count_past(self: &Arc<Self>, bucket: u64, inos: &[u64]) -> Result<bool> {
        if self.backed.is_empty() {
            return Ok(false);
        }
        let mut any = false;
        for ino in inos {
            let Some(blob) = self.backed.exposed((bucket, *ino)) else { continue };
            // The mapping's writes were not announced, so the blob is marked here.
            self.blobs.mark_dirty(blob);
            match self.blobs.sync_file(blob) {
                // It was removed meanwhile, so no file has this content any more.
                Err(Error::Corrupt { .. }) if self.backed.exposed((bucket, *ino)) != Some(blob) => continue,
                synced => synced?,
            }
            let Some(written) = self.backed.written((bucket, *ino))? else { continue };
            any = true;
            match self.live.get(bucket, *ino) {
                Some(live) if live.wrote_past(written.into()) => {}
                _ => self.record_past(bucket, *ino, written.into())?,
            }
        }
        Ok(any)
    }

    fn record_past(self: &Arc<Self>, bucket: u64, ino: u64, written: Timestamp) -> Result<()> {
        let core = self.clone();
        let counted = self.meta.write(Durability::Buffered, move |txn| {
            let Some(name) = store::bucket_name(&*txn, bucket)? else { return Ok(()) };
            let mut tx = Tx::begin(txn, &core, &name, 0)?;
            tx.wrote_past(ino, written)?;
            tx.finish()
        });
        match counted.wait() {
            // It was unlinked and deleted.
            Err(Error::Posix(Posix::Stale)) => Ok(()),
            counted => counted,
        }
    }

    /// The files of a bucket whose records may be out of date.
    pub fn in_place(&self, bucket: u64) -> Vec<u64> {
        let mut inos = self.live.of_bucket(bucket);
        inos.extend(self.backed.exposed_of(bucket).into_iter().map(|(ino, ..)| ino));
        inos.sort_unstable();
        inos.dedup();
        inos
    }
}

impl Volume {
    /// Puts the time of writes through a mapping into the inode.
    pub(super) fn show_past(&self, ino: u64, inode: &mut Inode) {
        if let Some(written) = self.0.core.backed.modified((self.0.bucket, ino)) {
            let written = Timestamp::from(written).0;
            (inode.mtime, inode.ctime) = (inode.mtime.max(written), inode.ctime.max(written));
        }
    }
}
