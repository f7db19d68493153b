//! Files whose content may not be on disk yet.
//!
//! - Content that is older than [`SETTLING`], was written by S3, or was synced, is on disk: an operation that moves it
//!   has to sync the copy before the metadata refers to it. Younger content of a mount is on disk only by chance, so
//!   its copy may follow with the next sync of everything.
//! - The age of the oldest byte counts, not of the last write, since writing one byte leaves the others as old as they
//!   were. So only a file that a mount created recently, and no one synced since, is young.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::clock::Timestamp;
use crate::record::inode::{Content, Inode};

/// The age in nanoseconds at which content counts as on disk. A copy may then take the rest of the promised 5 s to
/// become durable.
const SETTLING: i64 = 2_000_000_000;
/// The number of entries above which old ones are dropped.
const ENTRIES: usize = 4096;

/// Recently synced files, by bucket and inode, and recently synced buckets.
pub(crate) struct RecentSyncs {
    /// When the store was opened, and all its content synced.
    opened: Timestamp,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    files: HashMap<(u64, u64), Timestamp>,
    buckets: HashMap<u64, Timestamp>,
}

impl RecentSyncs {
    /// For a store that is being opened.
    pub fn since(opened: Timestamp) -> Self {
        Self { opened, table: Mutex::default() }
    }

    /// Records that a file was synced.
    pub fn note(&self, bucket: u64, ino: u64, now: Timestamp) {
        let synced = &mut self.table.lock().files;
        if synced.len() >= ENTRIES {
            synced.retain(|_, at| young(now, *at));
        }
        synced.insert((bucket, ino), now);
    }

    /// Records that all of a bucket is about to be synced.
    pub fn note_all(&self, bucket: u64, now: Timestamp) {
        let synced = &mut self.table.lock().buckets;
        synced.retain(|_, at| young(now, *at));
        synced.insert(bucket, now);
    }

    /// Whether the content may have been promised to be on disk.
    pub fn promised(&self, bucket: u64, ino: u64, inode: &Inode, now: Timestamp) -> bool {
        match &inode.content {
            None => false,
            Some(Content::Inline(_)) => !self.is_young(bucket, ino, inode, now),
            Some(_) => true,
        }
    }

    /// Whether a mount created the file recently, and no sync since can have covered any of it.
    fn is_young(&self, bucket: u64, ino: u64, inode: &Inode, now: Timestamp) -> bool {
        let made = Timestamp(inode.btime);
        let table = self.table.lock();
        inode.object.is_none()
            && made > self.opened
            && young(now, made)
            && !table.files.contains_key(&(bucket, ino))
            && table.buckets.get(&bucket).is_none_or(|synced| *synced < made)
    }
}

/// Whether `then` is recent; a clock that jumps back makes nothing recent.
fn young(now: Timestamp, then: Timestamp) -> bool {
    (0..SETTLING).contains(&now.0.saturating_sub(then.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::inode::{InodeKind, Object};

    fn made(at: i64) -> Inode {
        let mut inode = Inode::new(InodeKind::File, Timestamp(at));
        inode.content = Some(Content::Inline(vec![1_u8].into()));
        inode
    }

    #[test]
    fn only_a_young_file_of_a_mount_that_nobody_synced_may_wait() {
        let syncs = RecentSyncs::since(Timestamp(SETTLING));
        let now = Timestamp(10 * SETTLING);
        let mut inode = made(now.0);
        assert!(!syncs.promised(1, 2, &Inode { content: None, ..inode.clone() }, now), "there is nothing to lose");
        assert!(!syncs.promised(1, 2, &inode, now));
        assert!(syncs.promised(1, 2, &inode, Timestamp(now.0 + SETTLING)));
        assert!(syncs.promised(1, 2, &inode, Timestamp(now.0 - 1)));
        syncs.note_all(1, Timestamp(now.0 - 1));
        assert!(!syncs.promised(1, 2, &inode, now), "it was made after that");
        syncs.note_all(1, now);
        assert!(syncs.promised(1, 2, &inode, now) && !syncs.promised(2, 2, &inode, now));
        syncs.note_all(1, Timestamp(now.0 - 1));
        syncs.note(1, 2, now);
        assert!(syncs.promised(1, 2, &inode, now));
        inode.object = Some(Object::default());
        assert!(syncs.promised(1, 3, &inode, now), "S3 put it there, even if a mount wrote to it since");
    }

    #[test]
    fn a_write_makes_nothing_young_that_was_there_before() {
        let syncs = RecentSyncs::since(Timestamp(10 * SETTLING));
        let now = Timestamp(20 * SETTLING);
        let mut old = made(now.0 - SETTLING);
        old.mtime = now.0;
        assert!(syncs.promised(1, 2, &old, now));
        let opened = Timestamp(10 * SETTLING + 5);
        assert!(syncs.promised(1, 2, &made(10 * SETTLING - 5), opened), "opening the store put it on disk");
    }
}
