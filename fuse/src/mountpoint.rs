//! What is mounted at a path, asked without ever waiting for a filesystem's server.
//!
//! - `/proc/self/mountinfo` tells what is mounted, from the kernel's own memory. Nothing here resolves the last
//!   component of a path by a call that may reach a server, except [`probe`], on a thread that is not waited for.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use objstore::disk::{MountEntry, PinnedPath, mounts, topmost_mount};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::error::{Error, Result};
use crate::options::SUBTYPE;
use crate::users::users_of;

/// How long a server may take to answer before it counts as alive and slow: a dead one is told at once.
const PROBE_MAX: Duration = Duration::from_millis(500);

/// What is mounted at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountpointState {
    /// Nothing.
    NotMounted,
    /// An Amphora mount that is served.
    Amphora,
    /// An Amphora mount that has not answered for half a second: its server is slow, is being restarted, or is gone for
    /// good and a holder keeps the mount. Unmount it with [`abandon_path`].
    Silent,
    /// Another filesystem.
    Other,
    /// An Amphora mount whose server is gone: unmount it with [`unmount_path`].
    Stale,
}

/// What is mounted at `path`, topmost. Never waits for a filesystem's server longer than half a second.
pub fn mountpoint_state(path: &Path) -> MountpointState {
    let Some(mounted) = pin(path).ok().and_then(|place| top(place.path())) else {
        return MountpointState::NotMounted;
    };
    if mounted.is_amphora { probe(path) } else { MountpointState::Other }
}

/// Takes away the topmost mount at `path`, whatever its server does: processes inside keep it until they leave.
/// Fine if nothing is mounted there.
pub fn unmount_path(path: &Path) -> Result<()> {
    match unmount(&pin(path)?, UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(errno) => Err(Error::io("unmounting", path, errno)),
    }
}

/// Takes away the topmost mount at `path`, which nobody will serve again: what programs inside wait for, and all that they
/// ask from now on, fails with ECONNABORTED and ENOTCONN. Fine if nothing is mounted there.
pub fn abandon_path(path: &Path) -> Result<()> {
    match unmount(&pin(path)?, UnmountFlags::FORCE | UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(errno) => Err(Error::io("unmounting", path, errno)),
    }
}

/// The same, unless processes use the mount.
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

/// Unmounts what is at a place, which nobody can swap meanwhile: a directory that something is mounted at cannot be renamed.
pub(crate) fn unmount(place: &PinnedPath, flags: UnmountFlags) -> Result<(), Errno> {
    rustix::mount::unmount(place.by_descriptor(), flags | UnmountFlags::NOFOLLOW)
}

/// The device number of what a descriptor has open, from the kernel's memory, as `/proc/self/mountinfo` writes it.
pub(crate) fn device_of(descriptor: &OwnedFd) -> Result<String, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let found = statx(descriptor, "", flags, StatxFlags::TYPE)?;
    Ok(format!("{}:{}", found.stx_dev_major, found.stx_dev_minor))
}

/// What the server of the mount at `path` says. First from the kernel's memory, then by a question to the server, from a
/// thread of its own: a dead server's is refused at once, a slow one's is not waited for.
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
        // Without a thread nobody can ask; then it counts as served, and nothing is taken away.
        Ok(Ok(false)) | Err(_) => MountpointState::Amphora,
    }
}

fn is_dead(errno: Errno) -> bool {
    matches!(errno, Errno::NOTCONN | Errno::CONNABORTED | Errno::IO | Errno::STALE | Errno::NODEV)
}

/// The place that `path` names, its last component untouched: that may be the root of a dead mount.
pub(crate) fn pin(path: &Path) -> Result<PinnedPath> {
    PinnedPath::find(path).map_err(|source| Error::io("finding", path, source))
}

/// What the kernel's table of mounts says of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// The device, as `major:minor`.
    pub device: String,
    /// Whether it is ours by its type.
    pub is_amphora: bool,
    /// What the kernel refuses of its own accord, such as writes and setuid programs.
    pub flags: MountFlags,
}

/// How a mount is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Whether the kernel refuses changes through it.
    pub read_only: bool,
}

/// All that is mounted, read at one time.
pub struct Mountinfo(HashMap<PathBuf, Vec<Mounted>>);

impl Mountinfo {
    /// Reads it; empty if the system does not tell.
    pub fn read() -> Self {
        let mut by_path: HashMap<PathBuf, Vec<Mounted>> = HashMap::new();
        for mount in all() {
            let mounted = Mounted::from(&mount);
            by_path.entry(mount.path).or_default().push(mounted);
        }
        Self(by_path)
    }

    /// How the device is attached at a path, which has to be resolved; perhaps below others.
    pub(crate) fn attachment(&self, path: &Path, device: &str) -> Option<Attachment> {
        let mounted = self.0.get(path)?.iter().rev().find(|mounted| mounted.device == device)?;
        Some(Attachment { read_only: mounted.flags.contains(MountFlags::RDONLY) })
    }
}

/// The topmost mount at `path`, which has to be resolved.
pub(crate) fn top(path: &Path) -> Option<Mounted> {
    topmost_mount(path).ok()?.as_ref().map(Mounted::from)
}

/// Whether the device is mounted at `path`, which has to be resolved; perhaps below others.
pub(crate) fn has(path: &Path, device: &str) -> bool {
    all().any(|mount| mount.path == path && mount.device == device)
}

/// Where the device is mounted.
pub(crate) fn path_of(device: &str) -> Option<PathBuf> {
    all().find(|mount| mount.device == device).map(|mount| mount.path)
}

/// All mounts; none if the system does not tell.
fn all() -> impl Iterator<Item = MountEntry> {
    mounts().unwrap_or_default().into_iter()
}

impl From<&MountEntry> for Mounted {
    fn from(mount: &MountEntry) -> Self {
        // A file system that is read-only as a whole is so in each of its mounts.
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
