//! Pinned paths: a name in a directory that is held open, so that replacing a part of its path redirects no one.
//!
//! - A path is walked one component at a time, each opened from the directory before it. A symbolic link on the way is
//!   followed only if root or this process's own user owns it: any other user could redirect it at any time.
//! - The last component is never followed.
//! - No file is read or written here, and attributes come from the kernel's memory: a file system that does not answer
//!   blocks only if it is on the way to the name.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, open, openat, readlinkat, statx};
use rustix::io::Errno;

/// The largest number of symbolic links in a path, as in the kernel (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// A name in a directory that is held open.
#[derive(Debug)]
pub struct PinnedPath {
    parent: OwnedFd,
    name: OsString,
    path: PathBuf,
}

impl PinnedPath {
    /// Walks to the directory that contains the last component of `path`, which need not exist itself.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the path does not end in a name, [`ErrorKind::PermissionDenied`] for another
    /// user's symbolic link on the way; otherwise the system's.
    pub fn find(path: &Path) -> Result<Self> {
        let absolute = std::path::absolute(path)?;
        let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
            return Err(Error::new(ErrorKind::InvalidInput, "it has to end in the name of a directory"));
        };
        let parent = walk(parent)?;
        // The path of the directory, as the kernel reports it.
        let place = std::fs::read_link(by_descriptor(&parent))?;
        Ok(Self { parent, name: name.to_owned(), path: place.join(name) })
    }

    /// The path without symbolic links, as it was when it was walked.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path that leads to the name in the held directory, even if that directory was moved. Valid in this process, as
    /// long as this value lives.
    pub fn by_descriptor(&self) -> PathBuf {
        by_descriptor(&self.parent).join(&self.name)
    }

    /// Opens the directory with this name, or what is mounted on it, only as a location (`O_PATH`).
    ///
    /// # Errors
    /// It is not a directory, or it is a symbolic link, even one to a directory; otherwise the system's.
    pub fn open_directory(&self) -> Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(&self.parent, &self.name, flags, Mode::empty())?)
    }
}

/// A path that leads to the open file of a descriptor.
fn by_descriptor(descriptor: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd()).into()
}

fn root() -> Result<OwnedFd> {
    Ok(open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens the directory at an absolute path.
fn walk(path: &Path) -> Result<OwnedFd> {
    let mut at = root()?;
    let mut rest: VecDeque<OsString> = steps(path).collect();
    let mut links = 0;
    while let Some(step) = rest.pop_front() {
        let next = openat(&at, &step, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
        let found = statx(&next, "", flags, StatxFlags::TYPE | StatxFlags::UID)?;
        match FileType::from_raw_mode(found.stx_mode.into()) {
            FileType::Directory => at = next,
            FileType::Symlink => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                refuse_stranger(&step, found.stx_uid)?;
                let target = PathBuf::from(OsString::from_vec(readlinkat(&next, "", Vec::new())?.into_bytes()));
                if target.is_absolute() {
                    at = root()?;
                }
                steps(&target).rev().for_each(|step| rest.push_front(step));
            }
            _ => return Err(Errno::NOTDIR.into()),
        }
    }
    Ok(at)
}

/// The components to walk, starting from the root or another directory.
fn steps(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    let step = |component: Component<'_>| match component {
        Component::Normal(_) | Component::ParentDir => Some(component.as_os_str().to_owned()),
        _ => None,
    };
    path.components().filter_map(step)
}

fn refuse_stranger(link: &OsStr, owner: u32) -> Result<()> {
    if owner == 0 || owner == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let text = format!(
        "the symbolic link \"{}\" in it belongs to user {owner}, who could point it elsewhere at any time: \
         use a path without it",
        link.display()
    );
    Err(Error::new(ErrorKind::PermissionDenied, text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(real.join("a/b/m")).unwrap();
        (dir, real)
    }

    #[test]
    fn a_directory_has_one_path() {
        let (_folder, real) = folder();
        symlink("a/./b", real.join("relative")).unwrap();
        symlink(real.join("relative/../b"), real.join("absolute")).unwrap();
        for path in ["a/b/m", "relative/m/", "absolute/./m", "a/b/../b/m"] {
            let found = PinnedPath::find(&real.join(path)).unwrap();
            assert_eq!(found.path(), real.join("a/b/m"), "{path}");
            found.open_directory().unwrap();
        }
        assert_eq!(PinnedPath::find(&real.join("none/m")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(PinnedPath::find(Path::new("/")).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(PinnedPath::find(&real.join("a/absent")).unwrap().open_directory().is_err());
    }

    #[test]
    fn links_that_never_end_are_refused() {
        let (_folder, real) = folder();
        symlink("loop", real.join("loop")).unwrap();
        let error = PinnedPath::find(&real.join("loop/m")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
    }

    #[test]
    fn the_last_component_is_not_followed() {
        let (_folder, real) = folder();
        symlink("a/b", real.join("link")).unwrap();
        assert!(PinnedPath::find(&real.join("link")).unwrap().open_directory().is_err());
    }

    #[test]
    fn a_link_of_somebody_else_is_not_followed() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (_folder, real) = folder();
        symlink("a/b", real.join("link")).unwrap();
        std::os::unix::fs::lchown(real.join("link"), Some(1234), None).unwrap();
        let error = PinnedPath::find(&real.join("link/m")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("link") && error.to_string().contains("1234"), "{error}");
    }

    #[test]
    fn a_directory_that_is_moved_is_still_the_one() {
        let (_folder, real) = folder();
        std::fs::create_dir_all(real.join("victim/m")).unwrap();
        let found = PinnedPath::find(&real.join("a/b/m")).unwrap();
        // A test may rename its own directories.
        rustix::fs::rename(real.join("a/b"), real.join("moved")).unwrap();
        symlink(real.join("victim"), real.join("a/b")).unwrap();
        std::fs::write(found.by_descriptor().join("mark"), "").unwrap();
        assert!(real.join("moved/m/mark").exists() && !real.join("victim/m/mark").exists());
    }
}
