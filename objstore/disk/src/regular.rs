//! Opening of regular files, and refusal of anything else that has the name of one.
//!
//! - open(2) of a FIFO waits for a process at its other end. A device may have no end, or act when it is opened. A
//!   symbolic link can lead to either. A store has no such files: each is refused at once, with a message that names
//!   its type.
//! - Files of a store are opened without following a link ([`open`]). A file that the administrator names may be a
//!   link, since Kubernetes mounts Secrets in this way ([`read_named`]).

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use objstore_base::error;
use rustix::fs::{CWD, FileType, Mode, OFlags, openat};
use rustix::io::Errno;

use super::Permissions;

/// The type of what was found in place of a regular file.
#[derive(Debug, thiserror::Error)]
#[error("it is {0} and not a regular file: put the regular file back")]
pub(super) struct Irregular(pub &'static str);

/// Opens the regular file at `path`; a symbolic link there is refused.
pub(super) fn open(path: &Path, flags: OFlags) -> Result<File> {
    open_at(CWD, path, flags)
}

/// Opens the regular file `path` below `dir`, as [`open`] does.
pub(super) fn open_at(dir: impl AsFd, path: &Path, flags: OFlags) -> Result<File> {
    open_any(dir, path, flags | OFlags::NOFOLLOW)
}

fn open_any(dir: impl AsFd, path: &Path, flags: OFlags) -> Result<File> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
    let mode = Mode::RUSR | Mode::WUSR;
    let opened = match openat(&dir, path, flags | OFlags::NONBLOCK, mode) {
        // Another process has a lease on the file for a moment (`lease.rs`), which only a regular file can have.
        Err(Errno::WOULDBLOCK) => openat(&dir, path, flags, mode),
        other => other,
    };
    let file = File::from(opened.map_err(|errno| match errno {
        Errno::LOOP if flags.contains(OFlags::NOFOLLOW) => irregular("a symbolic link"),
        Errno::NXIO => irregular("a socket, or a FIFO or device that no process serves"),
        Errno::ISDIR => irregular("a folder"),
        errno => errno.into(),
    })?);
    let kind = file.metadata()?.file_type();
    if kind.is_file() { Ok(file) } else { Err(irregular(name_of(FileKind::from(kind)))) }
}

/// The whole content of a file that an administrator named, and its permissions. A link is followed.
///
/// # Errors
/// The file does not exist, is not a regular file, or is longer than `limit` bytes.
pub fn read_named(path: &Path, limit: u64) -> Result<(Vec<u8>, Permissions)> {
    let file = open_any(CWD, path, OFlags::RDONLY)?;
    let found = file.metadata()?;
    let permissions = Permissions { owner: found.uid(), mode: found.mode() & 0o7777 };
    read_up_to(&file, limit).map(|bytes| (bytes, permissions))
}

/// The whole content of a file, or an error if it is longer than `limit` bytes.
pub(super) fn read_up_to(file: &File, limit: u64) -> Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let too_long = |length: u64| {
        Error::new(ErrorKind::FileTooLarge, format!("it has {length} bytes, and no such file has more than {limit}"))
    };
    if length > limit {
        return Err(too_long(length));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    // The file may grow while it is read.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_long(bytes.len() as u64)) } else { Ok(bytes) }
}

/// The error for something else in place of a regular file.
pub(super) fn irregular(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, Irregular(what))
}

/// The type of what was found in place of a regular file, if that is what `error` says.
pub(super) fn found_instead(error: &Error) -> Option<&'static str> {
    error.get_ref()?.downcast_ref::<Irregular>().map(|irregular| irregular.0)
}

/// The types of files, for the two Rust types that represent them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Regular,
    Folder,
    Link,
    Fifo,
    Socket,
    Device,
}

impl From<std::fs::FileType> for FileKind {
    fn from(kind: std::fs::FileType) -> Self {
        match () {
            () if kind.is_file() => Self::Regular,
            () if kind.is_dir() => Self::Folder,
            () if kind.is_symlink() => Self::Link,
            () if kind.is_fifo() => Self::Fifo,
            () if kind.is_socket() => Self::Socket,
            () => Self::Device,
        }
    }
}

impl From<FileType> for FileKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::Regular,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            _ => Self::Device,
        }
    }
}

/// The name of a file type, for messages.
pub(super) fn name_of(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "a regular file",
        FileKind::Folder => "a folder",
        FileKind::Link => "a symbolic link",
        FileKind::Fifo => "a FIFO",
        FileKind::Socket => "a socket",
        FileKind::Device => "a device",
    }
}

/// Refuses a folder that contains anything but regular files and folders, at any depth. Meant for libraries that open
/// the files in a folder by themselves.
///
/// # Errors
/// The first FIFO, socket, device or symbolic link, or the system's error.
pub fn refuse_irregular(folder: &Path) -> error::Result<()> {
    let failed = |path: &Path, error: Error| error::Error::io(format!("opening {}", path.display()), error);
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| failed(folder, error))?,
    };
    for entry in entries {
        let entry = entry.map_err(|error| failed(folder, error))?;
        let path = entry.path();
        match entry.file_type().map(FileKind::from) {
            Ok(FileKind::Regular) => {}
            Ok(FileKind::Folder) => refuse_irregular(&path)?,
            Ok(kind) => return Err(failed(&path, irregular(name_of(kind)))),
            // Another process may be removing files meanwhile: the lock decides whether that is allowed.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&path, error)),
        }
    }
    Ok(())
}
