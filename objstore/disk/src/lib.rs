//! Files and folders as the store sees them, and the only code that syncs and renames.
//!
//! - A change is durable only after the sync that covers it: [`File::sync`] for content and size, [`Disk::sync_dir`]
//!   for the names in one folder, [`Disk::sync_everything`] for all of a file system.
//! - [`Disk::write_atomic`] and [`Disk::make_dir_all`] are durable when they return; every other change is not.
//! - [`Disk`] and [`File`] are traits, so that tests can use a simulated disk.
//! - Only regular files are opened: anything else with the name of a file, such as a FIFO, is refused at once.
//! - The system's error is the source of [`Error::Io`](objstore_base::error::Error::Io), so a full disk and a broken
//!   disk can be told apart.
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
mod space;
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
pub use real::RealDisk;
pub use regular::{read_named, refuse_irregular};
pub use room::{Need, Room, reserve as room_kept};
pub use space::space_of;
pub use untrusted::UntrustedDir;

/// The alignment and unit of direct writes, in memory and in the file: a page, which suits every disk.
pub const DIRECT_BLOCK: usize = 4096;

/// The number of bytes copied at a time, if the system cannot copy by itself.
const COPY_BYTES: usize = 256 << 10;

/// The operations on folders and names.
pub trait Disk: Send + Sync {
    /// Creates `path` for reading and writing; it must not exist. Its name is durable after [`Disk::sync_dir`].
    fn create(&self, path: &Path) -> Result<Arc<dyn File>>;

    /// Opens `path` for reading and writing.
    fn open(&self, path: &Path) -> Result<Arc<dyn File>>;

    /// Whether there is a file, folder or anything else at `path`.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// Removes the file `path`; an absent one is no error.
    fn remove(&self, path: &Path) -> Result<()>;

    /// The names in `dir`, in no order; names that are not UTF-8 are left out, since the store writes none.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;

    /// Creates the folder `dir` in a parent that exists; an existing one is no error. Durable after a
    /// [`Disk::sync_dir`] of the parent, of which one can cover many folders.
    fn make_dir(&self, dir: &Path) -> Result<()>;

    /// Asks the system to place folders that are created in `dir` from now on far from each other. This is a hint and
    /// cannot fail.
    fn spread(&self, _dir: &Path) {}

    /// Creates `dir` and its missing parents, durably.
    fn make_dir_all(&self, dir: &Path) -> Result<()>;

    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Makes everything written so far to the file system that holds `dir` durable, including writes of other
    /// processes.
    ///
    /// The first call for a folder also begins to watch for lost writes, which later calls report.
    fn sync_everything(&self, dir: &Path) -> Result<()>;

    /// The whole content of `path`.
    fn read_all(&self, path: &Path) -> Result<Vec<u8>>;

    /// Replaces `path` by `content` with the permission bits `mode`, durably: readers and crashes see the old file or
    /// the new one. One writer per path at a time.
    fn write_atomic(&self, path: &Path, content: &[u8], mode: u32) -> Result<()>;

    /// The owner and permission bits of `path`; `None` on a disk without users.
    fn permissions(&self, _path: &Path) -> Result<Option<Permissions>> {
        Ok(None)
    }

    /// The space on the file system that holds `dir`, without the part that is kept free.
    fn space(&self, dir: &Path) -> Result<Space>;

    /// Refuses a change (ENOSPC) for which the file system that holds `dir` is too full.
    fn room(&self, _dir: &Path, _need: Need) -> Result<()> {
        Ok(())
    }

    /// Which start of the machine this is. While it stays the same, everything that was written can be read, synced or
    /// not, however many processes died meanwhile.
    fn machine(&self) -> Result<u64>;

    /// How long calls that make something durable took, since this disk was created; empty for a disk that does not
    /// measure it.
    fn sync_latency(&self) -> Latency {
        Latency::default()
    }

    /// Locks the file `path` for this process until the [`Lock`] is dropped.
    ///
    /// # Errors
    /// [`Error::Unusable`] if another process holds the lock.
    fn lock(&self, path: &Path) -> Result<Lock>;
}

/// An open file. Reads and writes take an offset, so any number of threads may share it.
pub trait File: Send + Sync {
    /// Reads until `buf` is full or the file ends; returns the number of bytes read.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;

    /// Fills all of `buf` from the page cache, without waiting for the disk; `false` if that would be necessary, or if
    /// the system cannot tell.
    fn read_cached(&self, _buf: &mut [u8], _offset: u64) -> bool {
        false
    }

    /// Writes all of `data`.
    fn write_at(&self, data: &[u8], offset: u64) -> Result<()>;

    /// Writes all of `data`, without displacing other files from the page cache: what is aligned to [`DIRECT_BLOCK`]
    /// bypasses it, if the file system can. Not durable, like [`File::write_at`].
    fn write_direct(&self, data: &[u8], offset: u64) -> Result<()>;

    /// The size, in bytes.
    fn len(&self) -> Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Truncates or extends to `len` bytes; an extension reads as zeros.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Makes a range read as zeros, and frees its space if the file system can; the size stays.
    fn punch(&self, offset: u64, len: u64) -> Result<()>;

    /// Reserves space for a range, extending the file unless `size` keeps its size. Later writes of the range need no
    /// more space.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed, if there is not enough space; EOPNOTSUPP if the file system cannot reserve.
    fn allocate(&self, offset: u64, len: u64, size: Allocate) -> Result<()>;

    /// Makes content and size durable (fdatasync). Not the name: see [`Disk::sync_dir`].
    fn sync(&self) -> Result<()>;

    /// Makes content, size and modification time durable (fsync).
    fn sync_with_time(&self) -> Result<()>;

    /// Asks the system to begin writing a range to disk, so that a later [`File::sync`] has less to do. This is a hint:
    /// it neither waits nor fails, and makes nothing durable.
    fn begin_sync(&self, _offset: u64, _len: u64) {}

    /// Asks the system to drop a range from the page cache, so that the next read is from the disk. This is a hint:
    /// what is not on disk yet, or is mapped by a program, stays.
    fn forget_cached(&self, _offset: u64, _len: u64) {}

    /// The first byte of data at or after `offset`; `None` if only a hole or the end follows.
    fn seek_data(&self, offset: u64) -> Result<Option<u64>>;

    /// The first byte of a hole at or after `offset`, where the end counts as one; `None` if `offset` is beyond the
    /// end.
    fn seek_hole(&self, offset: u64) -> Result<Option<u64>>;

    /// Makes this file a copy of `source` that shares its space; `false`, with nothing changed, if the file system
    /// cannot.
    fn reflink_from(&self, source: &dyn File) -> Result<bool>;

    /// Copies `len` bytes of `source`, from the offset `from` there to the offset `to` here; zeros beyond the end of
    /// `source`. The file system shares their space if it can. Not durable, like [`File::write_at`].
    fn copy_from(&self, source: &dyn File, from: u64, to: u64, len: u64) -> Result<()> {
        copy_bytes(self, source, (from, to), len)
    }

    /// The descriptor, so that the kernel can read and write directly; `None` for a simulated disk.
    fn raw(&self) -> Option<BorrowedFd<'_>>;

    /// Whether this is the only use of the file: no other process has it open, and it is not mapped. `false` if the
    /// system cannot tell.
    fn is_lone(&self) -> bool {
        false
    }

    /// The space that the file takes, in units of 512 bytes.
    fn blocks(&self) -> Result<u64>;

    /// The modification time.
    fn modified(&self) -> Result<SystemTime>;
}

/// The parts of a range in which a file has data and no holes.
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

/// Copies `len` bytes of `source` to `target`, from one offset to the other; zeros beyond the end of `source`.
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
    /// The size stays; the space beyond the end is reserved for later.
    KeepSize,
    /// The size becomes at least the end of the range.
    Extend,
}

/// The owner and permission bits of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// The user id of the owner.
    pub owner: u32,
    /// The permission bits.
    pub mode: u32,
}

impl Permissions {
    /// Checks the permissions of a file that contains a secret and that an administrator named. The rule is
    /// PostgreSQL's for its keys: the file belongs to the user of this process and is accessible to that user alone; or
    /// it belongs to root, and then its group may read it.
    ///
    /// # Errors
    /// What is wrong and what to do, as the end of a sentence that begins with the file's name.
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

/// Whether this is a name that a file system, or the machine that a volume comes from, creates in every new volume.
#[must_use]
pub fn is_of_the_volume(name: &str) -> bool {
    matches!(name, "lost+found" | ".snapshot" | ".snapshots" | ".zfs")
}

/// The space on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The size of the whole file system.
    pub total_bytes: u64,
    /// The space available to a process without privileges.
    pub free_bytes: u64,
}

/// An exclusive lock on a folder, held until dropped.
pub struct Lock {
    _guard: Box<dyn Any + Send + Sync>,
}

impl Lock {
    /// A lock that is released when `guard` is dropped.
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

/// Whether `error` says that the file does not exist.
pub fn is_missing(error: &Error) -> bool {
    is_kind(error, std::io::ErrorKind::NotFound)
}

/// Whether `error` says that the disk, or the user's quota on it, is full.
pub fn is_full(error: &Error) -> bool {
    is_kind(error, std::io::ErrorKind::StorageFull) || is_kind(error, std::io::ErrorKind::QuotaExceeded)
}

/// The error of an operation for which the disk is full, by the system's number, which mounts on other machines pass on.
pub fn full(what: impl Into<String>) -> Error {
    Error::io(what, std::io::Error::from_raw_os_error(libc::ENOSPC))
}

/// Whether `error` says that the disk failed (EIO).
pub fn is_broken(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.raw_os_error() == Some(libc::EIO))
}

fn is_kind(error: &Error, kind: std::io::ErrorKind) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == kind)
}
