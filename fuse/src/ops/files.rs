//! Open files: reading, writing and syncing.
//!
//! - A write is in the store when it is answered, so it survives this process. For a file open with O_DSYNC or O_SYNC
//!   the kernel itself sends FSYNC after each write, except with direct I/O (FOPEN_DIRECT_IO), where the WRITE carries
//!   the flag.
//! - close(2) has nothing to flush. It sends FLUSH where the store keeps file locks, which end with it; the store is asked
//!   only if the file has locks. In a bucket with versioning, a writer's FLUSH says that the next writer finds the version
//!   complete, though RELEASE may come later. Without either no request is sent (FOPEN_NOFLUSH): pages of a shared mapping
//!   are written back when it is unmapped.
//! - Opening never drops the kernel's pages (KEEP_CACHE): writes through this mount are in them, and the feed reports
//!   those of other clients page by page before an S3 write is answered. Two mounts of one bucket see each other's
//!   writes as fast as the feed runs: the writer does not wait for the other mount, because two writing mounts could
//!   wait for each other.
//! - The kernel checks permissions on open (default_permissions) against attributes as exact as its pages. Opening for
//!   writing counts a writer, whom object lock may refuse. `passthrough` decides whether the kernel reads the file
//!   itself. O_TRUNC arrives as a separate SETATTR after OPEN.

use bytes::Bytes;
use objstore_files::Allocate;
use rustix::io::Errno;

use crate::caller::Caller;
use crate::errno::{self, Result};
use crate::fs::Fs;
use crate::handles::{OpenFile, is_writer};
use crate::opened::Opened;
use crate::passthrough::Asked;

/// Arguments of WRITE, without the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub node: u64,
    pub offset: u64,
    /// The file's current flags, which fcntl(2) may have changed since open(2).
    pub flags: i32,
    /// Whether it writes back pages of a shared mapping; its handle is then any one open for writing.
    pub writeback: bool,
    /// Whether the writer lacks CAP_FSETID.
    pub kill_privileges: bool,
}

impl Fs<'_> {
    /// Reads up to `len` bytes; fewer only at the end of the file.
    pub fn read(&self, node: u64, offset: u64, len: u32) -> Result<Bytes> {
        let bytes = self.files.read(self.view.ino(node), offset, len).map_err(|error| errno::of(&error))?;
        self.stats.read(bytes.len());
        Ok(bytes)
    }

    /// Writes all of `data`.
    pub fn write(&self, write: Write, data: &[u8]) -> Result<u32> {
        let ino = self.view.ino(write.node);
        if write.flags & libc::O_APPEND != 0 && !write.writeback {
            self.append(ino, write, data)?;
        } else {
            let Write { offset, kill_privileges, .. } = write;
            let written = match write.writeback {
                true => self.files.write_back(ino, offset, kill_privileges, data),
                false => self.files.write(ino, offset, kill_privileges, data),
            };
            written.map_err(|error| errno::of(&error))?;
        }
        if write.flags & libc::O_DSYNC != 0 && self.opens.writes_past_pages(write.node) {
            self.sync(write.node, write.flags & libc::O_SYNC != libc::O_SYNC)?;
        }
        self.stats.written(data.len());
        u32::try_from(data.len()).map_err(|_| Errno::INVAL)
    }

    /// Appends at the true end of the file. The kernel assumed an end that another writer may have moved. Then it has
    /// put the data at the wrong place in its pages and has to drop them. The invalidation finds these pages: they were
    /// filled before the request was sent, and a page still being filled stays locked until then.
    fn append(&self, ino: u64, write: Write, data: &[u8]) -> Result<()> {
        let privileged = write.kill_privileges && self.is_privileged(ino);
        let end = self.files.append(ino, data).map_err(|error| errno::of(&error))?;
        if privileged {
            self.kill_privileges(ino)?;
        }
        if end != write.offset + data.len() as u64 {
            self.files.recall(ino).map_err(|error| errno::of(&error))?;
        }
        Ok(())
    }

    /// Opens a file. The kernel has checked permissions; object lock may still refuse.
    pub fn open(&self, node: u64, flags: i32, asked: Asked) -> Result<Opened> {
        let ino = self.view.ino(node);
        if !is_writer(flags) {
            return self.opens.open(node, flags, asked);
        }
        let appends = flags & libc::O_APPEND != 0;
        self.files.check_open(ino, appends).map_err(|error| errno::of(&error))?;
        self.files.open_writer(ino).map_err(|error| errno::of(&error))?;
        self.opens.open(node, flags, asked).inspect_err(|_| {
            // The file was never open, so the close has nothing to report.
            let _ = self.files.close_writer(ino, false);
        })
    }

    /// A descriptor of a file is being closed, possibly the last; close(2) has not returned yet. It fails if a write failed
    /// that was answered before.
    pub fn flush(&self, node: u64, file: OpenFile, owner: u64) -> Result<()> {
        self.end_locks_of_process(node, owner);
        let ino = self.view.ino(node);
        if file.is_announced(self.locks.are_kept()) {
            announced(self.files.closing(ino, file.encode()));
        }
        if !file.writable {
            return Ok(());
        }
        self.session.unreported(ino).map_err(|error| errno::of_sync(&error))
    }

    /// The last descriptor of an open(2) was closed.
    pub fn release(&self, node: u64, file: OpenFile, flock_owner: Option<u64>, asked: Asked) -> Result<()> {
        self.opens.release(node, asked);
        self.end_locks_of_file(node, file, flock_owner);
        if !file.writable {
            return Ok(());
        }
        let ino = self.view.ino(node);
        let closed = self.files.close_writer(ino, file.life != self.session.about().life);
        // As FLUSH announced it.
        if file.is_announced(self.locks.are_kept()) {
            announced(self.files.closed(ino, file.encode()));
        }
        closed.map_err(|error| errno::of_sync(&error))
    }

    /// Syncs a file or directory (fsync(2), or fdatasync(2)).
    pub fn sync(&self, node: u64, data_only: bool) -> Result<()> {
        let ino = self.view.ino(node);
        self.files.sync(ino, data_only).map_err(|error| errno::of_sync(&error))
    }

    /// Reserves, punches or zeroes a range (fallocate(2)).
    pub fn allocate(&self, node: u64, mode: i32, offset: u64, len: u64, caller: Caller) -> Result<()> {
        let how = match mode {
            0 => Allocate::Extend,
            libc::FALLOC_FL_KEEP_SIZE => Allocate::KeepSize,
            PUNCH_HOLE => Allocate::PunchHole,
            libc::FALLOC_FL_ZERO_RANGE => Allocate::ZeroRange,
            ZERO_KEEP_SIZE => Allocate::ZeroRangeKeepSize,
            _ => return Err(Errno::OPNOTSUPP),
        };
        let ino = self.view.ino(node);
        self.files.allocate(ino, how, offset, len).map_err(|error| errno::of(&error))?;
        if !caller.keeps_privileges() && self.is_privileged(ino) {
            self.kill_privileges(ino)?;
        }
        Ok(())
    }

    /// The next data or hole (lseek(2) with SEEK_DATA or SEEK_HOLE; the kernel handles all others).
    pub fn seek(&self, node: u64, offset: i64, whence: i32) -> Result<i64> {
        let data = match whence {
            libc::SEEK_DATA => true,
            libc::SEEK_HOLE => false,
            _ => return Err(Errno::INVAL),
        };
        let offset = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
        let found = self.files.seek(self.view.ino(node), offset, data).map_err(|error| errno::of(&error))?;
        i64::try_from(found.ok_or(Errno::NXIO)?).map_err(|_| Errno::OVERFLOW)
    }
}

/// Logs that the announcement of a close got lost: the next writer waits for it in vain, for a bounded time.
fn announced(done: objstore_base::error::Result<()>) {
    if let Err(error) = done {
        tracing::debug!(%error, "cannot report the close of a file to the store");
    }
}

const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
const ZERO_KEEP_SIZE: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
