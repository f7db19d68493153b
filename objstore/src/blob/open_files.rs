//! A bounded cache of open files.
//!
//! - A file in use stays open with its user; the bound applies to those kept for the next reader.
//! - No file is kept after [`OpenFiles::forget`], even if a slow opener was about to add it: a cached file would occupy
//!   its space after its removal.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;

use super::id::BlobId;
use crate::disk::{Disk, File, is_missing};
use crate::error::{Error, Result};

/// What an open file is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Name {
    Blob(BlobId),
    Segment(u64),
}

struct Kept {
    files: LruCache<Name, Arc<dyn File>>,
    removals: u64,
}

/// The files kept open, least recently used first out.
pub(super) struct OpenFiles {
    disk: Arc<dyn Disk>,
    kept: Mutex<Kept>,
}

impl OpenFiles {
    pub(super) fn new(disk: Arc<dyn Disk>, limit: usize) -> Self {
        let limit = NonZeroUsize::new(limit).unwrap_or(NonZeroUsize::MIN);
        Self { disk, kept: Mutex::new(Kept { files: LruCache::new(limit), removals: 0 }) }
    }

    /// The file `name`, opened at `path` when it is not kept. One that is missing is damage.
    pub(super) fn get(&self, name: Name, path: &Path) -> Result<Arc<dyn File>> {
        let removals = {
            let mut kept = self.kept.lock();
            if let Some(file) = kept.files.get(&name) {
                return Ok(file.clone());
            }
            kept.removals
        };
        // Outside the lock: an open may wait for the disk.
        let file = self.disk.open(path).map_err(|error| missing(path, error))?;
        let closing = {
            let mut kept = self.kept.lock();
            if kept.removals == removals { kept.files.push(name, file.clone()) } else { None }
        };
        drop(closing);
        Ok(file)
    }

    /// Keeps a file just created.
    pub(super) fn keep(&self, name: Name, file: Arc<dyn File>) {
        let closing = self.kept.lock().files.push(name, file);
        drop(closing);
    }

    /// Lets `name` go, after it was removed.
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
