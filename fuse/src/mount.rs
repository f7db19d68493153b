//! A mount of a session's files: mounting, takeover, serving and unmounting.
//!
//! - The kernel mount is made and removed by this process (`kernel_mount`). The session's threads never touch a mount
//!   point.
//! - A mount that is to outlive this process is deposited with the fd holder before it serves a request, and stays
//!   there until the kernel mount is gone.
//!
//! A crash after move_mount(2) leaves a dead mount point ([`crate::MountpointState::Stale`]); after the deposit, a
//! mount whose INIT waits for the next server; after the reply to INIT, a mount whose requests wait for it; after
//! umount2(2), a deposit whose device reports its end, which the next server or the holder drops. Without a holder,
//! each of these is a dead mount point.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use objstore_files::{FileSession, SessionId};

use crate::adapter::{self, Agreement, Feature};
use crate::caller;
use crate::error::{Error, Result};
use crate::fs::Parts;
use crate::handles::OpenDirectories;
use crate::holder::{FdHolder, Held, Record};
use crate::invalidate::Invalidator;
use crate::kernel_mount::{KernelMount, abort, open_device};
use crate::known::Known;
use crate::locks::FileLocks;
use crate::mountpoint::{self, Attachment, Mountinfo, MountpointState, mountpoint_state};
use crate::options::{Locks, Options, REQUEST_BYTES_MAX};
use crate::passthrough::{OpenOptions, Opens};
use crate::session::Session;
use crate::shared_memory::{SharedMemory, Tables};
use crate::sharing::Sharing;
use crate::stats::{Stats, StatsSnapshot, WatchedCall};
use crate::view::{ROOT_NODE, View};

/// The longest wait of [`Mount::unmount`] for the session to end.
const END_MAX: Duration = Duration::from_secs(10);

/// How many times more the kernel reads ahead if the store is on another machine.
const REMOTE_READAHEAD: u32 = 8;

/// The outcome of unmounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The session has ended.
    Done,
    /// The mount point is free, but programs still use files of the mount. They are served until they close them.
    Busy,
}

/// How a mount is kept for the next server process.
pub struct Keep {
    /// The connection to the fd holder.
    pub fd_holder: Arc<FdHolder>,
    /// The id of the deposit: that of the session.
    pub id: u64,
    /// What the next process needs to open the session again; [`Held::description`] returns it.
    pub description: Vec<u8>,
}

/// Mounted files, served by threads of this process. Dropping it unmounts it.
pub struct Mount {
    kernel_mount: KernelMount,
    session: Arc<Session>,
    stats: Arc<Stats>,
    files: FileSession,
    /// Whether the mount is deposited with the holder.
    kept: bool,
}

/// Mounts `files` at the directory `at`; the mount ends with this process.
///
/// # Errors
/// If `at` is not a directory or already an Amphora mount, an option is not valid, or this process may not mount.
pub fn mount(files: FileSession, at: &Path, options: Options) -> Result<Mount> {
    mount_or_end(files, at, options, None)
}

/// Mounts `files` at the directory `at`, to outlive this process. If it cannot be kept, because there is no holder or
/// the kernel is older than Linux 6.9, it is mounted nevertheless.
///
/// # Errors
/// As [`mount`].
pub fn mount_kept(files: FileSession, at: &Path, options: Options, keep: Keep) -> Result<Mount> {
    mount_or_end(files, at, options, Some(keep))
}

/// Takes over a mount that another process began: requests that waited meanwhile, and those that process left
/// unanswered, are served now. The files have to be those of that mount's own session.
///
/// # Errors
/// If this version cannot read the mount's record. The mount then stays with the holder, and programs inside wait
/// unless a [`crate::Refusal`] answers them.
pub fn take_over(files: FileSession, held: Held, options: Options, fd_holder: Arc<FdHolder>) -> Result<Mount> {
    let failed = |source| Error::io("taking over", held.path(), source);
    let (device, memory) = held.descriptors().map_err(failed)?;
    // The holder reads the device in place of a server, and no more once the mount is claimed.
    let shared = SharedMemory::open(memory).map_err(failed)?.claimed();
    let agreement = Agreement { init: held.record.init.clone(), answer: held.record.answer.clone() };
    let session = adapter::Session::resume(device, &agreement).map_err(failed)?;
    // RESEND precedes the first read: requests that this process has read must not be sent to it again.
    session.notices().resend().map_err(failed)?;
    let kernel_mount = KernelMount::found(held.record.path.clone(), held.record.device.clone());
    let id = held.id();
    let sees_callers = caller::is_own_namespace(&held.record.pid_namespace);
    if !sees_callers {
        tracing::info!(path = %held.record.path.display(), "the callers of a mount cannot be looked up: another PID namespace numbers them");
    }
    fd_holder.adopt(held.deposit);
    let session = Taken { session, shared, sees_callers };
    serve(files, kernel_mount, session, options, Some((fd_holder, id)))
}

/// Mounts, and ends the session if that fails.
fn mount_or_end(files: FileSession, at: &Path, options: Options, keep: Option<Keep>) -> Result<Mount> {
    let ending = files.clone();
    begin(files, at, options, keep).inspect_err(|_| ending.end())
}

fn begin(files: FileSession, at: &Path, options: Options, keep: Option<Keep>) -> Result<Mount> {
    check(at, &options)?;
    let place = mountpoint::pin(at)?;
    let failed = |source| Error::io("starting the session of", at, source);
    let tables = if files.cacheable().is_some() { Tables::OpensAndNodes } else { Tables::Opens };
    let shared = SharedMemory::create(tables).map_err(failed)?.claimed();
    let device = open_device()?;
    let kernel_mount = KernelMount::new(&place, &device, &options, files.about().read_only)?;
    let locks_at_store = files.keeps_locks() && options.locks == Locks::Store;
    let hello = adapter::Hello::read(device, locks_at_store).map_err(failed)?;
    let kept = keep.and_then(|keep| deposit(&kernel_mount, &hello, &shared, keep));
    let session = hello.answer().map_err(failed);
    let session = session.inspect_err(|_| withdraw(kept.as_ref()))?;
    let readahead = readahead(&files, &options);
    let session = Taken { session, shared, sees_callers: true };
    let mount = serve(files, kernel_mount, session, options, kept.clone());
    let mount = mount.inspect_err(|_| withdraw(kept.as_ref()))?;
    mount.kernel_mount.set_readahead(readahead);
    Ok(mount)
}

/// How many bytes of a file that is read in sequence the kernel asks for ahead. Over a network several requests have to be
/// under way, or the link is idle while one is answered.
fn readahead(files: &FileSession, options: &Options) -> u32 {
    match files.local() {
        Some(_) => options.readahead_bytes.min(REQUEST_BYTES_MAX),
        None => options.readahead_bytes.saturating_mul(REMOTE_READAHEAD).min(REMOTE_READAHEAD * REQUEST_BYTES_MAX),
    }
}

/// The connection to the fd holder, and the id of a mount's deposit there.
type Kept = (Arc<FdHolder>, u64);

/// Deposits a new mount with the holder; `None` if it is not to outlive this process.
fn deposit(kernel_mount: &KernelMount, hello: &adapter::Hello, shared: &SharedMemory, keep: Keep) -> Option<Kept> {
    let Keep { fd_holder, id, description } = keep;
    let path = kernel_mount.path().display();
    if !hello.has(Feature::HasResend) {
        tracing::warn!(%path, "this kernel cannot resend unanswered requests (Linux 6.9 or newer can); the mount ends with the server");
        return None;
    }
    let Agreement { init, answer } = hello.agreement();
    let (device, path_kept) = (kernel_mount.device().to_owned(), kernel_mount.path().to_owned());
    let pid_namespace = caller::pid_namespace();
    let record = Record { init, answer, device, path: path_kept, description, pid_namespace };
    let kept = Held::deposit(id, &record, hello.device(), shared.memory());
    match kept.map_err(crate::holder::Error::Broken).and_then(|deposit| fd_holder.deposit(deposit)) {
        Ok(()) => {}
        Err(error) => {
            let (why, later) = (crate::error::with_causes(&error), error.is_broken());
            tracing::warn!(%path, error = why, later, "no fd holder keeps this mount; it ends with the server");
            return later.then_some((fd_holder, id));
        }
    }
    Some((fd_holder, id))
}

/// Withdraws the deposit of a mount that has ended. If the holder cannot be reached, it notices the end by itself.
fn withdraw(kept: Option<&Kept>) {
    if let Some((fd_holder, id)) = kept
        && let Err(error) = fd_holder.withdraw(*id)
    {
        tracing::debug!(error = crate::error::with_causes(&error), "cannot withdraw an ended mount from the holder");
    }
}

/// What this process has of a mount's kernel side.
struct Taken {
    session: adapter::Session,
    shared: SharedMemory,
    /// Whether the kernel numbers callers as `/proc` here does.
    sees_callers: bool,
}

/// Starts the threads of a mount.
fn serve(
    files: FileSession,
    kernel_mount: KernelMount,
    taken: Taken,
    options: Options,
    kept: Option<Kept>,
) -> Result<Mount> {
    let Taken { session, shared, sees_callers } = taken;
    let view = View::new(files.about().root, &options);
    let stats = Arc::new(Stats::default());
    // The changes are followed before the kernel can cache anything, so that none is missed.
    let changes = files.changes();
    let failed = |source| Error::io("starting the session of", kernel_mount.path(), source);
    let closing = files.clone();
    let kernel = match options.notifier.filter(|_| kept.is_some()) {
        Some(program) => session.notices().apart(&program).map_err(failed)?,
        None => session.notices(),
    };
    let sharing = Arc::new(Sharing::new(files.about().inherited));
    let shared = Arc::new(shared);
    let known = Arc::new(Known::resume(&files, shared.clone()));
    let invalidator = Invalidator::new(kernel, view, stats.clone(), (sharing.clone(), known.clone()));
    let backing = session.has(Feature::Passthrough).then(|| session.backing());
    let write_past = session.has(Feature::DirectIoAllowMmap);
    let locks = FileLocks::new(files.clone(), session.keeps_locks(), shared.clone());
    shared.let_close(locks.are_kept());
    let open_options = OpenOptions { page_cache: options.page_cache, write_past, locks: locks.are_kept() };
    let opens = Opens::resume(shared, backing, (files.clone(), sharing.clone()), view, open_options);
    let filesystem = Parts {
        session: files.clone(),
        view,
        directories: OpenDirectories::new(files.process()),
        clock: options.clock,
        stats: stats.clone(),
        opens,
        sharing,
        known,
        locks: locks.clone(),
        sees_callers,
    };
    let forgotten = filesystem.known.take_forgotten();
    forgotten.into_iter().for_each(|(node, lookups)| filesystem.serving(&files.own()).forget(node, lookups));
    let server = adapter::Server::new(filesystem, session, options.threads);
    let is_kept = kept.is_some();
    let (path, number) = (kernel_mount.path().to_owned(), kernel_mount.device().to_owned());
    let started = invalidator.follow(changes, files.clone(), locks, move || abort(&path, &number));
    let started =
        started.and_then(|following| Session::run(server, files.clone(), following, move || withdraw(kept.as_ref())));
    let session = started.inspect_err(|_| closing.close_changes()).map_err(failed)?;
    Ok(Mount { kernel_mount, session, stats, files, kept: is_kept })
}

impl Mount {
    /// The mount point.
    pub fn path(&self) -> &Path {
        self.kernel_mount.path()
    }

    /// Whether it is still served. It is not once it was unmounted and its last file was closed.
    pub fn is_alive(&self) -> bool {
        !self.session.is_over()
    }

    /// Whether it is still attached at its path, visible or covered by another mount.
    pub fn is_attached(&self) -> bool {
        self.kernel_mount.is_attached()
    }

    /// Whether it outlives this process.
    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// How it is attached, according to one reading of all mounts; `None` if it is not.
    pub fn attachment(&self, mountinfo: &Mountinfo) -> Option<Attachment> {
        self.kernel_mount.attachment(mountinfo)
    }

    /// Whether the store itself refuses changes, so that a remount cannot allow them.
    pub fn is_fixed_read_only(&self) -> bool {
        self.files.about().read_only
    }

    /// The id of its bucket or snapshot.
    pub fn bucket_id(&self) -> u64 {
        self.files.about().bucket_id
    }

    /// The id of its session, if the session outlives the server.
    pub fn session(&self) -> Option<SessionId> {
        self.files.about().id
    }

    /// Its files, for questions that the kernel does not ask.
    pub fn files(&self) -> FileSession {
        self.files.clone()
    }

    /// Makes the kernel mount read-only or writable. Changes that the store refuses stay refused.
    ///
    /// # Errors
    /// [`Error::InUse`] if it is to become read-only while files are open for writing; otherwise the kernel's error.
    pub fn remount(&self, read_only: bool) -> Result<()> {
        self.kernel_mount.remount(read_only)
    }

    /// Unmounts, waits up to ten seconds for the session to end, and syncs what was written through the mount.
    ///
    /// # Errors
    /// If the kernel refuses; the mount stays then. [`Error::Unsynced`] if syncing failed; it is unmounted then.
    pub fn unmount(&self) -> Result<Ended> {
        self.end(KernelMount::detach)
    }

    /// Unmounts, unless programs use the mount.
    ///
    /// # Errors
    /// As [`Mount::unmount`]; [`Error::InUse`] if programs use it, and then nothing has changed.
    pub fn unmount_idle(&self) -> Result<Ended> {
        self.end(KernelMount::detach_idle)
    }

    fn end(&self, detach: impl FnOnce(&KernelMount) -> Result<()>) -> Result<Ended> {
        if self.session.is_over() {
            self.kernel_mount.is_gone();
        }
        detach(&self.kernel_mount)?;
        let ended = if self.session.wait(END_MAX) { Ended::Done } else { Ended::Busy };
        if ended == Ended::Done {
            self.kernel_mount.is_gone();
        }
        let synced = match ended {
            Ended::Done => self.session.take_synced().unwrap_or(Ok(())),
            Ended::Busy => self.files.own().sync_volume(),
        };
        synced.map_err(|source| Error::Unsynced { path: self.path().to_owned(), source })?;
        Ok(ended)
    }

    /// Stops serving and leaves the mount to the next process; programs inside wait. This process has to end at once,
    /// since its threads stay blocked. Returns whether all requests in flight were answered within `limit`; the others
    /// are resent to the next process, as after a crash.
    pub fn leave(self, limit: Duration) -> bool {
        let answered = self.session.pause(limit);
        // Dropping it would unmount.
        std::mem::forget(self);
        answered
    }

    /// Counts and latencies of each operation.
    pub fn stats(&self) -> StatsSnapshot {
        StatsSnapshot { trips: self.files.trips(), ..self.stats.snapshot() }
    }

    /// Each call of the kernel from now on, until the receiver is dropped or the mount ends.
    pub fn watch(&self) -> Receiver<WatchedCall> {
        self.stats.watch()
    }

    /// A path of a node from the bucket's root; `None` if it has no name any more.
    pub fn path_of(&self, node: u64) -> Option<String> {
        let ino = if node == ROOT_NODE { self.files.about().root } else { node };
        self.files.own().path(ino).ok().flatten()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            tracing::warn!(%error, "cannot unmount a mount; it stays");
        }
    }
}

fn check(at: &Path, options: &Options) -> Result<()> {
    if options.umask & !0o777 != 0 {
        return Err(Error::Option { option: "umask", why: "use an octal number from 0 to 777" });
    }
    if options.fs_name.is_empty() || options.fs_name.contains('\0') {
        return Err(Error::Option { option: "fs_name", why: "use a name without NUL" });
    }
    match mountpoint_state(at) {
        MountpointState::Amphora | MountpointState::Silent => {
            return Err(Error::target(at, "an Amphora mount is there already; unmount it first"));
        }
        MountpointState::Stale => return Err(Error::target(at, "a dead Amphora mount is there; unmount it first")),
        MountpointState::NotMounted | MountpointState::Other => {}
    }
    Ok(())
}
