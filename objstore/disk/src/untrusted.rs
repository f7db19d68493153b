//! Folders whose content another user may have made, for example a backup that was carried here.
//!
//! - The folder is opened once, by its name. Below it no symbolic link is followed at any place of a path: each folder
//!   on the way is opened from the one above it.
//! - Only regular files are opened. Anything else is not opened even for a moment, unless it is put there in that
//!   moment, since opening a device may have effects.
//! - The caller sets limits for what is read and listed.
//! - Writes are as durable as the corresponding ones of [`Disk`](super::Disk).

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use objstore_base::error::{Error, Result};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fsync, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::Lock;
use super::real::lock_file;
use super::regular::{self, FileKind, found_instead, irregular, name_of, open_at, read_up_to};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// A folder with everything below it.
pub struct UntrustedDir {
    root: OwnedFd,
    path: PathBuf,
}

impl UntrustedDir {
    /// Opens an existing folder; `path` itself may be a link.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(path: &Path) -> Result<Self> {
        let root = openat(CWD, path, FOLDER, Mode::empty());
        let root = root.map_err(|errno| Error::io(format!("opening {}", path.display()), errno.into()))?;
        Ok(Self { root, path: path.to_owned() })
    }

    /// The full path of a path in the folder, for messages.
    pub fn shown(&self, path: &Path) -> PathBuf {
        self.path.join(path)
    }

    /// The length of a file; `None` if it does not exist.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is not a regular file.
    pub fn length(&self, path: &Path) -> Result<Option<u64>> {
        match self.look(path) {
            Ok((_, length)) => Ok(Some(length)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("looking at", path, error)),
        }
    }

    /// The whole content of a file of at most `limit` bytes.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is not a regular file, or is longer.
    pub fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>> {
        let read = || read_up_to(&self.file(path, OFlags::RDONLY)?, limit);
        read().map_err(|error| self.failed("reading", path, error))
    }

    /// The names in a folder, in no order; empty if the folder does not exist. Names that are not UTF-8 are left out.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is not a folder, or has more than `limit` names.
    pub fn list(&self, path: &Path, limit: usize) -> Result<Vec<String>> {
        let list = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in Dir::read_from(self.folder(path)?)? {
                let entry = entry?;
                match entry.file_name().to_str() {
                    Err(_) | Ok("." | "..") => {}
                    Ok(_) if names.len() == limit => return Err(too_many(limit)),
                    Ok(name) => names.push(name.to_owned()),
                }
            }
            Ok(names)
        };
        match list() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(|error| self.failed("listing", path, error)),
        }
    }

    /// Creates a folder and its missing parents, durably; an existing one is no error.
    ///
    /// # Errors
    /// Those of the system.
    pub fn make_dir_all(&self, path: &Path) -> Result<()> {
        let make = || -> io::Result<()> {
            let mut at = self.root.try_clone()?;
            for name in names(path)? {
                match mkdirat(&at, name, Mode::RWXU) {
                    Ok(()) => fsync(&at)?,
                    Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                at = open_folder(at.as_fd(), name)?;
            }
            Ok(())
        };
        make().map_err(|error| self.failed("creating the folder", path, error))
    }

    /// Replaces a file by `content` with the permission bits `mode`, durably: readers and crashes see the old file or
    /// the new one.
    ///
    /// # Errors
    /// Those of the system.
    pub fn write_atomic(&self, path: &Path, content: &[u8], mode: u32) -> Result<()> {
        let write = || -> io::Result<()> {
            let (dir, name) = self.parent(path)?;
            let mut draft = name.to_owned();
            draft.push(".tmp");
            unlink(dir.as_fd(), &draft)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            let mut file = open_at(&dir, Path::new(&draft), flags)?;
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            file.write_all(content)?;
            // The content is synced before the rename; otherwise a crash could leave the new name on an empty file.
            fsync(&file)?;
            renameat(&dir, &draft, &dir, name)?;
            Ok(fsync(&dir)?)
        };
        write().map_err(|error| self.failed("writing", path, error))
    }

    /// Removes a file; an absent one is no error. Durable after [`UntrustedDir::sync`] of its folder.
    ///
    /// # Errors
    /// Those of the system.
    pub fn remove(&self, path: &Path) -> Result<()> {
        let removed = self.parent(path).and_then(|(dir, name)| unlink(dir.as_fd(), name));
        removed.map_err(|error| self.failed("removing", path, error))
    }

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// Those of the system.
    pub fn sync(&self, path: &Path) -> Result<()> {
        let synced = self.folder(path).and_then(|dir| Ok(fsync(&dir)?));
        synced.map_err(|error| self.failed("syncing the folder", path, error))
    }

    /// Locks a file for this process, as [`Disk::lock`](super::Disk::lock) does.
    ///
    /// # Errors
    /// [`Error::Unusable`] if another process holds the lock; [`Error::Corrupt`] if it is not a regular file.
    pub fn lock(&self, path: &Path) -> Result<Lock> {
        let open = || {
            let (dir, name) = self.parent(path)?;
            refuse_other(dir.as_fd(), name)?;
            open_at(&dir, Path::new(name), OFlags::RDWR | OFlags::CREATE)
        };
        let file = open().map_err(|error| self.failed("opening the lock", path, error))?;
        lock_file(file, &self.shown(path))
    }

    /// The folder that contains a file, and the length of the file; an error for anything but a regular file.
    fn look(&self, path: &Path) -> io::Result<(OwnedFd, u64)> {
        let (dir, name) = self.parent(path)?;
        let length = refuse_other(dir.as_fd(), name)?.ok_or(Errno::NOENT)?;
        Ok((dir, length))
    }

    fn file(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        let (dir, _) = self.look(path)?;
        open_at(&dir, Path::new(path.file_name().unwrap_or_default()), flags)
    }

    /// The folder that contains a path's last component, and that component.
    fn parent<'p>(&self, path: &'p Path) -> io::Result<(OwnedFd, &'p OsStr)> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        Ok((self.folder(path.parent().unwrap_or(Path::new("")))?, name))
    }

    fn folder(&self, path: &Path) -> io::Result<OwnedFd> {
        names(path)?.into_iter().try_fold(self.root.try_clone()?, |at, name| open_folder(at.as_fd(), name))
    }

    fn failed(&self, doing: &str, path: &Path, error: io::Error) -> Error {
        let shown = self.shown(path);
        let what = || format!("the file {}", shown.display());
        match found_instead(&error) {
            Some(found) => Error::corrupt(what(), "no link and nothing but files and folders", found),
            None if error.kind() == ErrorKind::FileTooLarge => {
                Error::corrupt(what(), "no more bytes or names than it can have", error.to_string())
            }
            None => Error::io(format!("{doing} {}", shown.display()), error),
        }
    }
}

/// The components of a relative path; an error if it leads out of its folder.
fn names(path: &Path) -> io::Result<Vec<&OsStr>> {
    let name = |part| match part {
        Component::Normal(name) => Ok(name),
        _ => Err(Errno::INVAL.into()),
    };
    path.components().map(name).collect()
}

fn open_folder(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    openat(dir, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()).map_err(|errno| match errno {
        Errno::LOOP => irregular("a symbolic link"),
        Errno::NOTDIR => match kind(dir, name) {
            Ok(Some((found, _))) => irregular(name_of(found)),
            _ => irregular("no folder"),
        },
        errno => errno.into(),
    })
}

/// Refuses anything that exists and is not a regular file; returns the length of a file that exists.
fn refuse_other(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<u64>> {
    match kind(dir, name)? {
        None => Ok(None),
        Some((FileKind::Regular, length)) => Ok(Some(length)),
        Some((found, _)) => Err(regular::irregular(name_of(found))),
    }
}

fn kind(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<(FileKind, u64)>> {
    match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT) {
        Ok(found) => {
            let length = u64::try_from(found.st_size).unwrap_or_default();
            Ok(Some((FileType::from_raw_mode(found.st_mode).into(), length)))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn unlink(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    match unlinkat(dir, name, AtFlags::empty()) {
        Err(errno) if errno != Errno::NOENT => Err(errno.into()),
        _ => Ok(()),
    }
}

fn too_many(limit: usize) -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, format!("more than {limit} names"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn path(text: &str) -> &Path {
        Path::new(text)
    }

    fn fifo(at: &Path) {
        rustix::fs::mknodat(CWD, at, FileType::Fifo, Mode::RWXU, 0).unwrap();
    }

    #[test]
    fn what_is_written_is_read_and_listed_within_its_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let dir = UntrustedDir::open(folder.path()).unwrap();
        dir.make_dir_all(path("a/b")).unwrap();
        dir.write_atomic(path("a/b/file"), b"content", 0o600).unwrap();
        assert_eq!(dir.read(path("a/b/file"), 7).unwrap(), b"content");
        assert_eq!(dir.length(path("a/b/file")).unwrap(), Some(7));
        assert_eq!((dir.length(path("a/x")).unwrap(), dir.length(path("x/y/z")).unwrap()), (None, None));
        assert!(matches!(dir.read(path("a/b/file"), 6), Err(Error::Corrupt { .. })), "longer than the limit");
        assert_eq!(dir.list(path("a/b"), 1).unwrap(), ["file"]);
        assert!(matches!(dir.list(path("a/b"), 0), Err(Error::Corrupt { .. })), "more names than the limit");
        assert_eq!(dir.list(path("nowhere"), 1).unwrap(), Vec::<String>::new());
        dir.remove(path("a/b/file")).unwrap();
        dir.sync(path("a/b")).unwrap();
        assert_eq!(dir.list(path("a/b"), 1).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn no_link_is_followed_and_nothing_but_files_is_opened() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret"), b"of another").unwrap();
        symlink(outside.path(), folder.path().join("dir")).unwrap();
        symlink(outside.path().join("secret"), folder.path().join("link")).unwrap();
        symlink("/dev/zero", folder.path().join("device")).unwrap();
        fifo(&folder.path().join("fifo"));
        let dir = UntrustedDir::open(folder.path()).unwrap();
        for odd in ["dir/secret", "link", "device", "fifo", "fifo/below"] {
            for error in [
                dir.read(path(odd), u64::MAX).unwrap_err(),
                dir.length(path(odd)).unwrap_err(),
                dir.lock(path(odd)).map(drop).unwrap_err(),
            ] {
                assert!(matches!(error, Error::Corrupt { .. }), "{odd}: {error}");
            }
        }
        for error in [
            dir.list(path("dir"), 9).map(drop).unwrap_err(),
            dir.list(path("fifo"), 9).map(drop).unwrap_err(),
            dir.make_dir_all(path("dir/new")).unwrap_err(),
            dir.write_atomic(path("dir/new"), b"x", 0o600).unwrap_err(),
            dir.remove(path("dir/secret")).unwrap_err(),
        ] {
            assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        }
        assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"of another");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        for out in ["../x", "/etc/passwd", "a/../../x"] {
            assert!(dir.read(path(out), 9).is_err(), "{out}");
        }
    }
}
