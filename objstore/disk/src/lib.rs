//! The one place that syncs and renames: files and folders as the store sees them.
//!
//! - A change is durable only after the sync that covers it: [`File::sync`] for content and size, [`Disk::sync_dir`]
//!   for the names in one folder, [`Disk::sync_everything`] for all of a file system.
//! - [`Disk::write_atomic`] and [`Disk::make_dir_all`] are durable when they return; every other change is not.
//! - Both are traits, so that a test can put a disk that lies under the store.
//! - Only regular files are opened: what else has the name of one, a FIFO say, is refused at once.
//! - The system's error stays the source of [`Error::Io`](objstore_base::error::Error::Io): a full disk and a broken one can
//!   be told apart.
//!
//! A crash leaves every synced change, and any part of the changes that were not synced.

mod direct;
mod file;
mod lease;
mod mountinfo;
mod pinned;
mod poison;
mod real;
mod regular;
mod room;
mod space_map;
#[cfg(test)]
mod tests;
mod untrusted;

use std::any::Any;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use objstore_base::error::{Error, Result};
use objstore_base::latency::Latency;

pub use direct::direct_part;
pub use mountinfo::{MountEntry, mounts, topmost_mount};
pub use pinned::PinnedPath;
pub use poison::Poison;
pub use real::{RealDisk, space_of};
pub use regular::{read_named, refuse_irregular};
pub use room::{Need, Room, reserve as room_kept};
pub use untrusted::UntrustedDir;

/// What a direct write is aligned to, in memory and in the file, and made of: a page, which suits every disk.
pub const DIRECT_BLOCK: usize = 4096;

/// Bytes copied at a time, where the system does not copy itself.
const COPY_BYTES: usize = 256 << 10;

/// Folders and names.
pub trait Disk: Send + Sync {
    /// Creates `path` for reading and writing; it must not exist. Its name is durable after [`Disk::sync_dir`].
    fn create(&self, path: &Path) -> Result<Arc<dyn File>>;

    /// Opens `path` for reading and writing.
    fn open(&self, path: &Path) -> Result<Arc<dyn File>>;

    /// Whether something is called `path`.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// Removes the file `path`; an absent one is no error.
    fn remove(&self, path: &Path) -> Result<()>;

    /// The names in `dir`, in no order; names that are not UTF-8 are left out, since the store writes none.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;

    /// Makes the folder `dir` in a parent that exists; an existing one is no error. Durable after a
    /// [`Disk::sync_dir`] of the parent, which one call can do for many.
    fn make_dir(&self, dir: &Path) -> Result<()>;

    /// Asks the system to place folders that are made in `dir` from now on far from each other. A hint: it does not fail.
    fn spread(&self, _dir: &Path) {}

    /// Makes `dir` and what is missing above it, durably.
    fn make_dir_all(&self, dir: &Path) -> Result<()>;

    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Makes everything written so far to the file system that holds `dir` durable, whoever wrote it.
    ///
    /// The first call for a folder also starts the watch for lost writes that later calls report.
    fn sync_everything(&self, dir: &Path) -> Result<()>;

    /// The whole content of `path`.
    fn read_all(&self, path: &Path) -> Result<Vec<u8>>;

    /// Replaces `path` by `content` with the permission bits `mode`, durably: readers and crashes see the old file or
    /// the new one. One writer per path at a time.
    fn write_atomic(&self, path: &Path, content: &[u8], mode: u32) -> Result<()>;

    /// Whom `path` belongs to, and who else may use it; `None` on a disk that knows no users.
    fn permissions(&self, _path: &Path) -> Result<Option<Permissions>> {
        Ok(None)
    }

    /// The room on the file system that holds `dir`, less what is kept free.
    fn space(&self, dir: &Path) -> Result<Space>;

    /// Refuses a change that the file system which holds `dir` is too full for (ENOSPC).
    fn room(&self, _dir: &Path, _need: Need) -> Result<()> {
        Ok(())
    }

    /// How long calls that make something durable took, since this disk was made; nothing on a disk that counts none.
    fn sync_latency(&self) -> Latency {
        Latency::default()
    }

    /// Takes the lock file `path` for this process until the [`Lock`] is dropped; [`Error::Unusable`] when another
    /// holds it.
    fn lock(&self, path: &Path) -> Result<Lock>;
}

/// One open file; reads and writes carry their offset, so any number of threads may share it.
pub trait File: Send + Sync {
    /// Reads until `buf` is full or the file ends; the count read.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;

    /// Fills all of `buf` with what the system holds in memory, and never waits for the disk; `false` where it would
    /// have to, or cannot tell.
    fn read_cached(&self, _buf: &mut [u8], _offset: u64) -> bool {
        false
    }

    /// Writes all of `data`.
    fn write_at(&self, data: &[u8], offset: u64) -> Result<()>;

    /// Writes all of `data`, which would crowd out more of the page cache than it is worth: what is aligned to
    /// [`DIRECT_BLOCK`] goes past it, where the file system can. Not yet durable, as after [`File::write_at`].
    fn write_direct(&self, data: &[u8], offset: u64) -> Result<()>;

    /// The size, in bytes.
    fn len(&self) -> Result<u64>;

    /// Whether the file holds no byte.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts or extends to `len` bytes; an extension reads as zeros.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Makes a range read as zeros and frees its space where the file system can; the size stays.
    fn punch(&self, offset: u64, len: u64) -> Result<()>;

    /// Reserves space for a range, extending the file unless `size` keeps it. Later writes of the range need no more.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed, if there is not so much; EOPNOTSUPP where the file system cannot reserve.
    fn allocate(&self, offset: u64, len: u64, size: Allocate) -> Result<()>;

    /// Makes content and size durable (fdatasync). Not the name: see [`Disk::sync_dir`].
    fn sync(&self) -> Result<()>;

    /// Makes content, size and the time of the last change durable (fsync).
    fn sync_with_time(&self) -> Result<()>;

    /// Asks the system to begin writing a range to disk, so that a later [`File::sync`] finds less to do. A hint: it
    /// neither waits nor fails, and nothing is durable by it.
    fn begin_sync(&self, _offset: u64, _len: u64) {}

    /// Asks the system to let go of what it holds of a range in memory, so that the next read is of the disk. A hint: what
    /// is not on disk yet, or is mapped by a program, stays.
    fn forget_cached(&self, _offset: u64, _len: u64) {}

    /// The first byte of data at or after `offset`; `None` when only a hole or the end follows.
    fn seek_data(&self, offset: u64) -> Result<Option<u64>>;

    /// The first byte of a hole at or after `offset`, the end counting as one; `None` past the end.
    fn seek_hole(&self, offset: u64) -> Result<Option<u64>>;

    /// Becomes a copy of `source` that shares its space; `false` where the file system cannot, nothing changed.
    fn reflink_from(&self, source: &dyn File) -> Result<bool>;

    /// Takes over `len` bytes of `source`, from an offset there to one here; zeros where it has ended. The file system
    /// shares their space where it can. Not yet durable, as after [`File::write_at`].
    fn copy_from(&self, source: &dyn File, from: u64, to: u64, len: u64) -> Result<()> {
        copy_bytes(self, source, (from, to), len)
    }

    /// The descriptor, for the kernel to read and write directly; a disk that is not the system's has none.
    fn raw(&self) -> Option<BorrowedFd<'_>>;

    /// Whether nothing but this has the file open: no other process, and no mapping. `false` where the system cannot
    /// tell.
    fn is_lone(&self) -> bool {
        false
    }

    /// The space it takes, in units of 512 bytes.
    fn blocks(&self) -> Result<u64>;

    /// When the content last changed.
    fn modified(&self) -> Result<SystemTime>;
}

/// Where in a range a file holds data, and no holes.
pub fn data_runs(file: &dyn File, range: Range<u64>) -> Result<Vec<Range<u64>>> {
    let (mut runs, mut at) = (Vec::new(), range.start);
    while at < range.end
        && let Some(from) = file.seek_data(at)?.filter(|from| *from < range.end)
    {
        at = file.seek_hole(from)?.unwrap_or(range.end).min(range.end);
        runs.push(from..at);
    }
    Ok(runs)
}

/// Copies `len` bytes of one file, from an offset there to one of another; zeros where it has ended.
fn copy_bytes<F: File + ?Sized>(target: &F, source: &dyn File, (from, to): (u64, u64), len: u64) -> Result<()> {
    let mut step = vec![0; usize::try_from(len).map_or(COPY_BYTES, |len| len.min(COPY_BYTES))];
    let mut done = 0;
    while done < len {
        let want = usize::try_from(len - done).map_or(COPY_BYTES, |left| left.min(COPY_BYTES));
        let held = source.read_at(&mut step[..want], from + done)?;
        step[held..want].fill(0);
        target.write_at(&step[..want], to + done)?;
        done += want as u64;
    }
    Ok(())
}

/// Whether [`File::allocate`] may grow the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// The size stays; the space behind the end waits for it.
    KeepSize,
    /// The size becomes at least the end of the range.
    Extend,
}

/// Whom a file belongs to, and who may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// The user.
    pub owner: u32,
    /// The permission bits.
    pub mode: u32,
}

impl Permissions {
    /// Judges a file that holds a secret and that an administrator named, by PostgreSQL's rule for its keys: it belongs to
    /// the user this process runs as and is for that user alone, or to root, and then its group may read it.
    ///
    /// # Errors
    /// What is wrong, and what to do, as the end of a sentence that begins with the file.
    pub fn of_a_secret(self) -> std::result::Result<(), String> {
        let Self { owner, mode } = self;
        let own = rustix::process::geteuid().as_raw();
        let (refused, advice) = if owner == 0 { (0o037, "640") } else { (0o077, "600") };
        if owner != own && owner != 0 {
            Err(format!("belongs to user {owner}, and this runs as user {own}: run chown on it"))
        } else if mode & refused != 0 {
            Err(format!("holds a secret and is open to others (mode {mode:04o}): run chmod {advice} on it"))
        } else {
            Ok(())
        }
    }
}

/// Whether a file system, or the machine it comes from, makes this name by itself in a volume that is new.
#[must_use]
pub fn is_of_the_volume(name: &str) -> bool {
    matches!(name, "lost+found" | ".snapshot" | ".snapshots" | ".zfs")
}

/// The room on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Of the whole file system.
    pub total_bytes: u64,
    /// Free to a process without privileges.
    pub free_bytes: u64,
}

/// An exclusive lock on a folder, held until dropped.
pub struct Lock {
    _guard: Box<dyn Any + Send + Sync>,
}

impl Lock {
    /// A lock that dropping `guard` releases.
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

/// Whether `error` says that the file asked for is absent.
pub fn is_missing(error: &Error) -> bool {
    is_kind(error, std::io::ErrorKind::NotFound)
}

/// Whether `error` says that the disk, or the user's share of it, is full.
pub fn is_full(error: &Error) -> bool {
    is_kind(error, std::io::ErrorKind::StorageFull) || is_kind(error, std::io::ErrorKind::QuotaExceeded)
}

/// Whether `error` says that the disk lost what it was given (EIO).
pub fn is_broken(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.raw_os_error() == Some(libc::EIO))
}

fn is_kind(error: &Error, kind: std::io::ErrorKind) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == kind)
}
