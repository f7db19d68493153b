//! Gates and inode locks: when content may be written in place.
//!
//! - A write in place holds its bucket's gate shared, from the decision to the end of the write. An operation that
//!   shares content (a snapshot, a copy by reference) holds it exclusively until the sharing is committed, so no write
//!   decided earlier lands in shared content.
//! - Changes of one inode's size and layout hold its lock exclusively; writes within its size hold it shared.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{ArcRwLockReadGuard, ArcRwLockWriteGuard, Mutex, RawRwLock, RwLock};

/// Number of locks shared by all inodes.
const STRIPES: usize = 256;

/// Gates of buckets and locks of inodes.
pub(crate) struct Gates {
    buckets: Mutex<HashMap<u64, Arc<RwLock<()>>>>,
    inodes: Vec<Arc<RwLock<()>>>,
}

/// A shared lock guard.
pub(crate) type SharedGuard = ArcRwLockReadGuard<RawRwLock, ()>;
/// An exclusive lock guard.
pub(crate) type ExclusiveGuard = ArcRwLockWriteGuard<RawRwLock, ()>;

impl Default for Gates {
    fn default() -> Self {
        Self { buckets: Mutex::default(), inodes: (0..STRIPES).map(|_| Arc::default()).collect() }
    }
}

impl Gates {
    fn bucket(&self, bucket: u64) -> Arc<RwLock<()>> {
        self.buckets.lock().entry(bucket).or_default().clone()
    }

    fn inode(&self, bucket: u64, ino: u64) -> &Arc<RwLock<()>> {
        let mixed = (bucket ^ ino.rotate_left(17)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.inodes[(mixed >> 56) as usize % STRIPES]
    }

    /// Locks a bucket's gate shared, to write in place.
    pub fn write_in_place(&self, bucket: u64) -> SharedGuard {
        self.bucket(bucket).read_arc()
    }

    /// Tries to lock a bucket's gate shared; `None` if content is being shared.
    pub fn try_write_in_place(&self, bucket: u64) -> Option<SharedGuard> {
        self.bucket(bucket).try_read_arc()
    }

    /// Locks a bucket's gate exclusively, to share content.
    pub fn share(&self, bucket: u64) -> ExclusiveGuard {
        self.bucket(bucket).write_arc()
    }

    /// Locks an inode shared, to write within its size.
    pub fn within(&self, bucket: u64, ino: u64) -> SharedGuard {
        self.inode(bucket, ino).read_arc()
    }

    /// Locks an inode exclusively, to change its size or layout.
    pub fn reshape(&self, bucket: u64, ino: u64) -> ExclusiveGuard {
        self.inode(bucket, ino).write_arc()
    }

    /// Tries to lock an inode exclusively; `None` if it is locked.
    pub fn try_reshape(&self, bucket: u64, ino: u64) -> Option<ExclusiveGuard> {
        self.inode(bucket, ino).try_write_arc()
    }

    /// Removes the gate of a deleted bucket.
    pub fn forget(&self, bucket: u64) {
        self.buckets.lock().remove(&bucket);
    }
}
