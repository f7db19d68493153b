//! The mounts this process serves, by directory: those of `amphora mount` and those of CSI.
//!
//! - A directory is mounted once; an operation on one holds its slot, and a second one meanwhile is refused as busy.
//! - The table's lock is never held while the system mounts or unmounts.
//! - A mount that somebody else took away counts as gone.
//! - With a holder a mount outlives this process: the next one takes it over before it opens a door (`holding`).
//! - A directory is known by its path with the links of its parent followed; the directory itself is never touched,
//!   because a mount there may be dead.

mod access;
mod error;
mod holding;
mod mounter;
mod request;
mod totals;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use access::Access;
pub use error::Error;
pub use holding::{Holding, Inheritance};
pub use request::{Look, Origin, Request};
pub use totals::{OperationTotal, Totals};

use fuse::holder::Held;
use fuse::{Ended, Mount, MountpointState, StatsSnapshot, WatchedCall};
use objstore::Store;
use objstore::disk::{Disk as _, RealDisk};
use objstore::name::BucketName;
use objstore::volume::SessionId;

use holding::Inherited;

/// How long what is under way may take once mounts are left to the next process.
const LEAVE_LIMIT: Duration = Duration::from_secs(5);

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
    /// Where mounts are kept; `None`: they end with this process.
    holding: Option<Holding>,
    /// How many there may be.
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slots: BTreeMap<PathBuf, Slot>,
    /// Detached mounts that programs still hold files of.
    lingering: Vec<Mount>,
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
    /// An empty one, for up to `limit` mounts. What is taken over has a place in any case.
    #[must_use]
    pub fn new(store: Store, holding: Option<Holding>, limit: usize) -> Self {
        Self { store, holding, limit, state: Mutex::default() }
    }

    /// Goes on with the mounts of a process before this one. One that cannot be gone on with is told in the log; the
    /// others are served. Blocking.
    pub fn adopt(&self, inheritance: Inheritance) {
        for inherited in inheritance.into_mounts() {
            let (id, dir) = (inherited.held.id(), inherited.held.path().to_owned());
            if let Err(error) = self.take_over(inherited) {
                let error = crate::failure::with_causes(&error);
                tracing::error!(id, dir = %dir.display(), error, "a mount cannot be taken over: programs inside wait");
            }
        }
    }

    fn take_over(&self, inherited: Inherited) -> Result<(), Error> {
        let Inherited { held, request } = inherited;
        let Some(holding) = &self.holding else { return Ok(()) };
        let session = SessionId::new(held.id());
        let volume = match self.store.open_volume(&request.bucket, request.volume(session, true)) {
            Err(objstore::Error::NotFound { .. } | objstore::Error::Invalid { .. }) => {
                return self.give_up(holding, &held);
            }
            opened => opened?,
        };
        let read_only = request.read_only || volume.read_only();
        let mount = fuse::take_over(volume, held, request.options(read_only), holding.custody.clone())?;
        let dir = mount.path().to_owned();
        tracing::info!(bucket = %request.bucket, dir = %dir.display(), read_only, "taken over");
        if mount.is_attached() {
            let point = MountPoint { bucket: request.bucket, dir: dir.clone(), read_only, origin: request.origin };
            self.state().slots.insert(dir, Slot::Mounted(Entry { point, mount }));
        } else {
            self.state().linger(mount);
        }
        Ok(())
    }

    /// Ends a mount that the store knows nothing of: it was put back to an earlier time, perhaps.
    fn give_up(&self, holding: &Holding, held: &Held) -> Result<(), Error> {
        tracing::warn!(dir = %held.path().display(), "the store does not know a mount of its own: the mount is ended");
        if let Some(session) = SessionId::new(held.id()) {
            self.store.end_session(session)?;
        }
        held.detach()?;
        holding.custody.withdraw(held.id()).map_err(|source| Error::Holder { source })
    }

    /// Mounts. Blocking.
    ///
    /// # Errors
    /// The directory is busy, taken or unfit, or the bucket cannot be opened; nothing is mounted then.
    pub fn mount(&self, request: Request, dir: &Path) -> Result<(), Error> {
        let dir = &resolve(dir)?;
        let slot = self.reserve(dir)?;
        clear_dead(dir)?;
        refuse_missing(dir)?;
        let session = self.holding.as_ref().map(|_| self.store.new_session());
        let volume = self.store.open_volume(&request.bucket, request.volume(session, false))?;
        let read_only = request.read_only || volume.read_only();
        let options = request.options(read_only);
        let mount = match self.holding.as_ref().zip(session) {
            Some((holding, session)) => fuse::mount_kept(volume, dir, options, holding.keep(session, &request))?,
            None => fuse::mount(volume, dir, options)?,
        };
        let point = MountPoint { bucket: request.bucket, dir: dir.to_owned(), read_only, origin: request.origin };
        tracing::info!(bucket = %point.bucket, dir = %dir.display(), read_only, "mounted");
        slot.fill(Entry { point, mount });
        Ok(())
    }

    /// Unmounts, also what nobody serves: what a server left there that died, or that a holder waits for in vain. Programs
    /// inside of that are told that it is over. Blocking.
    ///
    /// # Errors
    /// Nothing of ours is mounted there, or the system refuses.
    pub fn unmount(&self, dir: &Path) -> Result<(), Error> {
        let dir = &mounted(dir)?;
        let (slot, entry) = match self.take(dir) {
            Err(Error::NotMounted { dir }) => return clear_lost(&dir),
            taken => taken?,
        };
        let unmounted = entry.mount.unmount();
        if matches!(unmounted, Ok(_) | Err(fuse::Error::Unsynced { .. })) {
            let busy = unmounted.as_ref().is_ok_and(|ended| *ended == Ended::Busy);
            tracing::info!(bucket = %entry.point.bucket, dir = %dir.display(), busy, "unmounted");
            let mut state = self.state();
            state.ended.add(&entry.mount.stats());
            if busy {
                state.linger(entry.mount);
            }
        } else {
            slot.fill(entry);
        }
        Ok(unmounted.map(drop)?)
    }

    /// Has all mounts be without this process, which is about to end: what is mapped in memory and changed reaches the
    /// store; those that a holder keeps are left to the next process; the others end. Of those, the ones of CSI stay
    /// where pods see them, dead until the next process rebuilds them; detaching them would only wait for the pods.
    /// Blocking.
    pub fn end_all(&self) {
        let state = std::mem::take(&mut *self.state());
        let entries: Vec<_> = state.slots.into_values().filter_map(Slot::into_entry).collect();
        // All are still served: one may lie in another, and each takes its time.
        std::thread::scope(|threads| {
            for entry in &entries {
                threads.spawn(|| entry.sync());
            }
        });
        let is_held = self.holding.as_ref().is_some_and(|holding| holding.custody.is_held());
        let (kept, ending): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| is_held && entry.mount.is_kept());
        std::thread::scope(|threads| {
            // The innermost first.
            for entry in ending.into_iter().rev() {
                threads.spawn(move || entry.end_with_process());
            }
        });
        std::thread::scope(|threads| {
            for mount in kept.into_iter().map(|entry| entry.mount).chain(state.lingering) {
                threads.spawn(move || leave(mount));
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

    /// What each mount did since this process serves it; only that at `dir`, if given.
    ///
    /// # Errors
    /// `dir` is no mount of this server.
    pub fn stats(&self, dir: Option<&Path>) -> Result<Vec<(MountPoint, StatsSnapshot)>, Error> {
        let dir = dir.map(mounted).transpose()?;
        let state = self.state();
        let alive = state.slots.values().filter_map(Slot::alive);
        let asked = alive.filter(|entry| dir.as_ref().is_none_or(|dir| entry.point.dir == *dir));
        let told: Vec<_> = asked.map(|entry| (entry.point.clone(), entry.mount.stats())).collect();
        match dir {
            Some(dir) if told.is_empty() => Err(Error::NotMounted { dir }),
            _ => Ok(told),
        }
    }

    /// The calls of the kernel through the mount at `dir`, from now on.
    ///
    /// # Errors
    /// It is no mount of this server.
    pub fn watch(&self, dir: &Path) -> Result<Receiver<WatchedCall>, Error> {
        let dir = mounted(dir)?;
        let state = self.state();
        let entry = state.slots.get(&dir).and_then(Slot::alive);
        entry.map(|entry| entry.mount.watch()).ok_or_else(|| Error::NotMounted { dir: dir.clone() })
    }

    /// A path below the bucket of a node of the mount at `dir`.
    #[must_use]
    pub fn path_of(&self, dir: &Path, node: u64) -> Option<String> {
        let dir = resolve(dir).ok()?;
        self.state().slots.get(&dir).and_then(Slot::alive)?.mount.path_of(node)
    }

    /// The mounts that would end with this process, because no holder keeps them.
    #[must_use]
    pub fn ending(&self) -> Vec<PathBuf> {
        let is_held = self.holding.as_ref().is_some_and(|holding| holding.custody.is_held());
        let state = self.state();
        let mounted = state.slots.values().filter_map(Slot::alive);
        mounted.filter(|entry| !is_held || !entry.mount.is_kept()).map(|entry| entry.point.dir.clone()).collect()
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
        state.lingering.retain(Mount::is_alive);
        if !state.slots.contains_key(dir) && state.slots.len() + state.lingering.len() >= self.limit {
            return Err(Error::TooMany { limit: self.limit });
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

impl State {
    /// Keeps a detached mount until its programs let go; dropping it would wait for them.
    fn linger(&mut self, mount: Mount) {
        self.lingering.retain(Mount::is_alive);
        self.lingering.push(mount);
    }
}

impl Entry {
    /// Has the kernel hand over what it holds of the mount: pages that programs mapped and changed.
    fn sync(&self) {
        if !self.mount.is_alive() {
            return;
        }
        if let Err(error) = RealDisk::new().sync_everything(&self.point.dir) {
            let dir = self.point.dir.display();
            tracing::error!(%dir, %error, "changes that programs made through mapped memory may be lost");
        }
    }

    fn end_with_process(self) {
        let dir = self.point.dir.display();
        match self.point.origin {
            Origin::Csi => {
                tracing::info!(bucket = %self.point.bucket, %dir, "left for the next start");
                // Dropping it would unmount.
                std::mem::forget(self);
            }
            Origin::Admin => match self.mount.unmount() {
                Ok(ended) => {
                    let busy = ended == Ended::Busy;
                    tracing::info!(bucket = %self.point.bucket, %dir, busy, "unmounted");
                    if busy {
                        // Dropping it would wait for its programs once more; its threads go with the process.
                        std::mem::forget(self);
                    }
                }
                Err(error) => {
                    let error = crate::failure::with_causes(&error);
                    tracing::error!(%dir, error, "a mount could not be ended well");
                }
            },
        }
    }
}

/// Leaves a mount to the next process.
fn leave(mount: Mount) {
    let dir = mount.path().display().to_string();
    let answered = mount.leave(LEAVE_LIMIT);
    tracing::info!(dir, answered, "left to the next server");
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

/// The one name of a directory that something is mounted at: nothing is where nothing can be.
fn mounted(dir: &Path) -> Result<PathBuf, Error> {
    use std::io::ErrorKind::{InvalidInput, NotFound};
    resolve(dir).map_err(|error| match error {
        Error::NoDirectory { dir, source } if matches!(source.kind(), InvalidInput | NotFound) => {
            Error::NotMounted { dir }
        }
        other => other,
    })
}

/// Refuses a path that leads to nothing. What is mounted is not asked: its server may be gone.
fn refuse_missing(dir: &Path) -> Result<(), Error> {
    if fuse::mountpoint_state(dir) != MountpointState::NotMounted {
        return Ok(());
    }
    std::fs::symlink_metadata(dir).map(drop).map_err(|source| Error::NoDirectory { dir: dir.to_owned(), source })
}

/// Takes away what a server that died left at a directory.
fn clear_dead(dir: &Path) -> Result<(), Error> {
    if fuse::mountpoint_state(dir) == MountpointState::Stale {
        tracing::warn!(dir = %dir.display(), "detaching a mount whose server died");
        fuse::unmount_path(dir)?;
    }
    Ok(())
}

/// Takes away what nobody serves at a directory.
fn clear_lost(dir: &Path) -> Result<(), Error> {
    match fuse::mountpoint_state(dir) {
        MountpointState::Stale => clear_dead(dir),
        MountpointState::Silent => {
            tracing::warn!(dir = %dir.display(), "ending a mount that nobody serves");
            Ok(fuse::abandon_path(dir)?)
        }
        _ => Err(Error::NotMounted { dir: dir.to_owned() }),
    }
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

    #[test]
    fn a_directory_that_is_missing_is_told_with_what_to_do() {
        let dir = tempfile::tempdir().expect("a folder");
        refuse_missing(dir.path()).expect("there");
        let text = refuse_missing(&dir.path().join("none")).expect_err("missing").to_string();
        assert!(text.contains("none") && text.contains("make it first"), "{text}");
        for nothing in [Path::new("/"), &dir.path().join("none/m")] {
            assert!(matches!(mounted(nothing), Err(Error::NotMounted { .. })), "{}", nothing.display());
        }
    }
}
