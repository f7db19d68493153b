//! The space on a file system, as the system reports it.

use std::fs;
use std::path::Path;

use objstore_base::error::{Error, Result};
use rustix::fs::{StatVfs, fstatvfs, statvfs};
use rustix::io::Errno;

use super::Space;

/// All space on the file system that holds `path`.
pub fn space_of(path: &Path) -> Result<Space> {
    statvfs(path).map(|room| space(&room)).map_err(|errno| failed(path, errno))
}

/// All space on the file system of an open file, which may have no name any more; `path` is the name for messages.
pub(super) fn space_beside(file: &fs::File, path: &Path) -> Result<Space> {
    fstatvfs(file).map(|room| space(&room)).map_err(|errno| failed(path, errno))
}

fn space(room: &StatVfs) -> Space {
    Space {
        total_bytes: room.f_blocks.saturating_mul(room.f_frsize),
        free_bytes: room.f_bavail.saturating_mul(room.f_frsize),
    }
}

fn failed(path: &Path, errno: Errno) -> Error {
    Error::io(format!("getting the free space of {}", path.display()), errno.into())
}
