//! Files being written in place, so that a write within the size needs no transaction.
//!
//! - The first write after anybody could have seen the content gets a new generation, committed before the bytes
//!   change: whoever reads later sees another entity tag, also after a crash.
//! - The time of later writes stays here until flush, sync or the next reader through S3 makes it part of the record;
//!   the entry goes then, and with it the open file.
//! - All entries of a bucket are dropped, under its gate held alone, when content is shared.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::blob::BlobId;
use crate::clock::Timestamp;
use crate::disk::File;

/// The files of all buckets being written in place, by bucket and inode.
#[derive(Default)]
pub(crate) struct HotFiles(RwLock<HashMap<(u64, u64), Arc<Hot>>>);

/// A file being written in place.
pub(crate) struct Hot {
    /// Its home.
    pub blob: BlobId,
    /// The home, open.
    pub file: Arc<dyn File>,
    /// Its size: writes past it need a transaction.
    pub size: u64,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Default)]
struct State {
    /// Whether nobody can have seen the content since the generation last rose.
    unseen: bool,
    /// When it was last written, if the record does not say so yet.
    written: Option<Timestamp>,
}

impl Hot {
    /// A file whose generation has just risen.
    pub fn new(blob: BlobId, file: Arc<dyn File>, size: u64) -> Arc<Self> {
        Arc::new(Self { blob, file, size, state: Mutex::new(State { unseen: true, written: None }) })
    }

    /// Whether a write needs no new generation.
    pub fn unseen(&self) -> bool {
        self.state.lock().unseen
    }

    /// Notes a write.
    pub fn wrote(&self, now: Timestamp) {
        self.state.lock().written = Some(now);
    }

    /// When it was last written, if the record does not say so yet.
    pub fn written(&self) -> Option<Timestamp> {
        self.state.lock().written
    }

    /// Somebody is about to see the content: the next write needs a new generation. Gives the time that the record
    /// does not have yet.
    pub fn seen(&self) -> Option<Timestamp> {
        std::mem::take(&mut *self.state.lock()).written
    }
}

impl HotFiles {
    /// The file, if it is being written in place.
    pub fn get(&self, bucket: u64, ino: u64) -> Option<Arc<Hot>> {
        self.0.read().get(&(bucket, ino)).cloned()
    }

    /// Notes that the file is being written in place.
    pub fn insert(&self, bucket: u64, ino: u64, hot: Arc<Hot>) {
        self.0.write().insert((bucket, ino), hot);
    }

    /// Forgets the file.
    pub fn remove(&self, bucket: u64, ino: u64) -> Option<Arc<Hot>> {
        self.0.write().remove(&(bucket, ino))
    }

    /// Forgets all files of a bucket, whose content is about to be shared; gives the times their records lack.
    pub fn drain(&self, bucket: u64) -> Vec<(u64, Timestamp)> {
        let mut files = self.0.write();
        let pending = files.iter().filter(|((of, _), _)| *of == bucket);
        let pending = pending.filter_map(|((_, ino), hot)| Some((*ino, hot.seen()?))).collect();
        files.retain(|(of, _), _| *of != bucket);
        pending
    }

    /// The inodes of a bucket that are being written in place.
    pub fn of_bucket(&self, bucket: u64) -> Vec<u64> {
        self.0.read().keys().filter(|(of, _)| *of == bucket).map(|(_, ino)| *ino).collect()
    }
}
