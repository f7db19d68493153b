//! Files whose content was promised to be on disk a moment ago.
//!
//! - Content that is older than [`SETTLING`], that S3 wrote, or that was synced, is on disk: who moves it has to
//!   sync the copy before the metadata refers to it. Younger content of a mount is on disk only by chance, so its
//!   copy may follow with the next sync of everything.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::clock::Timestamp;
use crate::record::inode::{Content, Inode};

/// How old content has to be to count as on disk, in nanoseconds: less than what the copy then takes to get there
/// may be added, and stay within 5 s.
const SETTLING: i64 = 2_000_000_000;
/// Entries past which old ones are dropped.
const ENTRIES: usize = 4096;

/// Files synced lately, by bucket and inode, and buckets.
#[derive(Default)]
pub(crate) struct RecentSyncs(Mutex<Table>);

#[derive(Default)]
struct Table {
    files: HashMap<(u64, u64), Timestamp>,
    buckets: HashMap<u64, Timestamp>,
}

impl RecentSyncs {
    /// Notes that a file was synced.
    pub fn note(&self, bucket: u64, ino: u64, now: Timestamp) {
        let synced = &mut self.0.lock().files;
        if synced.len() >= ENTRIES {
            synced.retain(|_, at| young(now, *at));
        }
        synced.insert((bucket, ino), now);
    }

    /// Notes that all of a bucket is about to be synced.
    pub fn note_all(&self, bucket: u64, now: Timestamp) {
        let synced = &mut self.0.lock().buckets;
        synced.retain(|_, at| young(now, *at));
        synced.insert(bucket, now);
    }

    /// Whether the content may have been promised to be on disk.
    pub fn promised(&self, bucket: u64, ino: u64, inode: &Inode, now: Timestamp) -> bool {
        let by_mount = inode.object.as_ref().is_none_or(|object| object.etag.is_empty());
        match &inode.content {
            None => false,
            Some(Content::Inline(_)) if by_mount && young(now, Timestamp(inode.mtime)) => {
                let synced = self.0.lock();
                let with_all = synced.buckets.get(&bucket).is_some_and(|at| inode.written() <= *at);
                with_all || synced.files.contains_key(&(bucket, ino))
            }
            Some(_) => true,
        }
    }
}

/// A clock that jumps back makes nothing young.
fn young(now: Timestamp, then: Timestamp) -> bool {
    (0..SETTLING).contains(&now.0.saturating_sub(then.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::inode::{InodeKind, Object};

    #[test]
    fn only_young_content_of_a_mount_that_nobody_synced_may_wait() {
        let syncs = RecentSyncs::default();
        let now = Timestamp(10 * SETTLING);
        let mut inode = Inode::new(InodeKind::File, now);
        assert!(!syncs.promised(1, 2, &inode, now), "there is nothing to lose");
        inode.content = Some(Content::Inline(vec![1]));
        assert!(!syncs.promised(1, 2, &inode, now));
        assert!(syncs.promised(1, 2, &inode, Timestamp(now.0 + SETTLING)));
        assert!(syncs.promised(1, 2, &inode, Timestamp(now.0 - 1)));
        syncs.note_all(1, Timestamp(now.0 - 1));
        assert!(!syncs.promised(1, 2, &inode, now), "it was written after that");
        syncs.note_all(1, now);
        assert!(syncs.promised(1, 2, &inode, now) && !syncs.promised(2, 2, &inode, now));
        syncs.note_all(1, Timestamp(now.0 - 1));
        syncs.note(1, 2, now);
        assert!(syncs.promised(1, 2, &inode, now));
        inode.object = Some(Object { etag: "by S3".into(), ..Object::default() });
        assert!(syncs.promised(1, 3, &inode, now));
    }
}
