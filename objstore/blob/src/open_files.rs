//! A bounded cache of open files.
//!
//! - A file in use stays open with its user; the bound applies to those kept for the next reader.
//! - No file is kept after [`OpenFiles::forget`], even if a slow opener was about to add it: a cached file would occupy
//!   its space after its removal.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use lru::LruCache;
use objstore_base::error::{Error, Result};
use objstore_disk::{Disk, File, is_missing};
use parking_lot::Mutex;

use super::id::BlobId;

/// Which file it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Name {
    Blob(BlobId),
    Segment(u64),
}

struct Kept {
    files: LruCache<Name, Arc<dyn File>>,
    removals: u64,
}

/// The open files, of which the least recently used is closed first.
pub(super) struct OpenFiles {
    disk: Arc<dyn Disk>,
    kept: Mutex<Kept>,
}

impl OpenFiles {
    pub(super) fn new(disk: Arc<dyn Disk>, limit: usize) -> Self {
        let limit = NonZeroUsize::new(limit).unwrap_or(NonZeroUsize::MIN);
        Self { disk, kept: Mutex::new(Kept { files: LruCache::new(limit), removals: 0 }) }
    }

    /// The file `name`, opened at `path` if it is not in the cache.
    ///
    /// # Errors
    /// [`Error::Corrupt`](objstore_base::error::Error::Corrupt) if it is missing.
    pub(super) fn get(&self, name: Name, path: &Path) -> Result<Arc<dyn File>> {
        let removals = {
            let mut kept = self.kept.lock();
            if let Some(file) = kept.files.get(&name) {
                return Ok(file.clone());
            }
            kept.removals
        };
        // Without the lock, since opening may wait for the disk.
        let file = self.disk.open(path).map_err(|error| missing(path, error))?;
        let closing = {
            let mut kept = self.kept.lock();
            if kept.removals == removals { kept.files.push(name, file.clone()) } else { None }
        };
        drop(closing);
        Ok(file)
    }

    /// Adds a file that was just created.
    pub(super) fn keep(&self, name: Name, file: Arc<dyn File>) {
        let closing = self.kept.lock().files.push(name, file);
        drop(closing);
    }

    /// Removes `name` from the cache, after the file was removed.
    pub(super) fn forget(&self, name: Name) {
        let closing = {
            let mut kept = self.kept.lock();
            kept.removals += 1;
            kept.files.pop(&name)
        };
        drop(closing);
    }
}

fn missing(path: &Path, error: Error) -> Error {
    if !is_missing(&error) {
        return error;
    }
    Error::corrupt(path.display().to_string(), "a file", "none")
}
