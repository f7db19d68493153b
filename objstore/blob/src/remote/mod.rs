//! Content in a bucket of an S3 store: the folder of content is its cache, and may be deleted while no server runs.
//!
//! - It is a [`Disk`]: the files of blobs and segments are objects, and the code above is the same. [`File::sync`] sends what
//!   was changed, so everything that is synced is in the bucket, or in the metadata.
//! - Large content and each group of small content is an object that is written once, before the metadata names it.
//! - Files written in place are cut into chunks, which the metadata names ([`places`]).
//! - A failed request poisons nothing: what was changed stays changed here, and the next sync sends it.
//! - The ids of objects contain the epoch, which rises with each owner, so they are never used again.
//!
//! A crash leaves objects that no record names. They are found by listing what earlier epochs wrote
//! ([`RemoteDisk::collect_unnamed`]). A crash of the process alone also leaves, in local files, what was not synced.

mod disk;
mod file;
mod places;
mod recovery;
mod save;
mod sidecar;
mod state;
#[cfg(test)]
mod tests;
mod transfer;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use objstore_base::error::Result;
use objstore_bucket::Bucket;
use objstore_disk::Disk;
use parking_lot::{Mutex, RwLock};

pub use places::{CHUNK_BYTES, Change, ChunkAt, FileHead, Patch, Places, Saved};
pub use transfer::put_chunk;

use crate::id::Ids;
use crate::open_files::Name;
use file::RemoteFile;

/// The most changed bytes that wait to be sent: then a write waits too.
const DIRTY_BYTES_MAX: u64 = 256 << 20;
/// The number of files whose local copies are known.
const FILES_MAX: usize = 16 * 1024;

/// The name of an opening of the store, at random: the metadata has the last one's.
pub type Opening = [u8; 16];

/// The bucket that keeps a store's content.
#[derive(Clone)]
pub struct Remote {
    /// The bucket; the caller has claimed it.
    pub bucket: Bucket,
    /// The records of files that are written in place.
    pub places: Arc<dyn Places>,
    /// The size in bytes up to which content that was read stays on the local disk.
    pub cache_bytes: u64,
    /// The epoch of the last opening of the store, by whichever owner; 0 for a new store.
    pub last_epoch: u32,
    /// The last opening that the metadata knows.
    pub last_opening: Option<Opening>,
    /// This opening, which the metadata knows before anything is written; `None` if the bucket is only read.
    pub opening: Option<Opening>,
}

/// What the store's content in a bucket does.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoteStats {
    /// Requests to the bucket.
    pub requests: objstore_bucket::Stats,
    /// Reads answered from local files, and reads that had to get something.
    pub hits: u64,
    /// Reads that had to get something.
    pub misses: u64,
    /// Bytes in local files.
    pub cached_bytes: u64,
    /// Changed bytes that are not in the bucket yet.
    pub behind_bytes: u64,
}

/// The folder of content as a cache of a bucket.
#[derive(Clone)]
pub(crate) struct RemoteDisk(Arc<Shared>);

pub(super) struct Shared {
    local: Arc<dyn Disk>,
    dir: PathBuf,
    bucket: Bucket,
    places: Arc<dyn Places>,
    ids: Arc<Ids>,
    cache_bytes: u64,
    files: RwLock<HashMap<Name, Arc<RemoteFile>>>,
    /// Files with changes that are not saved.
    dirty: Mutex<HashSet<Name>>,
    dirty_bytes: AtomicU64,
    cached: AtomicU64,
    /// Keys of objects that no record names any more.
    removals: Mutex<Vec<String>>,
    /// The segments in the bucket with their lengths; read when first needed.
    packs: Mutex<Option<BTreeMap<u64, u64>>>,
    ticks: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Shared {
    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Relaxed)
    }

    fn count_read(&self, missed: bool) {
        if missed { &self.misses } else { &self.hits }.fetch_add(1, Relaxed);
    }

    /// The file, if it has a local copy.
    fn known(&self, name: Name) -> Option<Arc<RemoteFile>> {
        self.files.read().get(&name).cloned()
    }

    /// Waits until less is to be sent, by sending it.
    fn wait_for_uploads(self: &Arc<Self>) -> Result<()> {
        if self.dirty_bytes.load(Relaxed) > DIRTY_BYTES_MAX { self.save_all() } else { Ok(()) }
    }

    /// Frees local space of what was used longest ago, if there is too much.
    fn evict(&self) {
        if self.cached.load(Relaxed) > self.cache_bytes || self.files.read().len() > FILES_MAX {
            self.evict_to(self.cache_bytes / 10 * 9);
        }
    }

    /// Frees local space of what was used longest ago, until at most so many bytes are left.
    fn evict_to(&self, most_bytes: u64) {
        let mut by_use: Vec<(u64, Name)> =
            self.files.read().iter().map(|(name, file)| (file.used.load(Relaxed), *name)).collect();
        by_use.sort_unstable_by_key(|(used, _)| *used);
        for (_, name) in by_use {
            if self.cached.load(Relaxed) <= most_bytes && self.files.read().len() <= FILES_MAX / 10 * 9 {
                return;
            }
            if let Some(file) = self.known(name) {
                file.evict(&(0..u64::MAX));
            }
            self.drop_unused(name);
        }
    }

    /// Forgets a file that no caller has open and that is in the bucket.
    fn drop_unused(&self, name: Name) {
        let mut files = self.files.write();
        let unused = files.get(&name).is_some_and(|file| {
            let state = file.state.lock();
            let elsewhere = state.recorded || state.kind == state::Kind::Whole;
            Arc::strong_count(file) == 1 && elsewhere && !state.is_dirty() && !self.dirty.lock().contains(&name)
        });
        if unused && let Some(file) = files.remove(&name) {
            // Under the lock, so that no reader opens it again in between.
            let _ = self.local.remove(&self.path(name));
            let _ = file.sidecar.remove();
        }
    }
}

impl RemoteDisk {
    /// The folder `dir` as a cache of the bucket.
    pub(crate) fn new(local: Arc<dyn Disk>, dir: PathBuf, ids: Arc<Ids>, remote: Remote) -> Self {
        Self(Arc::new(Shared {
            local,
            dir,
            bucket: remote.bucket,
            places: remote.places,
            ids,
            cache_bytes: remote.cache_bytes,
            files: RwLock::default(),
            dirty: Mutex::default(),
            dirty_bytes: AtomicU64::default(),
            cached: AtomicU64::default(),
            removals: Mutex::default(),
            packs: Mutex::default(),
            ticks: AtomicU64::default(),
            hits: AtomicU64::default(),
            misses: AtomicU64::default(),
        }))
    }

    /// Lets go of all files, which refer to this in turn.
    pub(crate) fn close(&self) {
        let files = std::mem::take(&mut *self.0.files.write());
        drop(files);
    }

    /// Counts and sizes.
    pub(crate) fn stats(&self) -> RemoteStats {
        RemoteStats {
            requests: self.0.bucket.stats(),
            hits: self.0.hits.load(Relaxed),
            misses: self.0.misses.load(Relaxed),
            cached_bytes: self.0.cached.load(Relaxed),
            behind_bytes: self.0.dirty_bytes.load(Relaxed),
        }
    }

    /// What the collector does from time to time: removes objects, and frees local space.
    pub(crate) fn tend(&self) -> Result<()> {
        self.0.evict();
        self.remove_queued()
    }

    fn remove_queued(&self) -> Result<()> {
        let keys = std::mem::take(&mut *self.0.removals.lock());
        if keys.is_empty() {
            return Ok(());
        }
        self.0.bucket.remove(&keys).map_err(|error| {
            self.0.removals.lock().extend(keys);
            transfer::failed(&error)
        })
    }

    /// All segments in the bucket, with their lengths.
    pub(crate) fn segments(&self) -> Result<Vec<(u64, u64)>> {
        let mut packs = self.0.packs.lock();
        if packs.is_none() {
            let listed = self.0.bucket.list_all("packs/").map_err(|error| transfer::failed(&error))?;
            let parse = |key: &str| crate::id::parse_hex(key.strip_prefix("packs/")?);
            *packs = Some(listed.iter().filter_map(|object| Some((parse(&object.key)?, object.length))).collect());
        }
        Ok(packs.iter().flatten().map(|(segment, length)| (*segment, *length)).collect())
    }
}
