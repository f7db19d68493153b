//! The operating system's disk: the implementation of [`Disk`].
//!
//! - Files and folders are accessible to their owner only (0600, 0700).

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use objstore_base::error::{Error, Result};
use objstore_base::latency::{Latency, Recorder};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, IFlags, OFlags, flock, fsync, ioctl_getflags, ioctl_setflags, rename, syncfs};
use rustix::io::{Errno, retry_on_intr};

use super::file::RealFile;
use super::space::space_of;
use super::{Disk, File, Lock, Need, Permissions, Room, Space, regular, room};

/// The longest note in a lock file that is read, in bytes: a process id and the name of its PID namespace.
const NOTE_BYTES_MAX: u64 = 64;

/// The number that the kernel draws at each start (random(4)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The operating system's disk.
#[derive(Default)]
pub struct RealDisk {
    // Descriptors that are kept open, because a failed write-back is reported only to descriptors open at that time.
    watches: Mutex<HashMap<PathBuf, Arc<fs::File>>>,
    room: Arc<Room>,
    syncs: Arc<Recorder>,
}

impl RealDisk {
    /// A handle to the operating system's disk.
    pub fn new() -> Self {
        Self::default()
    }

    fn file(&self, file: fs::File, path: &Path) -> Arc<dyn File> {
        Arc::new(RealFile::new(file, path, self.room.clone(), self.syncs.clone()))
    }

    fn watch(&self, dir: &Path) -> Result<Arc<fs::File>> {
        let mut watches = self.watches.lock();
        if let Some(watch) = watches.get(dir) {
            return Ok(watch.clone());
        }
        let watch = Arc::new(fs::File::open(dir).map_err(|error| failed("opening", dir, error))?);
        watches.insert(dir.to_owned(), watch.clone());
        Ok(watch)
    }

    fn write_synced(&self, path: &Path, content: &[u8], mode: u32) -> Result<()> {
        let write = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
            // Set regardless of the umask, and before the content is written.
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            file.write_all(content)?;
            // Size and permissions have to be durable too, so fdatasync is not enough.
            Ok(self.syncs.time(|| fsync(&file))?)
        };
        write().map_err(|error| failed("writing", path, error))
    }
}

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        let file = regular::open(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL);
        Ok(self.file(file.map_err(|error| failed("creating", path, error))?, path))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        let file = regular::open(path, OFlags::RDWR);
        Ok(self.file(file.map_err(|error| failed("opening", path, error))?, path))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        path.try_exists().map_err(|error| failed("looking for", path, error))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("removing", path, error)),
            _ => Ok(()),
        }
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let list = || -> std::io::Result<Vec<String>> {
            let names: Vec<_> =
                fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<_>>()?;
            Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
        };
        list().map_err(|error| failed("listing", dir, error))
    }

    fn make_dir(&self, dir: &Path) -> Result<()> {
        match fs::DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
            Err(error) => Err(failed("creating the folder", dir, error)),
            Ok(()) => Ok(()),
        }
    }

    fn spread(&self, dir: &Path) {
        let mark = || -> std::io::Result<()> {
            let dir = fs::File::open(dir)?;
            Ok(ioctl_setflags(&dir, ioctl_getflags(&dir)? | IFlags::TOPDIR)?)
        };
        // Only the ext file systems have this attribute.
        if let Err(error) = mark() {
            tracing::debug!(dir = %dir.display(), %error, "the file system chooses where folders are placed");
        }
    }

    fn make_dir_all(&self, dir: &Path) -> Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let parent = parent(dir);
        self.make_dir_all(parent)?;
        self.make_dir(dir)?;
        self.sync_dir(parent)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let opened = fs::File::open(dir).map_err(|error| failed("opening", dir, error))?;
        self.syncs.time(|| fsync(&opened)).map_err(|errno| failed("syncing the folder", dir, errno))
    }

    fn sync_everything(&self, dir: &Path) -> Result<()> {
        let watch = self.watch(dir)?;
        self.syncs.time(|| syncfs(&*watch)).map_err(|errno| failed("syncing the file system of", dir, errno))
    }

    fn read_all(&self, path: &Path) -> Result<Vec<u8>> {
        let read = || regular::read_up_to(&regular::open(path, OFlags::RDONLY)?, u64::MAX);
        read().map_err(|error| failed("reading", path, error))
    }

    fn write_atomic(&self, path: &Path, content: &[u8], mode: u32) -> Result<()> {
        let mut draft = path.as_os_str().to_owned();
        draft.push(".tmp");
        let draft = PathBuf::from(draft);
        // A draft that a crash left may have other permissions, or be open in another process.
        self.remove(&draft)?;
        self.write_synced(&draft, content, mode)?;
        // The content is synced before the rename; otherwise a crash could leave the new name on an empty file.
        rename(&draft, path).map_err(|errno| failed("renaming to", path, errno))?;
        self.sync_dir(parent(path))
    }

    fn permissions(&self, path: &Path) -> Result<Option<Permissions>> {
        let found = fs::metadata(path).map_err(|error| failed("looking at", path, error))?;
        Ok(Some(Permissions { owner: found.uid(), mode: found.mode() & 0o7777 }))
    }

    fn space(&self, dir: &Path) -> Result<Space> {
        let Space { total_bytes, free_bytes } = space_of(dir)?;
        Ok(Space { total_bytes, free_bytes: free_bytes.saturating_sub(room::reserve(total_bytes)) })
    }

    fn room(&self, dir: &Path, need: Need) -> Result<()> {
        // Approximately what the records of a change take in the journal.
        self.room.take(1024, need, || space_of(dir))
    }

    fn machine(&self) -> Result<u64> {
        let text = fs::read_to_string(BOOT_ID).map_err(|error| failed("reading", Path::new(BOOT_ID), error))?;
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        let number = u128::from_str_radix(&digits, 16)
            .map_err(|_| Error::Unusable { why: format!("{BOOT_ID} holds no number: mount /proc there") })?;
        Ok((number >> 64) as u64 ^ number as u64)
    }

    fn sync_latency(&self) -> Latency {
        self.syncs.read()
    }

    fn lock(&self, path: &Path) -> Result<Lock> {
        let file = regular::open(path, OFlags::RDWR | OFlags::CREATE).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => foreign(path),
            _ => failed("opening the lock", path, error),
        })?;
        lock_file(file, path)
    }
}

/// Locks an open file; `path` is the name for messages.
pub(super) fn lock_file(mut file: fs::File, path: &Path) -> Result<Lock> {
    match retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(taken(path, &mut file)),
        Err(errno) => return Err(failed("locking", path, errno)),
    }
    // Information for people only: the lock is the flock, not the content. A full disk has no space for it.
    let mut note = || -> std::io::Result<()> {
        file.set_len(0)?;
        file.write_all(format!("{} {}\n", std::process::id(), pid_namespace()).as_bytes())
    };
    if let Err(error) = note() {
        tracing::warn!(path = %path.display(), %error, "cannot write this process's id into the lock file");
    }
    Ok(Lock::new(file))
}

fn taken(path: &Path, file: &mut fs::File) -> Error {
    let mut note = String::new();
    let read = file.take(NOTE_BYTES_MAX).read_to_string(&mut note);
    let process = read.ok().and_then(|_| owner(&note, &pid_namespace())).unwrap_or_default();
    let folder = parent(path).display();
    Error::Unusable {
        why: format!(
            "another Amphora server runs on the folder {folder}{process}: stop it first, or use another folder"
        ),
    }
}

/// The process that wrote the note in a lock file, for a message. A process id means something only in its own PID
/// namespace: in containers the server is often process 1.
fn owner(note: &str, namespace: &str) -> Option<String> {
    let mut words = note.split_whitespace();
    let pid: u32 = words.next()?.parse().ok()?;
    Some(match words.next() {
        Some(other) if other != namespace => format!(" (process {pid} of another container)"),
        _ => format!(" (process {pid})"),
    })
}

/// The PID namespace of this process as the kernel writes it (pid_namespaces(7)); `-` if it is not known.
fn pid_namespace() -> String {
    let name = fs::read_link("/proc/self/ns/pid").ok().and_then(|link| link.into_os_string().into_string().ok());
    name.unwrap_or_else(|| "-".to_owned())
}

/// The error for a folder of another user.
fn foreign(path: &Path) -> Error {
    let folder = parent(path).display();
    let user = rustix::process::geteuid().as_raw();
    let why = format!("user {user} may not use the folder {folder}: run this as the user who owns it");
    Error::Unusable { why }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        // A bare name is in the working folder; the root is its own parent.
        Some(_) => Path::new("."),
        None => path,
    }
}

fn failed(doing: &str, path: &Path, source: impl Into<std::io::Error>) -> Error {
    Error::io(format!("{doing} {}", path.display()), source.into())
}
