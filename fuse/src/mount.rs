//! Mounting, serving and unmounting.
//!
//! - The kernel's mount is made and taken away here, by mount(2) and umount2(2) on our own descriptor of
//!   `/dev/fuse`; `fuser` serves the descriptor and never touches a mountpoint (its own unmounting goes by path and
//!   can take down what somebody else mounted there since).
//! - Unmounting detaches: it never waits for programs inside, nor takes away a mount that is not this one.
//! - A crash leaves the mountpoint behind, answering ENOTCONN: [`crate::MountpointState::Stale`].

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use objstore::volume::Volume;
use parking_lot::{Condvar, Mutex};
use rustix::fs::OFlags;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::adapter::{self, REQUEST_BYTES_MAX};
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::handles::OpenDirectories;
use crate::invalidate::Invalidator;
use crate::mountpoint::{self, MountpointState, mountpoint_state};
use crate::options::{Options, SUBTYPE};
use crate::stats::{Stats, StatsSnapshot};
use crate::view::View;

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

/// A mounted volume, served by threads of this process. Dropping it unmounts.
pub struct Mount {
    attached: Attached,
    session: Arc<Session>,
    stats: Arc<Stats>,
    volume: Volume,
}

/// Mounts `volume` at the directory `at`.
///
/// # Errors
/// If `at` is no directory or an Amphora mount already, an option is not valid, or this process may not mount.
pub fn mount(volume: Volume, at: &Path, options: Options) -> Result<Mount> {
    check(at, &options)?;
    let path = mountpoint::resolve(at)?;
    let view = View::new(volume.root(), &options);
    let stats = Arc::new(Stats::default());
    let (echoes, echoed) = channel();
    // The feed starts before the kernel can cache anything, so that no change falls between.
    let feed = volume.feed();
    let device = open_device()?;
    let attached = Attached::new(path, &device, &options, volume.read_only())?;
    let filesystem = Fs {
        volume: volume.clone(),
        view,
        directories: OpenDirectories::default(),
        clock: options.clock,
        stats: stats.clone(),
        echoes,
    };
    let failed = |source| Error::io("starting the session of", &attached.path, source);
    let server = adapter::Server::start(filesystem, device, options.threads).map_err(failed)?;
    let invalidator = Invalidator { kernel: server.kernel(), view, stats: stats.clone() };
    invalidator.clone().echo(echoed).map_err(failed)?;
    let following = invalidator.follow(feed).map_err(failed)?;
    let closing = volume.clone();
    let session =
        Session::run(server, volume.clone(), following).inspect_err(|_| closing.close_feed()).map_err(failed)?;
    attached.raise_readahead();
    Ok(Mount { attached, session, stats, volume })
}

impl Mount {
    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.attached.path
    }

    /// Whether it is still served: not so once somebody unmounted it and the last file in it was closed.
    pub fn is_alive(&self) -> bool {
        !self.session.is_over()
    }

    /// Detaches it from its path, waits, ten seconds at most, for its session to end, and brings what was written
    /// through it to disk.
    ///
    /// # Errors
    /// If the kernel refuses: then it is still mounted. [`Error::Unsynced`] if a write to disk failed: then it is not.
    pub fn unmount(&self) -> Result<Ended> {
        self.attached.detach()?;
        let ended = if self.session.wait(END_MAX) { Ended::Done } else { Ended::Busy };
        let synced = self.volume.sync_volume();
        synced.map_err(|source| Error::Unsynced { path: self.attached.path.clone(), source })?;
        Ok(ended)
    }

    /// How often each operation was called and how long it took.
    pub fn stats(&self) -> StatsSnapshot {
        self.stats.snapshot()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            tracing::warn!(%error, "a mount is left behind");
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
        MountpointState::Amphora => {
            return Err(Error::target(at, "an Amphora mount is there already; unmount it first"));
        }
        MountpointState::Stale => return Err(Error::target(at, "a dead Amphora mount is there; unmount it first")),
        MountpointState::NotMounted | MountpointState::Other => {}
    }
    if !mountpoint::is_directory(&mountpoint::resolve(at)?)? {
        return Err(Error::target(at, "it is not a directory; name one that exists"));
    }
    Ok(())
}

fn open_device() -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open("/dev/fuse", flags, rustix::fs::Mode::empty()).map_err(|errno| Error::Unable {
        why: "it cannot open /dev/fuse; load the kernel module fuse, and in a container pass the device in",
        source: errno.into(),
    })
}

/// The kernel's mount, detached on drop.
struct Attached {
    path: PathBuf,
    /// Its device, to know it again.
    device: OnceLock<String>,
    detached: AtomicBool,
}

impl Attached {
    fn new(path: PathBuf, device: &OwnedFd, options: &Options, read_only: bool) -> Result<Self> {
        let mut flags = MountFlags::empty();
        flags.set(MountFlags::RDONLY, options.read_only || read_only);
        flags.set(MountFlags::NOSUID | MountFlags::NODEV, !options.privileged_files);
        let data = CString::new(data(device.as_fd().as_raw_fd(), options)).unwrap_or_default();
        let kind = format!("fuse.{SUBTYPE}");
        let source = options.fs_name.as_str();
        rustix::mount::mount(source, &path, kind.as_str(), flags, data.as_c_str()).map_err(|errno| match errno {
            rustix::io::Errno::PERM => Error::Unable {
                why: "mounting needs root (CAP_SYS_ADMIN); run it as root or in a privileged container",
                source: errno.into(),
            },
            errno => Error::io("mounting at", &path, errno),
        })?;
        let attached = Self { path, device: OnceLock::new(), detached: AtomicBool::new(false) };
        if let Some(mounted) = mountpoint::top(&attached.path) {
            let _ = attached.device.set(mounted.device);
        }
        Ok(attached)
    }

    /// Unmounts, unless somebody did or mounted something else over it.
    fn detach(&self) -> Result<()> {
        if self.detached.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let mounted = mountpoint::top(&self.path).map(|mounted| mounted.device);
        if mounted.is_none() || mounted.as_ref() != self.device.get() {
            return Ok(());
        }
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        rustix::mount::unmount(&self.path, flags).map_err(|errno| {
            self.detached.store(false, Ordering::Release);
            Error::io("unmounting", &self.path, errno)
        })
    }

    /// Has the kernel read ahead as much as one request can carry; INIT can only lower its default of 128 KiB.
    fn raise_readahead(&self) {
        let Some(device) = self.device.get() else { return };
        let file = format!("/sys/class/bdi/{device}/read_ahead_kb");
        if let Err(error) = std::fs::write(&file, (REQUEST_BYTES_MAX / 1024).to_string()) {
            tracing::debug!(%error, file, "reading ahead stays at the kernel's default");
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Err(error) = self.detach() {
            tracing::warn!(%error, "a mountpoint is left behind");
        }
    }
}

/// The options the kernel's FUSE takes (mount.fuse(8)).
fn data(device: i32, options: &Options) -> String {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let others = if options.allow_other { ",allow_other" } else { "" };
    format!(
        "fd={device},rootmode=40000,user_id={uid},group_id={gid},default_permissions,\
         max_read={REQUEST_BYTES_MAX}{others}"
    )
}

/// The serving threads.
struct Session {
    thread: Mutex<Option<JoinHandle<()>>>,
    over: Mutex<bool>,
    ended: Condvar,
}

impl Session {
    /// Serves until the kernel is done with the mount, then ends the feed.
    fn run(server: adapter::Server, volume: Volume, following: JoinHandle<()>) -> std::io::Result<Arc<Self>> {
        let session = Arc::new(Self { thread: Mutex::new(None), over: Mutex::new(false), ended: Condvar::new() });
        let running = session.clone();
        let thread = std::thread::Builder::new().name("fuse-session".into()).spawn(move || {
            if let Err(error) = server.run() {
                tracing::warn!(%error, "a mount's session ended early");
            }
            volume.close_feed();
            let _ = following.join();
            drop(volume);
            *running.over.lock() = true;
            running.ended.notify_all();
        })?;
        *session.thread.lock() = Some(thread);
        Ok(session)
    }

    fn is_over(&self) -> bool {
        *self.over.lock()
    }

    /// Whether it is over within `limit`.
    fn wait(&self, limit: Duration) -> bool {
        let mut over = self.over.lock();
        self.ended.wait_while_for(&mut over, |over| !*over, limit);
        let ended = *over;
        drop(over);
        if ended && let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
        ended
    }
}
