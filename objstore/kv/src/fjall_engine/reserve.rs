//! The disk reserve: space allocated while there is enough, and released when the disk is completely full.
//!
//! - Other programs that write to the disk do not respect the room that the store keeps free
//!   ([`Room`](objstore_disk::Room)). A store on a disk without a free byte still has to open, which commits a batch,
//!   and has to commit deletions.
//! - The file `reserve` holds that space. Each commit that finds too little space releases a part of it; it is
//!   allocated again once there is far more.
//! - Where the file system cannot preallocate there is no such file.
//!
//! A crash leaves the file at some length, which then counts.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use objstore_base::error::Result;
use objstore_disk::{Allocate, Disk, RealDisk, is_full, room_kept, space_of};

/// The reserve is this fraction of the room that is kept free.
const OF_ROOM: u64 = 4;
/// The number of parts in which the reserve is released, because other programs may fill the disk again.
const PARTS: u64 = 2;
/// The pause between two attempts to allocate the reserve again.
const PAUSE: Duration = Duration::from_secs(10);

/// The reserve in one folder.
pub(super) struct Reserve {
    path: PathBuf,
    state: Mutex<State>,
    /// Whether part of the reserve is missing; read without the lock.
    short: AtomicBool,
}

struct State {
    held_bytes: u64,
    tried: Option<Instant>,
}

impl Reserve {
    /// The reserve that `folder` has.
    pub fn open(folder: &Path) -> Self {
        let path = folder.join("reserve");
        let held_bytes = held(&path).unwrap_or_default();
        Self { path, state: Mutex::new(State { held_bytes, tried: None }), short: AtomicBool::new(true) }
    }

    /// Releases a part of the reserve; returns whether there was one.
    pub fn give(&self) -> bool {
        let mut state = self.state.lock();
        if state.held_bytes == 0 {
            return false;
        }
        self.short.store(true, Ordering::Relaxed);
        let part = wanted(&self.path).map_or(state.held_bytes, |wanted| wanted.div_ceil(PARTS));
        let rest = state.held_bytes.saturating_sub(part.max(1));
        match self.cut(rest) {
            Ok(()) => tracing::warn!(
                given_bytes = state.held_bytes - rest,
                left_bytes = rest,
                "the disk is full: part of the reserved space (meta/reserve) is released so that deletions can be written"
            ),
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "cannot release the reserved space (meta/reserve)");
            }
        }
        // A file that cannot be truncated now is not tried again.
        state.held_bytes = rest;
        state.tried = Some(Instant::now());
        true
    }

    fn cut(&self, rest: u64) -> Result<()> {
        let disk = RealDisk::new();
        if rest == 0 {
            return disk.remove(&self.path);
        }
        let file = disk.open(&self.path)?;
        file.set_len(rest)?;
        // The file system may not hand out the blocks before the truncation is on disk.
        file.sync_with_time()
    }

    /// Allocates what is missing, once the disk has far more free space than that.
    pub fn take(&self) {
        if !self.short.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state.lock();
        if state.tried.is_some_and(|tried| tried.elapsed() < PAUSE) {
            return;
        }
        state.tried = Some(Instant::now());
        match self.fill() {
            Ok(Some(held_bytes)) => {
                state.held_bytes = held_bytes;
                self.short.store(false, Ordering::Relaxed);
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(path = %self.path.display(), %error, "no reserve is allocated"),
        }
    }

    /// Extends the file to its intended length if the disk has enough space; returns its length.
    fn fill(&self) -> Result<Option<u64>> {
        let Some(wanted) = wanted(&self.path) else { return Ok(None) };
        if held(&self.path) == Some(wanted) {
            return Ok(Some(wanted));
        }
        let space = space_of(folder(&self.path))?;
        if space.free_bytes < room_kept(space.total_bytes) + 2 * wanted {
            return Ok(None);
        }
        let disk = RealDisk::new();
        disk.remove(&self.path)?;
        let file = disk.create(&self.path)?;
        let allocated = file.allocate(0, wanted, Allocate::Extend);
        if allocated.is_ok() && held(&self.path) == Some(wanted) {
            return Ok(Some(wanted));
        }
        disk.remove(&self.path)?;
        match allocated {
            Err(error) if is_full(&error) => Ok(None),
            // The file system cannot preallocate: one attempt is enough.
            _ => Ok(Some(0)),
        }
    }
}

/// The intended size of the reserve on this disk.
fn wanted(path: &Path) -> Option<u64> {
    let wanted = room_kept(space_of(folder(path)).ok()?.total_bytes) / OF_ROOM / 4096 * 4096;
    (wanted > 0).then_some(wanted)
}

/// The size of the existing reserve: 0 if the file is a copy without its blocks.
fn held(path: &Path) -> Option<u64> {
    let file = RealDisk::new().open(path).ok()?;
    let (length, blocks) = (file.len().ok()?, file.blocks().ok()?);
    (blocks.saturating_mul(512) >= length).then_some(length)
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_that_is_set_aside_is_given_back_in_parts() {
        let dir = tempfile::tempdir().unwrap();
        let reserve = Reserve::open(dir.path());
        assert!(!reserve.give(), "no reserve is allocated yet");
        let reserve = Reserve::open(dir.path());
        reserve.take();
        let path = dir.path().join("reserve");
        let Some(all) = held(&path) else { return };
        assert_eq!(Some(all), wanted(&path));
        assert!(reserve.give());
        assert_eq!(held(&path), Some(all - all / 2), "the other half remains");
        assert!(Reserve::open(dir.path()).give(), "the remaining half is released after a start as well");
        assert!(!path.exists());
        let again = Reserve::open(dir.path());
        again.take();
        assert_eq!(held(&path), Some(all));
        std::fs::File::create(&path).unwrap().set_len(all).unwrap();
        assert!(!Reserve::open(dir.path()).give(), "a file without blocks is no reserve");
    }
}
