//! Mounting, taking over, serving and unmounting.
//!
//! - The kernel's mount is made and taken away by us (`attached`); who serves the descriptor never touches a mountpoint.
//! - A mount that is kept is with the holder before it does anything, and stays there until the kernel is done with it.
//!
//! What a crash leaves, by the last thing that was done: move_mount(2), a dead mountpoint ([`crate::MountpointState::Stale`]);
//! the deposit, a mount whose INIT waits for the next server; the answer to INIT, a mount whose requests do;
//! umount2(2), a deposit whose device says that it is over, which the next server or the holder drops. Without a
//! holder it is a dead mountpoint in each case.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use objstore::volume::{SessionId, Volume};

use crate::adapter::{self, Agreement, Feature};
use crate::attached::{Attached, abort, open_device};
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::handles::OpenDirectories;
use crate::holder::{Custody, Held, Record};
use crate::invalidate::Invalidator;
use crate::mountpoint::{self, Attachment, Mountinfo, MountpointState, mountpoint_state};
use crate::options::{Options, REQUEST_BYTES_MAX};
use crate::passthrough::{Opens, Wish};
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::{Stats, StatsSnapshot, WatchedCall};
use crate::view::{ROOT_NODE, View};

/// How long [`Mount::unmount`] waits for the session to end.
const END_MAX: Duration = Duration::from_secs(10);

/// What unmounting left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nothing: the session is over.
    Done,
    /// Programs still hold files of the mount. They are served until they let go; the path is free already.
    Busy,
}

/// How a mount is kept for the process after this one.
pub struct Keep {
    /// Where.
    pub custody: Arc<Custody>,
    /// Its number: that of the volume's session.
    pub id: u64,
    /// What the next process has to know to open the volume again; [`Held::description`] gives it back.
    pub description: Vec<u8>,
}

/// A mounted volume, served by threads of this process. Dropping it unmounts.
pub struct Mount {
    attached: Attached,
    session: Arc<Session>,
    stats: Arc<Stats>,
    volume: Volume,
    /// Whether the holder has it.
    kept: bool,
}

/// Mounts `volume` at the directory `at`; it ends with this process.
///
/// # Errors
/// If `at` is no directory or an Amphora mount already, an option is not valid, or this process may not mount.
pub fn mount(volume: Volume, at: &Path, options: Options) -> Result<Mount> {
    mount_or_end(volume, at, options, None)
}

/// Mounts `volume` at the directory `at`, to outlive this process. What cannot be kept, because there is no holder or
/// the kernel is too old for it (Linux 6.9), is mounted all the same.
///
/// # Errors
/// As [`mount`].
pub fn mount_kept(volume: Volume, at: &Path, options: Options, keep: Keep) -> Result<Mount> {
    mount_or_end(volume, at, options, Some(keep))
}

/// Goes on with a mount that another process began: whatever its programs asked for meanwhile, and whatever that
/// process left unanswered, is served now. The volume has to be that mount's own session.
///
/// # Errors
/// If its record is of no use to this version; then it stays with the holder, and programs inside wait, unless a
/// [`crate::Refusal`] answers them.
pub fn take_over(volume: Volume, held: Held, options: Options, custody: Arc<Custody>) -> Result<Mount> {
    let failed = |source| Error::io("taking over", held.path(), source);
    let (device, memory) = held.descriptors().map_err(failed)?;
    let shared = Shared::open(memory).map_err(failed)?;
    let agreement = Agreement { init: held.record.init.clone(), answer: held.record.answer.clone() };
    let session = adapter::Session::resume(device, &agreement).map_err(failed)?;
    // Before the first request is read: what this process has taken must not be sent to it once more.
    session.notices().resend().map_err(failed)?;
    let attached = Attached::found(held.record.path.clone(), held.record.device.clone());
    let id = held.id();
    custody.adopt(held.deposit);
    serve(volume, attached, session, shared, options, Some((custody, id)))
}

/// A session whose mount does not come to be is over.
fn mount_or_end(volume: Volume, at: &Path, options: Options, keep: Option<Keep>) -> Result<Mount> {
    let ending = volume.clone();
    begin(volume, at, options, keep).inspect_err(|_| ending.end())
}

fn begin(volume: Volume, at: &Path, options: Options, keep: Option<Keep>) -> Result<Mount> {
    check(at, &options)?;
    let place = mountpoint::pin(at)?;
    let failed = |source| Error::io("starting the session of", at, source);
    let shared = Shared::create().map_err(failed)?;
    let device = open_device()?;
    let attached = Attached::new(&place, &device, &options, volume.read_only())?;
    let hello = adapter::Hello::read(device).map_err(failed)?;
    let kept = keep.and_then(|keep| deposit(&attached, &hello, &shared, keep));
    let session = hello.answer().map_err(failed);
    let session = session.inspect_err(|_| withdraw(kept.as_ref()))?;
    let readahead = options.readahead_bytes.min(REQUEST_BYTES_MAX);
    let mount = serve(volume, attached, session, shared, options, kept.clone());
    let mount = mount.inspect_err(|_| withdraw(kept.as_ref()))?;
    mount.attached.set_readahead(readahead);
    Ok(mount)
}

/// Where a mount is kept, and its number there.
type Kept = (Arc<Custody>, u64);

/// Puts a fresh mount with the holder. `None` if it is not to be kept at all.
fn deposit(attached: &Attached, hello: &adapter::Hello, shared: &Shared, keep: Keep) -> Option<Kept> {
    let Keep { custody, id, description } = keep;
    let path = attached.path().display();
    if !hello.has(Feature::HasResend) {
        tracing::warn!(%path, "this kernel cannot resend unanswered requests (Linux 6.9 or newer can); the mount ends with the server");
        return None;
    }
    let Agreement { init, answer } = hello.agreement();
    let (device, path_kept) = (attached.device().to_owned(), attached.path().to_owned());
    let record = Record { init, answer, device, path: path_kept, description };
    let kept = Held::deposit(id, &record, hello.device(), shared.memory());
    match kept.map_err(crate::holder::Error::Broken).and_then(|deposit| custody.deposit(deposit)) {
        Ok(()) => {}
        Err(error) => {
            let (why, later) = (crate::error::with_causes(&error), error.is_broken());
            tracing::warn!(%path, error = why, later, "no fd holder keeps this mount; it ends with the server");
            return later.then_some((custody, id));
        }
    }
    Some((custody, id))
}

/// Has the holder forget a mount that is over. One that cannot be asked notices by itself.
fn withdraw(kept: Option<&Kept>) {
    if let Some((custody, id)) = kept
        && let Err(error) = custody.withdraw(*id)
    {
        tracing::debug!(
            error = crate::error::with_causes(&error),
            "the holder could not be told of the end of a mount"
        );
    }
}

/// Starts the threads of a mount.
fn serve(
    volume: Volume,
    attached: Attached,
    session: adapter::Session,
    shared: Shared,
    options: Options,
    kept: Option<Kept>,
) -> Result<Mount> {
    let view = View::new(volume.root(), &options);
    let stats = Arc::new(Stats::default());
    // The feed starts before this process lets the kernel cache anything, so that no change falls between.
    let feed = volume.feed();
    let failed = |source| Error::io("starting the session of", attached.path(), source);
    let closing = volume.clone();
    let kernel = match options.notifier.filter(|_| kept.is_some()) {
        Some(program) => session.notices().apart(&program).map_err(failed)?,
        None => session.notices(),
    };
    let invalidator = Invalidator { kernel, view, stats: stats.clone() };
    let backing = session.has(Feature::Passthrough).then(|| session.backing());
    let write_past = session.has(Feature::DirectIoAllowMmap);
    let wish = Wish { page_cache: options.page_cache, write_past };
    let opens = Opens::resume(Arc::new(shared), backing, volume.clone(), view, wish);
    let filesystem = Fs {
        volume: volume.clone(),
        view,
        directories: OpenDirectories::new(volume.life()),
        clock: options.clock,
        stats: stats.clone(),
        opens,
    };
    let server = adapter::Server::new(filesystem, session, options.threads);
    let is_kept = kept.is_some();
    let (path, number) = (attached.path().to_owned(), attached.device().to_owned());
    let started = invalidator.follow(feed, volume.clone(), move || abort(&path, &number));
    let started =
        started.and_then(|following| Session::run(server, volume.clone(), following, move || withdraw(kept.as_ref())));
    let session = started.inspect_err(|_| closing.close_feed()).map_err(failed)?;
    Ok(Mount { attached, session, stats, volume, kept: is_kept })
}

impl Mount {
    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.attached.path()
    }

    /// Whether it is still served: not so once somebody unmounted it and the last file in it was closed.
    pub fn is_alive(&self) -> bool {
        !self.session.is_over()
    }

    /// Whether it is still at its path, seen or covered by another.
    pub fn is_attached(&self) -> bool {
        self.attached.is_attached()
    }

    /// Whether it was made to outlive this process.
    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// How it is attached, by a reading of all mounts; `None` if it is not.
    pub fn attachment(&self, mountinfo: &Mountinfo) -> Option<Attachment> {
        self.attached.attachment(mountinfo)
    }

    /// Whether the store refuses changes, whatever the kernel is told.
    pub fn is_fixed_read_only(&self) -> bool {
        self.volume.read_only()
    }

    /// The id of its bucket, or of its snapshot.
    pub fn bucket_id(&self) -> u64 {
        self.volume.bucket_id()
    }

    /// Its session, if it is one that outlives the server.
    pub fn session(&self) -> Option<SessionId> {
        self.volume.session()
    }

    /// Has the kernel refuse changes, or refuse them no more. What the store refuses stays refused.
    ///
    /// # Errors
    /// [`Error::InUse`] if files are open for writing and changes are to be refused; else the kernel's.
    pub fn remount(&self, read_only: bool) -> Result<()> {
        self.attached.remount(read_only)
    }

    /// Detaches it from its path, waits, ten seconds at most, for its session to end, and brings what was written
    /// through it to disk.
    ///
    /// # Errors
    /// If the kernel refuses: then it is still mounted. [`Error::Unsynced`] if a write to disk failed: then it is not.
    pub fn unmount(&self) -> Result<Ended> {
        self.end(Attached::detach)
    }

    /// The same, unless programs use it.
    ///
    /// # Errors
    /// As [`Mount::unmount`]; [`Error::InUse`] if programs use it, which then find it as it was.
    pub fn unmount_idle(&self) -> Result<Ended> {
        self.end(Attached::detach_idle)
    }

    fn end(&self, detach: impl FnOnce(&Attached) -> Result<()>) -> Result<Ended> {
        if self.session.is_over() {
            self.attached.is_gone();
        }
        detach(&self.attached)?;
        let ended = if self.session.wait(END_MAX) { Ended::Done } else { Ended::Busy };
        if ended == Ended::Done {
            self.attached.is_gone();
        }
        let synced = self.volume.sync_volume();
        synced.map_err(|source| Error::Unsynced { path: self.path().to_owned(), source })?;
        Ok(ended)
    }

    /// Leaves it to the next process: nothing is served from now on, and programs inside wait. For a process that ends
    /// at once; its threads stay. Whether all requests that were under way are answered within `limit`; the others are
    /// asked again of the next process, as after a crash.
    pub fn leave(self, limit: Duration) -> bool {
        let answered = self.session.pause(limit);
        // Dropping it would unmount.
        std::mem::forget(self);
        answered
    }

    /// How often each operation was called and how long it took.
    pub fn stats(&self) -> StatsSnapshot {
        self.stats.snapshot()
    }

    /// Each call of the kernel from now on, until the receiver is dropped or the mount ends.
    pub fn watch(&self) -> Receiver<WatchedCall> {
        self.stats.watch()
    }

    /// A path of a node from the bucket's root; `None` if it has none any more.
    pub fn path_of(&self, node: u64) -> Option<String> {
        let ino = if node == ROOT_NODE { self.volume.root() } else { node };
        self.volume.path(ino).ok().flatten()
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
