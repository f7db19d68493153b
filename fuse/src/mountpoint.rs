//! What is mounted at a path, asked without ever waiting for a filesystem's server.
//!
//! - `/proc/self/mountinfo` tells what is mounted, from the kernel's own memory. Nothing here resolves the last
//!   component of a path by a call that may reach a server, except [`probe`], on a thread that is not waited for.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::error::{Error, Result};
use crate::options::SUBTYPE;

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
    let Some(mounted) = resolve(path).ok().and_then(|path| top(&path)) else {
        return MountpointState::NotMounted;
    };
    if mounted.is_amphora { probe(path) } else { MountpointState::Other }
}

/// Takes away the topmost mount at `path`, whatever its server does: processes inside keep it until they leave.
/// Fine if nothing is mounted there.
pub fn unmount_path(path: &Path) -> Result<()> {
    let resolved = resolve(path)?;
    match rustix::mount::unmount(&resolved, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(errno) => Err(Error::io("unmounting", &resolved, errno)),
    }
}

/// Takes away the topmost mount at `path`, which nobody will serve again: what programs inside wait for, and all that they
/// ask from now on, fails with ECONNABORTED and ENOTCONN. Fine if nothing is mounted there.
pub fn abandon_path(path: &Path) -> Result<()> {
    match rustix::mount::unmount(&resolve(path)?, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        // The connection is ended; the mount is left while programs are inside.
        Err(_) => unmount_path(path),
    }
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

/// `path` as the kernel names it, its last component untouched: that may be the root of a dead mount.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path).map_err(|source| Error::io("finding", path, source))?;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(Error::target(path, "it has to end in the name of a directory"));
    };
    let parent = parent.canonicalize().map_err(|source| Error::io("finding", parent, source))?;
    Ok(parent.join(name))
}

/// A line of `/proc/self/mountinfo` (proc(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// The device, as `major:minor`.
    pub device: String,
    /// Whether it is ours by its type.
    pub is_amphora: bool,
}

/// The topmost mount at `path`, which has to be resolved.
pub(crate) fn top(path: &Path) -> Option<Mounted> {
    let table = std::fs::read("/proc/self/mountinfo").ok()?;
    last_at(&table, path)
}

/// Whether the device is mounted at `path`, which has to be resolved; perhaps below others.
pub(crate) fn has(path: &Path, device: &str) -> bool {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    table.split(|&byte| byte == b'\n').filter_map(|line| parse(line, path)).any(|mounted| mounted.device == device)
}

/// Later lines lie on top of earlier ones.
fn last_at(table: &[u8], path: &Path) -> Option<Mounted> {
    table.split(|&byte| byte == b'\n').rev().find_map(|line| parse(line, path))
}

fn parse(line: &[u8], path: &Path) -> Option<Mounted> {
    let mut fields = line.split(|&byte| byte == b' ');
    let device = fields.nth(2)?;
    let point = fields.nth(1)?;
    if unescape(point) != path {
        return None;
    }
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    let is_amphora = kind.strip_prefix(b"fuse.").is_some_and(|subtype| subtype == SUBTYPE.as_bytes());
    Some(Mounted { device: String::from_utf8_lossy(device).into_owned(), is_amphora })
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

/// Whether `path` itself is a directory, from the kernel's memory.
pub(crate) fn is_directory(path: &Path) -> Result<bool> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    match statx(CWD, path.as_os_str().as_bytes(), flags, StatxFlags::TYPE) {
        Ok(found) => Ok(u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFDIR),
        Err(errno) => Err(Error::io("finding", path, errno)),
    }
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
    fn ordinary_paths_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(mountpoint_state(folder.path()), MountpointState::NotMounted);
        assert_eq!(mountpoint_state(&folder.path().join("absent")), MountpointState::NotMounted);
        assert_eq!(mountpoint_state(Path::new("/proc")), MountpointState::Other);
        assert!(unmount_path(folder.path()).is_ok());
        assert!(resolve(Path::new("/")).is_err());
    }
}
