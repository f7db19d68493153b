//! A test disk on top of the real one, which fails on demand and counts operations.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::SystemTime;

use objstore_base::error::{Error, Result};
use objstore_disk::{Allocate, Disk, File, Lock, Permissions, RealDisk, Space};
use parking_lot::Mutex;

/// Which operations fail, and how many of each were made.
#[derive(Default)]
pub struct Faults {
    /// Whether every sync fails with EIO. Failed syncs are counted too.
    pub fail_syncs: AtomicBool,
    /// Whether every write fails with ENOSPC.
    pub fail_writes: AtomicBool,
    /// Whether every write fails with EIO.
    pub break_writes: AtomicBool,
    /// The number of calls of [`File::write_direct`].
    pub direct_writes: AtomicUsize,
    /// The number of syncs of a file.
    pub file_syncs: AtomicUsize,
    /// The number of syncs of the names in a folder.
    pub dir_syncs: AtomicUsize,
    /// The number of syncs of a whole file system.
    pub all_syncs: AtomicUsize,
    /// The number of open files.
    pub open_files: AtomicUsize,
    /// After how many replaced and removed files such an operation fails, and whether it fails only after it is done.
    pub stop: Mutex<Option<(usize, bool)>>,
}

impl Faults {
    fn sync(&self, counter: &AtomicUsize) -> Result<()> {
        counter.fetch_add(1, Ordering::Relaxed);
        match self.fail_syncs.load(Ordering::Relaxed) {
            true => Err(Error::io("syncing", std::io::Error::from_raw_os_error(libc::EIO))),
            false => Ok(()),
        }
    }

    /// Replaces or removes a file, or fails before or after that.
    fn change(&self, change: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut stop = self.stop.lock();
        let Some((left, last_fails)) = stop.as_mut() else { return change() };
        let fails = *left == 0 || *left == 1 && *last_fails;
        if *left > 0 {
            *left -= 1;
            change()?;
        }
        match fails {
            true => Err(Error::io("changing names", std::io::Error::from_raw_os_error(libc::EIO))),
            false => Ok(()),
        }
    }

    fn write(&self) -> Result<()> {
        let failing = [(&self.fail_writes, libc::ENOSPC), (&self.break_writes, libc::EIO)];
        match failing.into_iter().find(|(fault, _)| fault.load(Ordering::Relaxed)) {
            Some((_, errno)) => Err(Error::io("writing", std::io::Error::from_raw_os_error(errno))),
            None => Ok(()),
        }
    }
}

/// The real disk with failures as in [`Faults`].
#[derive(Default)]
pub struct FaultyDisk {
    real: RealDisk,
    /// Which operations fail, and how many of each were made.
    pub faults: Arc<Faults>,
}

impl FaultyDisk {
    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        self.faults.open_files.fetch_add(1, Ordering::Relaxed);
        Arc::new(FaultyFile { real: file, faults: self.faults.clone() })
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        Ok(self.wrap(self.real.create(path)?))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        Ok(self.wrap(self.real.open(path)?))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.real.exists(path)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.faults.change(|| self.real.remove(path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.real.list(dir)
    }

    fn make_dir(&self, dir: &Path) -> Result<()> {
        self.real.make_dir(dir)
    }

    fn spread(&self, dir: &Path) {
        self.real.spread(dir);
    }

    fn machine(&self) -> Result<u64> {
        self.real.machine()
    }

    fn make_dir_all(&self, dir: &Path) -> Result<()> {
        self.real.make_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.faults.sync(&self.faults.dir_syncs)?;
        self.real.sync_dir(dir)
    }

    fn sync_everything(&self, _dir: &Path) -> Result<()> {
        // Only counted, since syncing the whole machine would slow down every test.
        self.faults.sync(&self.faults.all_syncs)
    }

    fn read_all(&self, path: &Path) -> Result<Vec<u8>> {
        self.real.read_all(path)
    }

    fn write_atomic(&self, path: &Path, content: &[u8], mode: u32) -> Result<()> {
        self.faults.sync(&self.faults.file_syncs)?;
        self.faults.change(|| self.real.write_atomic(path, content, mode))
    }

    fn space(&self, dir: &Path) -> Result<Space> {
        self.real.space(dir)
    }

    fn lock(&self, path: &Path) -> Result<Lock> {
        self.real.lock(path)
    }

    fn permissions(&self, path: &Path) -> Result<Option<Permissions>> {
        self.real.permissions(path)
    }
}

struct FaultyFile {
    real: Arc<dyn File>,
    faults: Arc<Faults>,
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        self.faults.open_files.fetch_sub(1, Ordering::Relaxed);
    }
}

impl File for FaultyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.real.read_at(buf, offset)
    }

    fn read_cached(&self, buf: &mut [u8], offset: u64) -> bool {
        self.real.read_cached(buf, offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        if let Err(failed) = self.faults.write() {
            // A full or broken disk keeps what it accepted before the failure.
            self.real.write_at(&data[..data.len() / 2], offset)?;
            return Err(failed);
        }
        self.real.write_at(data, offset)
    }

    fn write_direct(&self, data: &[u8], offset: u64) -> Result<()> {
        self.faults.direct_writes.fetch_add(1, Ordering::Relaxed);
        if let Err(failed) = self.faults.write() {
            self.real.write_direct(&data[..data.len() / 2], offset)?;
            return Err(failed);
        }
        self.real.write_direct(data, offset)
    }

    fn len(&self) -> Result<u64> {
        self.real.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.real.set_len(len)
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.real.punch(offset, len)
    }

    fn allocate(&self, offset: u64, len: u64, size: Allocate) -> Result<()> {
        self.faults.write()?;
        self.real.allocate(offset, len, size)
    }

    fn sync(&self) -> Result<()> {
        self.faults.sync(&self.faults.file_syncs)?;
        self.real.sync()
    }

    fn sync_with_time(&self) -> Result<()> {
        self.faults.sync(&self.faults.file_syncs)?;
        self.real.sync_with_time()
    }

    fn begin_sync(&self, offset: u64, len: u64) {
        self.real.begin_sync(offset, len);
    }

    fn forget_cached(&self, offset: u64, len: u64) {
        self.real.forget_cached(offset, len);
    }

    fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        self.real.seek_data(offset)
    }

    fn seek_hole(&self, offset: u64) -> Result<Option<u64>> {
        self.real.seek_hole(offset)
    }

    fn reflink_from(&self, source: &dyn File) -> Result<bool> {
        self.real.reflink_from(source)
    }

    fn raw(&self) -> Option<BorrowedFd<'_>> {
        self.real.raw()
    }

    fn is_lone(&self) -> bool {
        self.real.is_lone()
    }

    fn blocks(&self) -> Result<u64> {
        self.real.blocks()
    }

    fn modified(&self) -> Result<SystemTime> {
        self.real.modified()
    }
}
