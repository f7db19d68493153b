//! The mounts this process serves, by directory: those of `amphora mount` and those of CSI.
//!
//! - A directory is mounted once; an operation on one holds its slot, and a second one meanwhile is refused as busy.
//! - The table's lock is never held while the system mounts or unmounts.
//! - A mount that somebody else took away counts as gone.
//! - A directory is known by its path with the links of its parent followed; the directory itself is never touched,
//!   because a mount there may be dead.

mod access;
mod error;
mod mounter;
mod totals;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use access::Access;
pub use error::Error;
pub use totals::{OperationTotal, Totals};

use fuse::{Ended, Mount, MountpointState};
use objstore::Store;
use objstore::disk::{Disk as _, RealDisk};
use objstore::name::BucketName;
use objstore::volume::VolumeOptions;

/// What to mount, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// The bucket or snapshot.
    pub bucket: BucketName,
    /// Refuse changes.
    pub read_only: bool,
    /// Show only what is below this directory of the bucket; empty: all.
    pub prefix: String,
    /// Show all files as this user's.
    pub uid: Option<u32>,
    /// Show all files as this group's.
    pub gid: Option<u32>,
    /// Whose grant opens it, by account: the mount ends with the grant. `None`: the administrator's.
    pub account: Option<String>,
    /// Who wants it.
    pub origin: Origin,
}

/// Who a mount was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `amphora mount`.
    Admin,
    /// CSI NodeStageVolume.
    Csi,
}

/// A mount as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// The bucket or snapshot.
    pub bucket: BucketName,
    /// The directory.
    pub dir: PathBuf,
    /// Whether changes are refused.
    pub read_only: bool,
    /// Who it was made for.
    pub origin: Origin,
}

/// The mounts of this process.
pub struct Table {
    store: Store,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slots: BTreeMap<PathBuf, Slot>,
    /// What mounts that ended did.
    ended: Totals,
}

enum Slot {
    /// Being mounted or unmounted.
    Busy,
    Mounted(Entry),
}

struct Entry {
    point: MountPoint,
    mount: Mount,
}

impl Table {
    /// An empty one.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store, state: Mutex::default() }
    }

    /// Mounts. Blocking.
    ///
    /// # Errors
    /// The directory is busy, taken or unfit, or the bucket cannot be opened; nothing is mounted then.
    pub fn mount(&self, request: Request, dir: &Path) -> Result<(), Error> {
        let dir = &resolve(dir)?;
        let slot = self.reserve(dir)?;
        clear_dead(dir)?;
        let volume = VolumeOptions { read_only: request.read_only, prefix: request.prefix, account: request.account };
        let volume = self.store.open_volume(&request.bucket, volume)?;
        let read_only = request.read_only || volume.read_only();
        let options = fuse::Options {
            read_only,
            uid: request.uid,
            gid: request.gid,
            fs_name: format!("amphora:{}", request.bucket),
            ..fuse::Options::default()
        };
        let mount = fuse::mount(volume, dir, options)?;
        let point = MountPoint { bucket: request.bucket, dir: dir.to_owned(), read_only, origin: request.origin };
        tracing::info!(bucket = %point.bucket, dir = %dir.display(), read_only, "mounted");
        slot.fill(Entry { point, mount });
        Ok(())
    }

    /// Unmounts, also what a server that died left there. Blocking.
    ///
    /// # Errors
    /// Nothing of ours is mounted there, or the system refuses.
    pub fn unmount(&self, dir: &Path) -> Result<(), Error> {
        let dir = &resolve(dir)?;
        let (slot, entry) = match self.take(dir) {
            Err(Error::NotMounted { .. }) if fuse::mountpoint_state(dir) == MountpointState::Stale => {
                return clear_dead(dir);
            }
            taken => taken?,
        };
        let unmounted = entry.mount.unmount();
        if matches!(unmounted, Ok(_) | Err(fuse::Error::Unsynced { .. })) {
            self.state().ended.add(&entry.mount.stats());
            entry.end(unmounted.as_ref().is_ok_and(|ended| *ended == Ended::Busy));
        } else {
            slot.fill(entry);
        }
        Ok(unmounted.map(drop)?)
    }

    /// Ends all mounts with the process: what is mapped in memory and changed reaches the store, and those of
    /// `amphora mount` are unmounted. Those of CSI stay where pods see them, dead until the next process rebuilds
    /// them; detaching them would only wait for the pods. All at once, because each takes its time. Blocking.
    pub fn end_all(&self) {
        let slots = std::mem::take(&mut self.state().slots);
        std::thread::scope(|threads| {
            // The innermost first: one mount may lie in another.
            for entry in slots.into_values().rev().filter_map(Slot::into_entry) {
                threads.spawn(move || entry.end_with_process());
            }
        });
    }

    /// What is mounted, by directory.
    #[must_use]
    pub fn list(&self) -> Vec<MountPoint> {
        let state = self.state();
        state.slots.values().filter_map(Slot::alive).map(|entry| entry.point.clone()).collect()
    }

    /// What is mounted at a directory.
    #[must_use]
    pub fn at(&self, dir: &Path) -> Option<MountPoint> {
        let dir = resolve(dir).ok()?;
        self.state().slots.get(&dir).and_then(Slot::alive).map(|entry| entry.point.clone())
    }

    /// Where a bucket or snapshot is mounted.
    #[must_use]
    pub fn dirs_of(&self, bucket: &BucketName) -> Vec<PathBuf> {
        self.list().into_iter().filter(|point| point.bucket == *bucket).map(|point| point.dir).collect()
    }

    /// What all mounts did since the process started.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let state = self.state();
        let mut totals = state.ended.clone();
        for slot in state.slots.values() {
            if let Slot::Mounted(entry) = slot {
                totals.add(&entry.mount.stats());
            }
        }
        totals
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No operation leaves it half changed, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reserve(&self, dir: &Path) -> Result<Reserved<'_>, Error> {
        let mut state = self.state();
        match state.slots.get(dir) {
            Some(Slot::Busy) => return Err(Error::Busy { dir: dir.to_owned() }),
            Some(slot) => {
                if let Some(entry) = slot.alive() {
                    return Err(Error::Taken { dir: dir.to_owned(), bucket: entry.point.bucket.to_string() });
                }
            }
            None => {}
        }
        let gone = state.slots.insert(dir.to_owned(), Slot::Busy).and_then(Slot::into_entry);
        if let Some(entry) = &gone {
            state.ended.add(&entry.mount.stats());
        }
        drop(state);
        // Ending a session may block, so not under the lock.
        drop(gone);
        Ok(Reserved { table: self, dir: dir.to_owned() })
    }

    fn take(&self, dir: &Path) -> Result<(Reserved<'_>, Entry), Error> {
        let mut state = self.state();
        match state.slots.insert(dir.to_owned(), Slot::Busy) {
            Some(Slot::Mounted(entry)) => Ok((Reserved { table: self, dir: dir.to_owned() }, entry)),
            Some(Slot::Busy) => Err(Error::Busy { dir: dir.to_owned() }),
            None => {
                state.slots.remove(dir);
                Err(Error::NotMounted { dir: dir.to_owned() })
            }
        }
    }
}

impl Slot {
    fn alive(&self) -> Option<&Entry> {
        match self {
            Self::Mounted(entry) if entry.mount.is_alive() => Some(entry),
            Self::Mounted(_) | Self::Busy => None,
        }
    }

    fn into_entry(self) -> Option<Entry> {
        match self {
            Self::Mounted(entry) => Some(entry),
            Self::Busy => None,
        }
    }
}

impl Entry {
    fn end_with_process(self) {
        let dir = self.point.dir.display();
        // The kernel hands over what it holds of the mount: pages that programs mapped and changed.
        if let Err(error) = RealDisk::new().sync_everything(&self.point.dir) {
            tracing::error!(%dir, %error, "changes that programs made through mapped memory may be lost");
        }
        match self.point.origin {
            Origin::Csi => {
                tracing::info!(bucket = %self.point.bucket, %dir, "left for the next start");
                // Dropping it would unmount.
                std::mem::forget(self);
            }
            Origin::Admin => match self.mount.unmount() {
                Ok(ended) => self.end(ended == Ended::Busy),
                Err(error) => {
                    let error = crate::failure::with_causes(&error);
                    tracing::error!(%dir, error, "a mount could not be ended well");
                }
            },
        }
    }

    /// Lets go of a mount that was unmounted; `busy` if programs still hold files of it.
    fn end(self, busy: bool) {
        tracing::info!(bucket = %self.point.bucket, dir = %self.point.dir.display(), busy, "unmounted");
        if busy {
            // Dropping it would wait for those programs once more; its threads go by themselves.
            std::mem::forget(self);
        }
    }
}

/// A slot held for an operation; given back on drop unless filled.
struct Reserved<'a> {
    table: &'a Table,
    dir: PathBuf,
}

impl Reserved<'_> {
    fn fill(self, entry: Entry) {
        self.table.state().slots.insert(self.dir.clone(), Slot::Mounted(entry));
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut state = self.table.state();
        if matches!(state.slots.get(&self.dir), Some(Slot::Busy)) {
            state.slots.remove(&self.dir);
        }
    }
}

/// The one name of a directory.
fn resolve(dir: &Path) -> Result<PathBuf, Error> {
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(Error::NoDirectory { dir: dir.to_owned(), source: std::io::ErrorKind::InvalidInput.into() });
    };
    let parent = parent.canonicalize().map_err(|source| Error::NoDirectory { dir: dir.to_owned(), source })?;
    Ok(parent.join(name))
}

/// Takes away what a server that died left at a directory.
fn clear_dead(dir: &Path) -> Result<(), Error> {
    if fuse::mountpoint_state(dir) == MountpointState::Stale {
        tracing::warn!(dir = %dir.display(), "detaching a mount whose server died");
        fuse::unmount_path(dir)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_name() {
        let dir = tempfile::tempdir().expect("a folder");
        let real = dir.path().canonicalize().expect("there");
        std::fs::create_dir_all(real.join("a/m")).expect("made");
        std::os::unix::fs::symlink(real.join("a"), real.join("l")).expect("linked");
        assert_eq!(resolve(&real.join("l/./m/")).expect("named"), real.join("a/m"));
        assert!(matches!(resolve(&real.join("none/m")), Err(Error::NoDirectory { .. })));
        assert!(matches!(resolve(Path::new("/")), Err(Error::NoDirectory { .. })));
    }
}
