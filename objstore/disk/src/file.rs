//! Files of the operating system: the implementation of [`File`].

use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use objstore_base::error::{Error, Posix, Result};
use objstore_base::latency::Recorder;
use rustix::fs::{
    Advice, FallocateFlags, SeekFrom, copy_file_range, fadvise, fallocate, fdatasync, fsync, ioctl_ficlone, seek,
};
use rustix::io::{Errno, ReadWriteFlags, preadv2, retry_on_intr};

use super::direct::Direct;
use super::space::space_beside;
use super::{Allocate, File, Need, Room, lease, space_map};

// The most bytes that one call writes to the page cache. For longer writes the kernel uses larger pieces of memory,
// which it has rarely used before: on a virtual machine the host has to supply them first, which tripled the time of a
// copy.
const WRITE_BYTES: usize = 256 * 1024;

// A multiple of every page size: ranges are widened to multiples of it.
const PAGE: u64 = 64 * 1024;

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// An open file, with the path it was opened by, which errors name.
pub(super) struct RealFile {
    file: std::fs::File,
    // Opened by the first direct write.
    direct: OnceLock<Option<Direct>>,
    path: PathBuf,
    room: Arc<Room>,
    syncs: Arc<Recorder>,
}

impl RealFile {
    pub(super) fn new(file: std::fs::File, path: &Path, room: Arc<Room>, syncs: Arc<Recorder>) -> Self {
        Self { file, direct: OnceLock::new(), path: path.to_owned(), room, syncs }
    }

    /// Refuses a write that would use space that is kept free. A range that has its space already may always be
    /// written.
    fn make_room(&self, len: u64, offset: u64) -> Result<()> {
        let taken = self.room.take(len, Need::Adding, || space_beside(&self.file, &self.path));
        taken.or_else(|full| if self.has_space(offset..offset.saturating_add(len)) { Ok(()) } else { Err(full) })
    }

    /// Whether the file has space for a range, written or reserved.
    fn has_space(&self, range: Range<u64>) -> bool {
        if let Some(missing) = space_map::missing(&self.file, range.clone()) {
            return missing.is_empty();
        }
        let Ok(metadata) = self.file.metadata() else { return false };
        metadata.len().max(range.end) <= metadata.blocks().saturating_mul(512)
    }

    /// Frees the space that an attempt to reserve a range allocated before it failed: `missing` are the parts that had
    /// no space before, and `len` is the length of the file before.
    fn give_back(&self, range: Range<u64>, missing: &[Range<u64>], len: u64) -> Result<()> {
        for none in missing {
            self.punch(none.start, none.end.min(len).saturating_sub(none.start))?;
        }
        if range.end <= len {
            return Ok(());
        }
        // Beyond the end, only a truncation frees space, and it frees all of it: what was reserved before is reserved
        // again.
        self.set_len(len)?;
        for kept in space_map::rest(missing, range.start.max(len)..range.end) {
            let kept_len = kept.end - kept.start;
            let again = fallocate(&self.file, FallocateFlags::KEEP_SIZE, kept.start, kept_len);
            again.map_err(|errno| self.failed_at("reserving", kept_len, kept.start, errno))?;
        }
        Ok(())
    }

    fn write(&self, data: &[u8], offset: u64) -> std::io::Result<()> {
        let mut at = offset;
        for step in data.chunks(WRITE_BYTES) {
            self.file.write_all_at(step, at)?;
            at += step.len() as u64;
        }
        Ok(())
    }

    fn failed(&self, doing: &str, source: impl Into<std::io::Error>) -> Error {
        Error::io(format!("{doing} {}", self.path.display()), source.into())
    }

    fn failed_at(&self, doing: &str, len: u64, offset: u64, source: impl Into<std::io::Error>) -> Error {
        self.failed(&format!("{doing} {len} bytes at {offset} of"), source)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        let end = offset.saturating_add(len).min(self.len()?);
        let mut at = offset;
        while at < end {
            let step = (end - at).min(ZEROS.len() as u64);
            self.write_at(&ZEROS[..step as usize], at)?;
            at += step;
        }
        Ok(())
    }

    fn find(&self, from: SeekFrom) -> Result<Option<u64>> {
        match seek(&self.file, from) {
            Ok(at) => Ok(Some(at)),
            Err(Errno::NXIO) => Ok(None),
            Err(errno) => Err(self.failed("seeking in", errno)),
        }
    }
}

impl File for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let mut filled = 0;
        while filled < buf.len() {
            match self.file.read_at(&mut buf[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed_at("reading", buf.len() as u64, offset, error)),
            }
        }
        Ok(filled)
    }

    fn read_cached(&self, buf: &mut [u8], offset: u64) -> bool {
        let len = buf.len();
        let mut room = [IoSliceMut::new(buf)];
        retry_on_intr(|| preadv2(&self.file, &mut room, offset, ReadWriteFlags::NOWAIT)) == Ok(len)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        self.make_room(data.len() as u64, offset)?;
        self.write(data, offset).map_err(|error| self.failed_at("writing", data.len() as u64, offset, error))
    }

    fn write_direct(&self, data: &[u8], offset: u64) -> Result<()> {
        self.make_room(data.len() as u64, offset)?;
        let direct = self.direct.get_or_init(|| Direct::open(&self.path));
        let write = || {
            let done = direct.as_ref().map_or(Ok(0), |direct| direct.write(data, offset))?;
            self.write(&data[done..], offset + done as u64)
        };
        write().map_err(|error| self.failed_at("writing", data.len() as u64, offset, error))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|error| self.failed("getting the size of", error))?.len())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(|error| self.failed(&format!("setting the size {len} of"), error))
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retry_on_intr(|| fallocate(&self.file, hole, offset, len)) {
            Ok(()) => Ok(()),
            Err(errno) if is_unsupported(errno) => self.zero(offset, len),
            Err(errno) => Err(self.failed_at("freeing", len, offset, errno)),
        }
    }

    fn allocate(&self, offset: u64, len: u64, size: Allocate) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let (before, end) = (self.len()?, offset.saturating_add(len));
        let missing = space_map::missing(&self.file, offset..end);
        let more = missing.as_ref().map_or(len, |ranges| ranges.iter().map(|range| range.end - range.start).sum());
        self.room.reserve(more, || space_beside(&self.file, &self.path))?;
        let flags = match size {
            Allocate::KeepSize => FallocateFlags::KEEP_SIZE,
            Allocate::Extend => FallocateFlags::empty(),
        };
        match retry_on_intr(|| fallocate(&self.file, flags, offset, len)) {
            Ok(()) => Ok(()),
            // On this error the caller may write zeros instead, as posix_fallocate(3) does.
            Err(errno) if is_unsupported(errno) => Err(Posix::NotSupported.into()),
            Err(errno) => {
                self.give_back(offset..end, &missing.unwrap_or_default(), before)?;
                Err(self.failed_at("reserving", len, offset, errno))
            }
        }
    }

    fn sync(&self) -> Result<()> {
        // No retry after an error: the kernel reports a lost write once, and a second call would hide it.
        self.syncs.time(|| fdatasync(&self.file)).map_err(|errno| self.failed("syncing", errno))
    }

    fn sync_with_time(&self) -> Result<()> {
        self.syncs.time(|| fsync(&self.file)).map_err(|errno| self.failed("syncing", errno))
    }

    fn begin_sync(&self, offset: u64, len: u64) {
        let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return };
        // SAFETY: the call takes numbers and a descriptor, which is open as long as the file; no memory.
        unsafe { libc::sync_file_range(self.file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
    }

    fn forget_cached(&self, offset: u64, len: u64) {
        // The system would drop nothing of a page that is only partly in the range.
        let from = offset / PAGE * PAGE;
        let len = NonZeroU64::new(offset.saturating_add(len).next_multiple_of(PAGE) - from);
        // This is only a hint: reading what stays in the page cache is as correct as any other read.
        let _ = fadvise(&self.file, from, len, Advice::DontNeed);
    }

    fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        self.find(SeekFrom::Data(offset))
    }

    fn seek_hole(&self, offset: u64) -> Result<Option<u64>> {
        self.find(SeekFrom::Hole(offset))
    }

    fn reflink_from(&self, source: &dyn File) -> Result<bool> {
        let Some(source) = source.raw() else { return Ok(false) };
        match ioctl_ficlone(&self.file, source) {
            Ok(()) => Ok(true),
            // EINVAL and EXDEV: file systems that know the call, but not for these two files.
            Err(errno) if is_unsupported(errno) || matches!(errno, Errno::INVAL | Errno::XDEV) => Ok(false),
            Err(errno) => Err(self.failed("cloning into", errno)),
        }
    }

    fn copy_from(&self, source: &dyn File, from: u64, to: u64, len: u64) -> Result<()> {
        self.make_room(len, to)?;
        let mut done = 0;
        while let Some(source) = source.raw().filter(|_| done < len) {
            let left = usize::try_from(len - done).unwrap_or(usize::MAX);
            let (mut at, mut into) = (from + done, to + done);
            match retry_on_intr(|| copy_file_range(source, Some(&mut at), &self.file, Some(&mut into), left)) {
                Ok(0) => break,
                Ok(copied) => done += copied as u64,
                Err(errno) if is_unsupported(errno) || matches!(errno, Errno::INVAL | Errno::XDEV) => break,
                Err(errno) => return Err(self.failed_at("copying", len, to, errno)),
            }
        }
        super::copy_bytes(self, source, (from + done, to + done), len - done)
    }

    fn raw(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn is_lone(&self) -> bool {
        lease::is_lone(&self.file)
    }

    fn blocks(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|error| self.failed("getting the space used by", error))?.blocks())
    }

    fn modified(&self) -> Result<SystemTime> {
        let time = self.file.metadata().and_then(|metadata| metadata.modified());
        time.map_err(|error| self.failed("getting the modification time of", error))
    }
}

fn is_unsupported(errno: Errno) -> bool {
    // EOPNOTSUPP is ENOTSUP on Linux.
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY)
}
