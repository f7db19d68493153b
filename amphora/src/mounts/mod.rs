//! The table of mounts that this process serves, by directory: those of `amphora mount` and those of CSI.
//!
//! - A directory is mounted once. An operation on a directory holds its slot; a concurrent one is refused as busy.
//! - The table's lock is never held while the system mounts or unmounts.
//! - A mount that another program unmounted counts as gone even while programs are still in it: they are served until
//!   they leave, and the directory is free.
//! - With a holder, a mount outlives this process: the next one takes it over before it opens an endpoint (`takeover`).
//! - The administrator's mounts are recorded (`records`), so that a mount which neither server nor holder kept is made
//!   again or reported as lost (`restore`).
//! - A directory is identified by its path with the links of its parent resolved. The directory itself is never
//!   accessed, because a mount there may be dead.

mod access;
mod connecting;
mod directory;
mod ending;
mod error;
mod holding;
mod mounter;
mod orphans;
mod records;
mod remote;
mod remount;
mod request;
mod restore;
mod source;
mod takeover;
mod totals;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use access::Access;
pub use directory::resolve;
pub use ending::{Ending, Unmounting};
pub use error::Error;
pub use holding::{Holding, Inheritance, kept};
pub use orphans::unmount_without_server;
pub use remote::{Node, Proof, Remote};
pub use remount::Remount;
pub use request::{Look, Origin, Request, SOURCE_PREFIX};
pub use restore::LostMount;
pub use source::Source;
pub use takeover::UnservedMount;
pub use totals::{OperationTotal, Totals};

use fuse::{Mount, Mountinfo, StatsSnapshot, WatchedCall};
use objstore::name::BucketName;
use objstore_files::{FileSession, LinkStats};

use directory::{clear_dead, mounted, refuse_missing};
use records::Records;
use takeover::Unserved;

/// A mount in the form of reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// The bucket or snapshot.
    pub bucket: BucketName,
    /// The mount point.
    pub dir: PathBuf,
    /// Whether changes are refused.
    pub read_only: bool,
    /// The requester of the mount.
    pub origin: Origin,
    /// Whether it is made again at the start of a server if it is missing.
    pub keep: bool,
    /// The store on another machine that has the bucket; `None`: the store of this process.
    pub server: Option<String>,
    /// The connection to that store.
    pub link: Option<LinkStats>,
}

/// All mounts of this process.
pub struct Table {
    source: Source,
    /// The deposits with the fd holder; `None`: mounts end with this process.
    holding: Option<Holding>,
    /// The records of the administrator's mounts.
    records: Records,
    /// The most mounts.
    limit: usize,
    /// Whether a mount was ever asked for.
    is_used: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slots: BTreeMap<PathBuf, Slot>,
    /// Detached mounts of which programs still hold files.
    lingering: Vec<Mount>,
    /// Mounts whose requests are answered with errors.
    unserved: Vec<Unserved>,
    /// Recorded mounts that are missing, with the reason.
    lost: BTreeMap<PathBuf, String>,
    /// The totals of mounts that ended.
    ended: Totals,
}

enum Slot {
    /// A mount or unmount is in progress.
    Busy,
    Mounted(Box<Entry>),
}

struct Entry {
    dir: PathBuf,
    request: Request,
    mount: Mount,
}

impl Table {
    /// An empty table for up to `limit` mounts; mounts that are taken over are always accepted. Blocking.
    ///
    /// # Errors
    /// If the records in the data folder cannot be read.
    pub fn new(source: Source, holding: Option<Holding>, data_dir: &Path, limit: usize) -> objstore::Result<Self> {
        Ok(Self {
            source,
            holding,
            records: Records::open(data_dir)?,
            limit,
            is_used: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    /// Mounts. Blocking.
    ///
    /// # Errors
    /// If the directory is busy, taken or unusable, or the bucket cannot be opened; nothing is mounted then.
    pub fn mount(&self, request: Request, dir: &Path) -> Result<(), Error> {
        self.mount_checked(request, dir, |_| Ok(()))
    }

    /// Mounts, if the mounted volume passes `check`.
    fn mount_checked(
        &self,
        request: Request,
        dir: &Path,
        check: impl FnOnce(&Mount) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.is_used.store(true, Ordering::Release);
        let dir = resolve(dir)?;
        let slot = self.reserve(&dir)?;
        clear_dead(&dir)?;
        refuse_missing(&dir)?;
        let mount = self.begin(&request, &dir)?;
        check(&mount)?;
        self.record(&dir, &request, &mount)?;
        self.state().lost.remove(&dir);
        let read_only = request.read_only || mount.is_fixed_read_only();
        tracing::info!(bucket = %request.bucket, dir = %dir.display(), read_only, "mounted");
        slot.fill(Box::new(Entry { dir, request, mount }));
        Ok(())
    }

    fn begin(&self, request: &Request, dir: &Path) -> Result<Mount, Error> {
        let session = self.holding.as_ref().and_then(|_| self.source.new_session(request));
        let keep = self.holding.as_ref().zip(session).and_then(|(holding, session)| holding.keep(session, request));
        let session = session.filter(|_| keep.is_some());
        let files = self.source.open(request, session, false)?;
        let options = request.options(files.about().read_only);
        Ok(match keep {
            Some(keep) => fuse::mount_kept(files, dir, options, keep)?,
            None => fuse::mount(files, dir, options)?,
        })
    }

    /// Records a mount of the administrator. For a mount with --keep a failure is an error; for another it is logged.
    fn record(&self, dir: &Path, request: &Request, mount: &Mount) -> Result<(), Error> {
        // One with a store elsewhere is not made again by this process: fstab(5) makes it again.
        if request.origin != Origin::Admin || request.remote.is_some() {
            return Ok(());
        }
        match self.records.put(dir, request, mount.bucket_id()) {
            Err(error) if !request.keep => {
                let error = crate::failure::with_causes(&error);
                tracing::warn!(dir = %dir.display(), error, "cannot record the mount; `amphora status` will not show it if it is lost");
                Ok(())
            }
            put => Ok(put?),
        }
    }

    /// All mounts, by directory.
    #[must_use]
    pub fn list(&self) -> Vec<MountPoint> {
        let mountinfo = Mountinfo::read();
        self.sweep(&mountinfo);
        let state = self.state();
        state.slots.values().filter_map(|slot| slot.shown(&mountinfo)).map(|(_, point)| point).collect()
    }

    /// The mount at a directory.
    #[must_use]
    pub fn at(&self, dir: &Path) -> Option<MountPoint> {
        let (dir, mountinfo) = (resolve(dir).ok()?, Mountinfo::read());
        self.state().slots.get(&dir).and_then(|slot| slot.shown(&mountinfo)).map(|(_, point)| point)
    }

    /// The files of the mount at a directory, for questions about its session.
    #[must_use]
    pub fn files(&self, dir: &Path) -> Option<FileSession> {
        let dir = resolve(dir).ok()?;
        self.state().slots.get(&dir).and_then(Slot::alive).map(|entry| entry.mount.files())
    }

    /// The directories at which a bucket or snapshot is mounted.
    #[must_use]
    pub fn dirs_of(&self, bucket: &BucketName) -> Vec<PathBuf> {
        self.list().into_iter().filter(|point| point.bucket == *bucket).map(|point| point.dir).collect()
    }

    /// The statistics of each mount since this process serves it, or only of the one at `dir`.
    ///
    /// # Errors
    /// If `dir` is not a mount of this server.
    pub fn stats(&self, dir: Option<&Path>) -> Result<Vec<(MountPoint, StatsSnapshot)>, Error> {
        let (dir, mountinfo) = (dir.map(mounted).transpose()?, Mountinfo::read());
        let state = self.state();
        let shown = state.slots.values().filter_map(|slot| slot.shown(&mountinfo));
        let asked = shown.filter(|(_, point)| dir.as_ref().is_none_or(|dir| point.dir == *dir));
        let told: Vec<_> = asked.map(|(entry, point)| (point, entry.mount.stats())).collect();
        match dir {
            Some(dir) if told.is_empty() => Err(Error::NotMounted { dir }),
            _ => Ok(told),
        }
    }

    /// Subscribes to the kernel's calls through the mount at `dir`.
    ///
    /// # Errors
    /// If it is not a mount of this server.
    pub fn watch(&self, dir: &Path) -> Result<Receiver<WatchedCall>, Error> {
        let dir = mounted(dir)?;
        let state = self.state();
        let entry = state.slots.get(&dir).and_then(Slot::alive);
        entry.map(|entry| entry.mount.watch()).ok_or_else(|| Error::NotMounted { dir: dir.clone() })
    }

    /// A path in the bucket of a node of the mount at `dir`.
    #[must_use]
    pub fn path_of(&self, dir: &Path, node: u64) -> Option<String> {
        let dir = resolve(dir).ok()?;
        self.state().slots.get(&dir).and_then(Slot::alive)?.mount.path_of(node)
    }

    /// The mounts that end with this process because no holder keeps them.
    #[must_use]
    pub fn ending(&self) -> Vec<PathBuf> {
        let is_held = self.is_held();
        let state = self.state();
        let mounted = state.slots.values().filter_map(Slot::alive);
        mounted.filter(|entry| !is_held || !entry.mount.is_kept()).map(|entry| entry.dir.clone()).collect()
    }

    /// The state of the holder; `None` if the server runs without one.
    #[must_use]
    pub fn holder(&self) -> Option<fuse::holder::Status> {
        self.holding.as_ref().map(|holding| holding.fd_holder.status())
    }

    /// The totals of all mounts since the process started.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let state = self.state();
        let mut totals = state.ended.clone();
        for slot in state.slots.values() {
            if let Slot::Mounted(entry) = slot {
                totals.add(&entry.mount);
            }
        }
        totals
    }

    /// Whether a mount was ever asked for, also one that failed.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    /// Whether nothing is mounted here, and no program has a file of an earlier mount open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sweep(&Mountinfo::read());
        let mut state = self.state();
        state.drop_ended();
        state.slots.is_empty() && state.lingering.is_empty() && state.unserved.is_empty()
    }

    /// Whether a holder keeps the mounts that outlive this process.
    fn is_held(&self) -> bool {
        self.holding.as_ref().is_some_and(|holding| holding.fd_holder.is_held())
    }

    /// Removes mounts that other programs unmounted.
    fn sweep(&self, mountinfo: &Mountinfo) {
        let mut state = self.state();
        let gone: Vec<_> = state.slots.iter().filter(|(_, slot)| slot.is_gone(mountinfo)).collect();
        let gone: Vec<_> = gone.into_iter().map(|(dir, _)| dir.clone()).collect();
        let gone: Vec<_> = gone.into_iter().filter_map(|dir| state.slots.remove(&dir)?.into_entry()).collect();
        for entry in gone {
            self.let_go(&mut state, *entry);
        }
        state.drop_ended();
    }

    /// Removes a mount that another program unmounted, once its programs have left. One with --keep stays recorded.
    fn let_go(&self, state: &mut State, entry: Entry) {
        state.ended.add(&entry.mount);
        tracing::info!(bucket = %entry.request.bucket, dir = %entry.dir.display(), "unmounted by another program");
        if !entry.request.keep {
            self.records.remove(&entry.dir);
        }
        state.linger(entry.mount);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No operation leaves it half changed, so a panic elsewhere does not invalidate it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves the slot of a free directory.
    fn reserve(&self, dir: &Path) -> Result<Reserved<'_>, Error> {
        self.sweep(&Mountinfo::read());
        let mut state = self.state();
        match state.slots.get(dir) {
            Some(Slot::Busy) => return Err(Error::Busy { dir: dir.to_owned() }),
            Some(Slot::Mounted(entry)) => {
                return Err(Error::Taken { dir: dir.to_owned(), bucket: entry.request.bucket.to_string() });
            }
            None => {}
        }
        if state.slots.len() + state.lingering.len() >= self.limit {
            return Err(Error::TooMany { limit: self.limit });
        }
        state.slots.insert(dir.to_owned(), Slot::Busy);
        Ok(Reserved { table: self, dir: dir.to_owned() })
    }

    /// Reserves the slot of a directory with a mount of this process, and takes that mount.
    fn take(&self, dir: &Path) -> Result<(Reserved<'_>, Box<Entry>), Error> {
        self.sweep(&Mountinfo::read());
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

    /// The mount with its state, if it is still attached.
    fn shown(&self, mountinfo: &Mountinfo) -> Option<(&Entry, MountPoint)> {
        let entry = self.alive()?;
        let Request { bucket, origin, keep, remote, .. } = &entry.request;
        let server = remote.as_ref().map(|remote| remote.server.clone());
        let attachment = entry.mount.attachment(mountinfo)?;
        let read_only = attachment.read_only || entry.mount.is_fixed_read_only();
        let (bucket, dir, origin, keep) = (bucket.clone(), entry.dir.clone(), *origin, *keep);
        let link = entry.mount.files().link();
        Some((entry, MountPoint { bucket, dir, read_only, origin, keep, server, link }))
    }

    /// Whether another program unmounted the mount.
    fn is_gone(&self, mountinfo: &Mountinfo) -> bool {
        matches!(self, Self::Mounted(_)) && self.shown(mountinfo).is_none()
    }

    fn into_entry(self) -> Option<Box<Entry>> {
        match self {
            Self::Mounted(entry) => Some(entry),
            Self::Busy => None,
        }
    }
}

impl State {
    /// Keeps a detached mount until its programs close their files; dropping it would wait for them.
    fn linger(&mut self, mount: Mount) {
        self.lingering.push(mount);
    }

    /// Drops the detached mounts whose programs have left.
    fn drop_ended(&mut self) {
        self.unserved.retain(|unserved| !unserved.is_over());
        let all = std::mem::take(&mut self.lingering);
        let (lingering, over): (Vec<_>, Vec<_>) = all.into_iter().partition(Mount::is_alive);
        self.lingering = lingering;
        if !over.is_empty() {
            // Syncing what was written through them may take time.
            std::thread::spawn(move || drop(over));
        }
    }
}

/// A slot reserved for an operation; released on drop unless filled.
struct Reserved<'a> {
    table: &'a Table,
    dir: PathBuf,
}

impl Reserved<'_> {
    fn fill(self, entry: Box<Entry>) {
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
