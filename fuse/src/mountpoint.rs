//! The state of a mount point, read without waiting for the server of a file system.
//!
//! - `/proc/self/mountinfo` lists mounts from the kernel's own memory. No call here that may reach a server resolves
//!   the last component of a path, except [`probe`], which runs on a separate thread.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use objstore_disk::{MountEntry, PinnedPath, mounts, topmost_mount};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::error::{Error, Result};
use crate::options::SUBTYPE;
use crate::users::users_of;

/// How long a server may take to answer before it counts as alive but slow. A dead server's mount fails at once.
const PROBE_MAX: Duration = Duration::from_millis(500);

/// The state of a mount point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountpointState {
    /// Nothing is mounted.
    NotMounted,
    /// An Amphora mount that is served.
    Amphora,
    /// An Amphora mount that has not answered for half a second: its server is slow or restarting, or has ended for
    /// good while a holder keeps the mount. [`abandon_path`] unmounts it.
    Silent,
    /// A mount of another file system.
    Other,
    /// An Amphora mount whose server has ended; [`unmount_path`] unmounts it.
    Stale,
}

/// The state of the topmost mount at `path`. Waits for a server at most half a second.
pub fn mountpoint_state(path: &Path) -> MountpointState {
    let Some(mounted) = pin(path).ok().and_then(|place| top(place.path())) else {
        return MountpointState::NotMounted;
    };
    if mounted.is_amphora { probe(path) } else { MountpointState::Other }
}

/// Unmounts the topmost mount at `path`, in any state of its server; processes inside keep it until they leave.
/// If nothing is mounted there, it succeeds.
pub fn unmount_path(path: &Path) -> Result<()> {
    match unmount(&pin(path)?, UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(errno) => Err(Error::io("unmounting", path, errno)),
    }
}

/// Ends the topmost mount at `path`, which no server will serve again: calls in flight and later calls of programs
/// inside fail with ECONNABORTED and ENOTCONN. If nothing is mounted there, it succeeds.
pub fn abandon_path(path: &Path) -> Result<()> {
    match unmount(&pin(path)?, UnmountFlags::FORCE | UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(errno) => Err(Error::io("unmounting", path, errno)),
    }
}

/// Unmounts the topmost mount at `path` unless processes use it.
///
/// # Errors
/// [`Error::InUse`] if they do.
pub fn unmount_idle_path(path: &Path) -> Result<()> {
    let place = pin(path)?;
    let users = top(place.path()).map(|mounted| users_of(&mounted.device)).unwrap_or_default();
    if !users.is_empty() {
        return Err(Error::InUse { path: path.to_owned(), users });
    }
    abandon_path(path)
}

/// Unmounts the mount at a pinned path. No user can swap it meanwhile: a directory with a mount on it cannot be
/// renamed.
pub(crate) fn unmount(place: &PinnedPath, flags: UnmountFlags) -> Result<(), Errno> {
    rustix::mount::unmount(place.by_descriptor(), flags | UnmountFlags::NOFOLLOW)
}

/// The device number of an open file, from the kernel's memory, as `/proc/self/mountinfo` writes it.
pub(crate) fn device_of(descriptor: &OwnedFd) -> Result<String, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let found = statx(descriptor, "", flags, StatxFlags::TYPE)?;
    Ok(format!("{}:{}", found.stx_dev_major, found.stx_dev_minor))
}

/// The state of the server behind the mount at `path`: first from the kernel's memory, then by a request to the server
/// on a separate thread. A dead server's request fails at once; a slow server's is not waited for.
fn probe(path: &Path) -> MountpointState {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    if statx(CWD, path, flags | AtFlags::STATX_DONT_SYNC, StatxFlags::MODE).is_err_and(is_dead) {
        return MountpointState::Stale;
    }
    let (answer, answered) = mpsc::channel();
    let path = path.to_owned();
    let asked = std::thread::Builder::new().name("fuse-probe".into()).spawn(move || {
        let found = statx(CWD, path, flags | AtFlags::STATX_FORCE_SYNC, StatxFlags::MODE);
        let _ = answer.send(found.is_err_and(is_dead));
    });
    match asked.map(|_| answered.recv_timeout(PROBE_MAX)) {
        Ok(Ok(true)) => MountpointState::Stale,
        Ok(Err(_)) => MountpointState::Silent,
        // Without a thread the server cannot be asked; it counts as alive then, and nothing is unmounted.
        Ok(Ok(false)) | Err(_) => MountpointState::Amphora,
    }
}

fn is_dead(errno: Errno) -> bool {
    matches!(errno, Errno::NOTCONN | Errno::CONNABORTED | Errno::IO | Errno::STALE | Errno::NODEV)
}

/// Pins the path without touching its last component, which may be the root of a dead mount.
pub(crate) fn pin(path: &Path) -> Result<PinnedPath> {
    PinnedPath::find(path).map_err(|source| Error::io("finding", path, source))
}

/// One mount in the kernel's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// The device, as `major:minor`.
    pub device: String,
    /// Whether its type is an Amphora mount's.
    pub is_amphora: bool,
    /// What the kernel itself refuses on it, such as writes and setuid programs.
    pub flags: MountFlags,
}

/// How a mount is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Whether the kernel refuses changes through it.
    pub read_only: bool,
}

/// All mounts, read at one moment.
pub struct Mountinfo(HashMap<PathBuf, Vec<Mounted>>);

impl Mountinfo {
    /// Reads the table of mounts; empty if the system does not provide it.
    pub fn read() -> Self {
        let mut by_path: HashMap<PathBuf, Vec<Mounted>> = HashMap::new();
        for mount in all() {
            let mounted = Mounted::from(&mount);
            by_path.entry(mount.path).or_default().push(mounted);
        }
        Self(by_path)
    }

    /// How the device is attached at a path, visible or covered. The path has to be resolved.
    pub(crate) fn attachment(&self, path: &Path, device: &str) -> Option<Attachment> {
        let mounted = self.0.get(path)?.iter().rev().find(|mounted| mounted.device == device)?;
        Some(Attachment { read_only: mounted.flags.contains(MountFlags::RDONLY) })
    }
}

/// The topmost mount at `path`, which has to be resolved.
pub(crate) fn top(path: &Path) -> Option<Mounted> {
    topmost_mount(path).ok()?.as_ref().map(Mounted::from)
}

/// Whether the device is mounted at `path`, visible or covered. The path has to be resolved.
pub(crate) fn has(path: &Path, device: &str) -> bool {
    all().any(|mount| mount.path == path && mount.device == device)
}

/// The path at which the device is mounted.
pub(crate) fn path_of(device: &str) -> Option<PathBuf> {
    all().find(|mount| mount.device == device).map(|mount| mount.path)
}

/// All mounts; none if the system does not provide them.
fn all() -> impl Iterator<Item = MountEntry> {
    mounts().unwrap_or_default().into_iter()
}

impl From<&MountEntry> for Mounted {
    fn from(mount: &MountEntry) -> Self {
        // A file system that is read-only as a whole is read-only in each of its mounts.
        let flags = flags(&mount.options) | flags(&mount.fs_options) & MountFlags::RDONLY;
        let is_amphora = mount.fs_type.strip_prefix("fuse.") == Some(SUBTYPE);
        Self { device: mount.device.clone(), is_amphora, flags }
    }
}

fn flags(options: &[String]) -> MountFlags {
    let flag = |option: &String| match option.as_str() {
        "ro" => MountFlags::RDONLY,
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    };
    options.iter().map(flag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounted(fs_type: &str, options: &[&str], fs_options: &[&str]) -> Mounted {
        let list = |options: &[&str]| options.iter().map(ToString::to_string).collect();
        let (options, fs_options) = (list(options), list(fs_options));
        Mounted::from(&MountEntry { fs_type: fs_type.into(), options, fs_options, ..MountEntry::default() })
    }

    #[test]
    fn a_mount_is_ours_by_its_type() {
        assert!(mounted("fuse.amphora", &[], &[]).is_amphora);
        assert!(!mounted("fuse.other", &[], &[]).is_amphora && !mounted("amphora", &[], &[]).is_amphora);
    }

    #[test]
    fn the_flags_of_a_mount_are_its_own_and_its_file_systems() {
        let flags = |options: &[&str], fs_options: &[&str]| mounted("fuse.amphora", options, fs_options).flags;
        assert!(flags(&["ro", "nosuid"], &["rw"]).contains(MountFlags::RDONLY));
        assert!(flags(&["rw", "nosuid"], &["ro", "user_id=0"]).contains(MountFlags::RDONLY));
        assert!(!flags(&["rw", "noexec"], &["rw", "user_id=0"]).contains(MountFlags::RDONLY));
        let both = flags(&["rw", "noexec", "noatime"], &["rw", "nosuid"]);
        assert_eq!(both, MountFlags::NOEXEC | MountFlags::NOATIME);
    }

    #[test]
    fn ordinary_paths_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(mountpoint_state(folder.path()), MountpointState::NotMounted);
        assert_eq!(mountpoint_state(&folder.path().join("absent")), MountpointState::NotMounted);
        assert_eq!(mountpoint_state(Path::new("/proc")), MountpointState::Other);
        assert!(unmount_path(folder.path()).is_ok());
        assert!(pin(Path::new("/")).is_err());
    }
}
