//! The kernel's mount: made by mount(2), found again by a later process, taken away by umount2(2).
//!
//! - Detaching never waits for programs inside, nor takes away a mount that is not this one: it is known by its device
//!   number, as long as our descriptor keeps that from being used again.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::OFlags;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::error::{Error, Result};
use crate::mountpoint;
use crate::options::{Options, REQUEST_BYTES_MAX, SUBTYPE};

/// Opens a device that is no mount's yet.
pub(crate) fn open_device() -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open("/dev/fuse", flags, rustix::fs::Mode::empty()).map_err(|errno| Error::Unable {
        why: "it cannot open /dev/fuse; load the kernel module fuse, and in a container pass the device in",
        source: errno.into(),
    })
}

/// The kernel's mount, detached on drop.
pub(crate) struct Attached {
    path: PathBuf,
    /// Its device, to know it again; empty if it is not to be found.
    device: String,
    detached: AtomicBool,
}

impl Attached {
    /// Mounts at `path`, to be served through `device`.
    pub fn new(path: PathBuf, device: &OwnedFd, options: &Options, read_only: bool) -> Result<Self> {
        // Reads move no access time here, and /proc/mounts should say so.
        let mut flags = MountFlags::NOATIME;
        flags.set(MountFlags::RDONLY, options.read_only || read_only);
        flags.set(MountFlags::NOSUID | MountFlags::NODEV, !options.privileged_files);
        flags.set(MountFlags::NOEXEC, options.no_exec);
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
        let device = mountpoint::top(&path).map(|mounted| mounted.device).unwrap_or_default();
        Ok(Self { path, device, detached: AtomicBool::new(false) })
    }

    /// What another process mounted.
    pub fn found(path: PathBuf, device: String) -> Self {
        Self { path, device, detached: AtomicBool::new(false) }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its device in `/proc/self/mountinfo`; empty if it was not to be found.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Whether it is still at its path, seen or covered by another.
    pub fn is_attached(&self) -> bool {
        !self.device.is_empty() && mountpoint::has(&self.path, &self.device)
    }

    /// Whether it is what is seen at its path.
    fn is_in_place(&self) -> bool {
        !self.device.is_empty() && mountpoint::top(&self.path).is_some_and(|mounted| mounted.device == self.device)
    }

    /// Unmounts, unless somebody did or mounted something else over it.
    pub fn detach(&self) -> Result<()> {
        if self.detached.swap(true, Ordering::AcqRel) || !self.is_in_place() {
            return Ok(());
        }
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        rustix::mount::unmount(&self.path, flags).map_err(|errno| {
            self.detached.store(false, Ordering::Release);
            Error::io("unmounting", &self.path, errno)
        })
    }

    /// Has the kernel read ahead so many bytes; INIT can only lower its default of 128 KiB.
    pub fn set_readahead(&self, bytes: u32) {
        if self.device.is_empty() {
            return;
        }
        let file = format!("/sys/class/bdi/{}/read_ahead_kb", self.device);
        if let Err(error) = std::fs::write(&file, (bytes / 1024).to_string()) {
            tracing::debug!(%error, file, "reading ahead stays at the kernel's default");
        }
    }
}

/// Ends a mount at once: programs inside get ENOTCONN. For one that may show what is gone.
pub(crate) fn abort(path: &Path, device: &str) {
    tracing::error!(path = %path.display(), "the mount is ended: its kernel takes no more notices");
    if device.is_empty() || mountpoint::top(path).is_none_or(|mounted| mounted.device != device) {
        return;
    }
    if let Err(error) = mountpoint::abandon_path(path) {
        tracing::debug!(error = crate::error::with_causes(&error), "the mount is still there");
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
