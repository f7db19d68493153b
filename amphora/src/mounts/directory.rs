//! Mount point directories: canonical paths, and clearing of dead mounts.

use std::path::{Path, PathBuf};

use fuse::MountpointState;
use objstore::disk::PinnedPath;

use super::{Error, Unmounting};

/// The canonical path of a directory: without links but the last, which is not looked at.
///
/// # Errors
/// [`Error::NoDirectory`].
pub fn resolve(dir: &Path) -> Result<PathBuf, Error> {
    let found = PinnedPath::find(dir).map_err(|source| Error::NoDirectory { dir: dir.to_owned(), source })?;
    Ok(found.path().to_owned())
}

/// The canonical path of a mount point; an error if the directory does not exist.
pub(super) fn mounted(dir: &Path) -> Result<PathBuf, Error> {
    use std::io::ErrorKind::{InvalidInput, NotFound};
    resolve(dir).map_err(|error| match error {
        Error::NoDirectory { dir, source } if matches!(source.kind(), InvalidInput | NotFound) => {
            Error::NotMounted { dir }
        }
        other => other,
    })
}

/// Refuses a missing path. A mounted file system is not asked, because its server may be gone.
pub(super) fn refuse_missing(dir: &Path) -> Result<(), Error> {
    if fuse::mountpoint_state(dir) != MountpointState::NotMounted {
        return Ok(());
    }
    std::fs::symlink_metadata(dir).map(drop).map_err(|source| Error::NoDirectory { dir: dir.to_owned(), source })
}

/// Unmounts the dead mount of a server that died.
pub(super) fn clear_dead(dir: &Path) -> Result<(), Error> {
    if fuse::mountpoint_state(dir) == MountpointState::Stale {
        tracing::warn!(dir = %dir.display(), "unmounting a mount whose server died");
        fuse::unmount_path(dir)?;
    }
    Ok(())
}

/// Unmounts a mount that no server serves. Returns whether there was one.
pub(super) fn clear_lost(dir: &Path, how: Unmounting) -> Result<bool, Error> {
    match (fuse::mountpoint_state(dir), how) {
        (MountpointState::Stale, _) => clear_dead(dir).map(|()| true),
        (MountpointState::Silent, how) => {
            tracing::warn!(dir = %dir.display(), "unmounting a mount that no server answers");
            match how {
                Unmounting::IfIdle => fuse::unmount_idle_path(dir)?,
                Unmounting::Lazily => fuse::abandon_path(dir)?,
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_missing_is_told_with_what_to_do() {
        let dir = tempfile::tempdir().expect("a folder");
        refuse_missing(dir.path()).expect("there");
        let text = refuse_missing(&dir.path().join("none")).expect_err("missing").to_string();
        assert!(text.contains("none") && text.contains("make it first"), "{text}");
        for nothing in [Path::new("/"), &dir.path().join("none/m")] {
            assert!(matches!(mounted(nothing), Err(Error::NotMounted { .. })), "{}", nothing.display());
        }
    }
}
