//! The kernel mount: created by fsmount(2), found again by a later process, removed by umount2(2).
//!
//! - No path is resolved twice: the directory is opened, and the mount is attached to the open directory. So a user who
//!   can rename a part of the path cannot redirect mounting or unmounting.
//! - Detaching never waits for programs inside, and never removes another mount: the mount is recognized by its device
//!   number, which the kernel cannot reuse while our descriptor is open.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use objstore_disk::PinnedPath;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
};

use crate::error::{Error, Result};
use crate::mountpoint::{self, Attachment, Mountinfo};
use crate::options::{Options, REQUEST_BYTES_MAX, SUBTYPE};
use crate::users::users_of;

/// How long a short look at a mount may last, such as that of a program which lists mounts.
const GLANCE_MAX: Duration = Duration::from_secs(1);

/// Opens `/dev/fuse` for a new mount.
pub(crate) fn open_device() -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open("/dev/fuse", flags, rustix::fs::Mode::empty()).map_err(|errno| Error::Unable {
        why: "it cannot open /dev/fuse; load the kernel module fuse, and in a container pass the device in",
        source: errno.into(),
    })
}

/// A kernel mount, detached on drop.
pub(crate) struct KernelMount {
    path: PathBuf,
    /// The mount's device number, to recognize it again; empty if it was not found.
    device: String,
    detached: AtomicBool,
}

impl KernelMount {
    /// Mounts at `place`; requests arrive on `device`. The directory is opened once, and the mount is attached by
    /// descriptor.
    pub fn new(place: &PinnedPath, device: &OwnedFd, options: &Options, read_only: bool) -> Result<Self> {
        let path = place.path().to_owned();
        let directory = place.open_directory().map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::NOTDIR | Errno::LOOP) => Error::target(&path, "it is not a directory; name one that exists"),
            _ => Error::io("finding", &path, error),
        })?;
        let root = create(device, options, options.read_only || read_only).map_err(|refused| match refused {
            Refused::Context => Error::Option { option: "context", why: why_no_context(has_selinux()) },
            Refused::Mount(errno @ Errno::PERM) => Error::Unable {
                why: "mounting needs root (CAP_SYS_ADMIN); run it as root or in a privileged container",
                source: errno.into(),
            },
            Refused::Mount(errno) => Error::io("mounting at", &path, errno),
        })?;
        let number = mountpoint::device_of(&root).map_err(|errno| Error::io("mounting at", &path, errno))?;
        let here = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&root, "", &directory, "", here).map_err(|errno| Error::io("mounting at", &path, errno))?;
        if !mountpoint::has(&path, &number) {
            // The mount covers the opened directory, wherever that was moved; it is unmounted by the descriptor of its
            // root.
            let _ = rustix::mount::unmount(format!("/proc/self/fd/{}", root.as_raw_fd()), UnmountFlags::DETACH);
            return Err(Error::target(&path, "the directory was moved while it was being mounted at; try again"));
        }
        Ok(Self::found(path, number))
    }

    /// A mount that another process made.
    pub fn found(path: PathBuf, device: String) -> Self {
        Self { path, device, detached: AtomicBool::new(false) }
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The device number in `/proc/self/mountinfo`; empty if it was not found.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Whether it is still attached at its path, visible or covered by another mount.
    pub fn is_attached(&self) -> bool {
        !self.device.is_empty() && mountpoint::has(&self.path, &self.device)
    }

    /// How it is attached, visible or covered; `None` if it is not attached.
    pub fn attachment(&self, mountinfo: &Mountinfo) -> Option<Attachment> {
        mountinfo.attachment(&self.path, &self.device).filter(|_| !self.device.is_empty())
    }

    /// The pinned mount point, if this mount is the visible one there.
    fn place(&self) -> Option<PinnedPath> {
        let place = PinnedPath::find(&self.path).ok()?;
        let device = mountpoint::device_of(&place.open_directory().ok()?).ok()?;
        (!self.device.is_empty() && device == self.device).then_some(place)
    }

    /// Unmounts, unless it was unmounted already or another mount covers it. Programs inside keep it until they leave.
    pub fn detach(&self) -> Result<()> {
        self.take_away(UnmountFlags::DETACH)
    }

    /// Unmounts a mount that no program uses. Otherwise it is refused with [`Error::InUse`]; programs that only look at
    /// it for a moment do not count.
    pub fn detach_idle(&self) -> Result<()> {
        let until = Instant::now() + GLANCE_MAX;
        loop {
            match self.take_away(UnmountFlags::empty()) {
                Err(Error::InUse { users, .. }) if users.is_empty() && Instant::now() < until => {
                    std::thread::sleep(GLANCE_MAX / 20);
                }
                done => return done,
            }
        }
    }

    /// Ends the FUSE connection at once and unmounts: programs inside get ENOTCONN.
    pub fn abandon(&self) -> Result<()> {
        self.take_away(UnmountFlags::FORCE | UnmountFlags::DETACH)
    }

    /// Ends the connection of an unserved mount and unmounts it, unless programs use it.
    pub fn abandon_idle(&self) -> Result<()> {
        let users = users_of(&self.device);
        if !users.is_empty() {
            return Err(Error::InUse { path: self.path.clone(), users });
        }
        self.abandon()
    }

    fn take_away(&self, flags: UnmountFlags) -> Result<()> {
        if self.detached.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let Some(place) = self.place() else { return Ok(()) };
        mountpoint::unmount(&place, flags).map_err(|errno| {
            self.detached.store(false, Ordering::Release);
            match errno {
                Errno::BUSY => Error::InUse { path: self.path.clone(), users: users_of(&self.device) },
                errno => Error::io("unmounting", &self.path, errno),
            }
        })
    }

    /// Records that the mount is gone. Its device number may belong to another mount from now on, so it is not
    /// unmounted again.
    pub fn is_gone(&self) {
        self.detached.store(true, Ordering::Release);
    }

    /// Makes the kernel mount read-only or writable, and changes nothing else.
    pub fn remount(&self, read_only: bool) -> Result<()> {
        let failed = |errno: Errno| match errno {
            Errno::BUSY => Error::InUse { path: self.path.clone(), users: users_of(&self.device) },
            errno => Error::io("remounting", &self.path, errno),
        };
        let gone = || Error::target(&self.path, "another mount covers it");
        let place = self.place().ok_or_else(gone)?;
        let mut flags = mountpoint::top(place.path()).filter(|top| top.device == self.device).ok_or_else(gone)?.flags;
        flags.set(MountFlags::RDONLY, read_only);
        let root = place.open_directory().map_err(|error| Error::io("remounting", &self.path, error))?;
        if mountpoint::device_of(&root).map_err(failed)? != self.device {
            return Err(gone());
        }
        let remounted = rustix::mount::mount_remount(format!("/proc/self/fd/{}", root.as_raw_fd()), flags, "");
        // While `root` is open, this process would count as a user of the mount.
        drop(root);
        remounted.map_err(failed)
    }

    /// Sets the kernel's readahead in bytes; INIT can only lower its default of 128 KiB.
    pub fn set_readahead(&self, bytes: u32) {
        if self.device.is_empty() {
            return;
        }
        let file = format!("/sys/class/bdi/{}/read_ahead_kb", self.device);
        if let Err(error) = std::fs::write(&file, (bytes / 1024).to_string()) {
            tracing::debug!(%error, file, "cannot set readahead; the kernel's default stays");
        }
    }
}

/// Ends a mount at once: programs inside get ENOTCONN. Called for a mount whose caches may be out of date.
pub(crate) fn abort(path: &Path, device: &str) {
    tracing::error!(path = %path.display(), "the kernel accepts no more cache invalidations of this mount; the mount is ended");
    if let Err(error) = KernelMount::found(path.to_owned(), device.to_owned()).abandon() {
        tracing::debug!(error = crate::error::with_causes(&error), "the mount is still there");
    }
}

impl Drop for KernelMount {
    fn drop(&mut self) {
        if let Err(error) = self.detach() {
            tracing::warn!(%error, "cannot unmount a mount point; it stays");
        }
    }
}

/// What the kernel refused of a new mount.
enum Refused {
    /// The SELinux context.
    Context,
    /// The mount.
    Mount(Errno),
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self::Mount(errno)
    }
}

/// Whether the kernel has SELinux, wherever its file system is mounted: one that was started without it does not know the type.
fn has_selinux() -> bool {
    std::fs::read_to_string("/proc/filesystems").is_ok_and(|types| lists_selinux(&types))
}

fn lists_selinux(types: &str) -> bool {
    types.lines().any(|line| line.split_whitespace().next_back() == Some("selinuxfs"))
}

fn why_no_context(has_selinux: bool) -> &'static str {
    match has_selinux {
        true => "the SELinux policy of this machine does not accept it; use USER:ROLE:TYPE:LEVEL as in `ls -Z`",
        false => "this machine runs without SELinux; leave the option out, or use a machine with SELinux",
    }
}

/// Creates a mount that is attached nowhere yet, with the options of mount.fuse(8), and returns a descriptor of its
/// root.
fn create(device: &OwnedFd, options: &Options, read_only: bool) -> Result<OwnedFd, Refused> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let filesystem = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let texts = [
        ("source", options.fs_name.clone()),
        ("subtype", SUBTYPE.to_owned()),
        ("fd", device.as_raw_fd().to_string()),
        ("rootmode", "40000".to_owned()),
        ("user_id", uid.to_string()),
        ("group_id", gid.to_string()),
        ("max_read", REQUEST_BYTES_MAX.to_string()),
    ];
    for (name, value) in texts {
        fsconfig_set_string(&filesystem, name, value)?;
    }
    let words = [("default_permissions", true), ("allow_other", options.allow_other), ("ro", read_only)];
    for (word, _) in words.into_iter().filter(|(_, wanted)| *wanted) {
        fsconfig_set_flag(&filesystem, word)?;
    }
    if let Some(context) = &options.context {
        // SELinux takes it before the file system sees it; without SELinux it is an option that FUSE does not know.
        fsconfig_set_string(&filesystem, "context", context).map_err(|errno| match errno {
            Errno::INVAL => Refused::Context,
            errno => Refused::Mount(errno),
        })?;
    }
    fsconfig_create(&filesystem)?;
    // Reads do not update access times here, and /proc/mounts says so.
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NOATIME;
    attributes.set(MountAttrFlags::MOUNT_ATTR_RDONLY, read_only);
    attributes.set(MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV, !options.privileged_files);
    attributes.set(MountAttrFlags::MOUNT_ATTR_NOEXEC, options.no_exec);
    Ok(fsmount(&filesystem, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selinux_is_found_by_its_file_system() {
        assert!(lists_selinux("nodev\tsysfs\nnodev\tselinuxfs\n\text4\n"));
        assert!(!lists_selinux("nodev\tsysfs\n\text4\n"));
        assert!(why_no_context(false).contains("without SELinux") && why_no_context(true).contains("policy"));
    }
}
