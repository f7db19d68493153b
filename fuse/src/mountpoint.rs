//! What is mounted at a path, asked without ever waiting for a filesystem's server.
//!
//! - `/proc/self/mountinfo` tells what is mounted, from the kernel's own memory. Nothing here resolves the last
//!   component of a path by a call that may reach a server, except [`probe`], on a thread that is not waited for.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use objstore::disk::PinnedPath;
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

/// A line of `/proc/self/mountinfo` (proc(5)).
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
        let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
        let mut all: HashMap<PathBuf, Vec<Mounted>> = HashMap::new();
        for (path, mounted) in lines(&table) {
            all.entry(path).or_default().push(mounted);
        }
        Self(all)
    }

    /// How the device is attached at a path, which has to be resolved; perhaps below others.
    pub(crate) fn attachment(&self, path: &Path, device: &str) -> Option<Attachment> {
        let mounted = self.0.get(path)?.iter().rev().find(|mounted| mounted.device == device)?;
        Some(Attachment { read_only: mounted.flags.contains(MountFlags::RDONLY) })
    }
}

/// The topmost mount at `path`, which has to be resolved.
pub(crate) fn top(path: &Path) -> Option<Mounted> {
    let table = std::fs::read("/proc/self/mountinfo").ok()?;
    last_at(&table, path)
}

/// Whether the device is mounted at `path`, which has to be resolved; perhaps below others.
pub(crate) fn has(path: &Path, device: &str) -> bool {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    lines(&table).any(|(at, mounted)| at == path && mounted.device == device)
}

/// Where the device is mounted.
pub(crate) fn path_of(device: &str) -> Option<PathBuf> {
    let table = std::fs::read("/proc/self/mountinfo").ok()?;
    lines(&table).find(|(_, mounted)| mounted.device == device).map(|(path, _)| path)
}

/// Later lines lie on top of earlier ones.
fn last_at(table: &[u8], path: &Path) -> Option<Mounted> {
    lines(table).filter(|(at, _)| at == path).last().map(|(_, mounted)| mounted)
}

fn lines(table: &[u8]) -> impl Iterator<Item = (PathBuf, Mounted)> {
    table.split(|&byte| byte == b'\n').filter_map(parse)
}

fn parse(line: &[u8]) -> Option<(PathBuf, Mounted)> {
    let mut fields = line.split(|&byte| byte == b' ');
    let device = fields.nth(2)?;
    let point = fields.nth(1)?;
    let options = fields.next()?;
    let mut behind = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = behind.next()?;
    let of_filesystem = behind.nth(1).unwrap_or_default();
    let is_amphora = kind.strip_prefix(b"fuse.").is_some_and(|subtype| subtype == SUBTYPE.as_bytes());
    // A file system that is read-only as a whole is so in each of its mounts.
    let flags = flags(options) | flags(of_filesystem) & MountFlags::RDONLY;
    Some((unescape(point), Mounted { device: String::from_utf8_lossy(device).into_owned(), is_amphora, flags }))
}

fn flags(options: &[u8]) -> MountFlags {
    let flag = |option: &[u8]| match option {
        b"ro" => MountFlags::RDONLY,
        b"nosuid" => MountFlags::NOSUID,
        b"nodev" => MountFlags::NODEV,
        b"noexec" => MountFlags::NOEXEC,
        b"noatime" => MountFlags::NOATIME,
        b"nodiratime" => MountFlags::NODIRATIME,
        b"relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    };
    options.split(|&byte| byte == b',').map(flag).collect()
}

/// Space, tab, newline and backslash stand as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|digits| byte == b'\\' && digits.iter().all(|d| (b'0'..b'8').contains(d)));
        match digits {
            Some(digits) => {
                bytes.push(digits.iter().fold(0u8, |value, digit| value.wrapping_mul(8).wrapping_add(digit - b'0')));
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
40 22 0:44 / /mnt/a\\040b rw,nosuid shared:7 master:2 - fuse.amphora amphora:x rw,user_id=0\n\
41 22 0:45 / /mnt/c rw - fuse.other y rw\n\
42 22 0:46 / /mnt/c rw - fuse.amphora y rw\n";

    #[test]
    fn the_topmost_mount_at_a_path_is_found() {
        let device = |path: &str| last_at(TABLE, Path::new(path)).map(|found| (found.device, found.is_amphora));
        assert_eq!(device("/"), Some(("8:1".into(), false)));
        assert_eq!(device("/mnt/a b"), Some(("0:44".into(), true)));
        assert_eq!(device("/mnt/c"), Some(("0:46".into(), true)));
        assert_eq!(device("/mnt"), None);
    }

    #[test]
    fn the_flags_of_a_mount_are_its_own_and_its_file_systems() {
        let read_only = |line: &[u8]| parse(line).unwrap().1.flags.contains(MountFlags::RDONLY);
        assert!(read_only(b"1 2 0:1 / /a ro,nosuid - fuse.amphora amphora:x rw"));
        assert!(read_only(b"1 2 0:1 / /a rw,nosuid - fuse.amphora amphora:x ro,user_id=0"));
        assert!(!read_only(b"1 2 0:1 / /a rw,noexec - fuse.amphora ro rw,user_id=0"));
        let flags = parse(b"1 2 0:1 / /a rw,noexec,noatime - x y rw,nosuid").unwrap().1.flags;
        assert_eq!(flags, MountFlags::NOEXEC | MountFlags::NOATIME);
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
