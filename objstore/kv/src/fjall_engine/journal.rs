//! Separate syncing of the journal's newest file, because fjall's own sync blocks every commit meanwhile.
//!
//! - fjall numbers the files `N.jnl` and writes to the one with the highest number. Before it begins the next it syncs
//!   this one; it removes them in order, and never the newest. So syncing the newest makes everything durable.
//! - A commit from which fjall has returned is visible in the file to other descriptors.
//! - Linux reports a failed write once to each open descriptor, and not to descriptors opened after one was notified.
//!   fjall's background threads may receive the report for its descriptor, which only the next commit learns. So each
//!   new file is opened here as soon as it exists, not when a sync is requested.
//!
//! It writes nothing, and a crash leaves nothing of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use objstore_base::error::{Error, Result};
use objstore_disk::{Disk, File, RealDisk};

/// The journal in one folder.
pub(super) struct Journal {
    disk: RealDisk,
    folder: PathBuf,
    newest: Mutex<Newest>,
}

struct Newest {
    number: u64,
    file: Arc<dyn File>,
    /// An upper bound of the newest file's size, in bytes.
    bytes: u64,
}

/// fjall begins no new file before the newest one has more bytes than this.
const FILE_BYTES: u64 = 64_000_000;

impl Journal {
    /// Opens the journal in `folder`, after fjall has opened it.
    pub fn open(folder: &Path) -> Result<Self> {
        let disk = RealDisk::new();
        let newest = Mutex::new(newest(&disk, folder)?);
        Ok(Self { disk, folder: folder.to_owned(), newest })
    }

    /// Records that this many bytes were committed.
    pub fn grew(&self, bytes: u64) {
        let mut known = self.newest.lock();
        known.bytes = known.bytes.saturating_add(bytes);
        if known.bytes > FILE_BYTES {
            // If this fails, the next call tries again, or a caller's sync reports the error.
            drop(self.renew(&mut known));
        }
    }

    /// Returns once every commit from which fjall has returned is on disk.
    pub fn sync(&self) -> Result<()> {
        let file = self.file()?;
        // `fdatasync` is enough: it also writes a grown size, and preallocated space is synced when it is allocated.
        file.sync()
    }

    #[cfg(test)]
    pub fn knows(&self, number: u64) -> bool {
        self.newest.lock().number >= number
    }

    fn file(&self) -> Result<Arc<dyn File>> {
        let mut known = self.newest.lock();
        self.renew(&mut known)?;
        Ok(Arc::clone(&known.file))
    }

    fn renew(&self, known: &mut Newest) -> Result<()> {
        if self.is_old(known.number)? {
            *known = newest(&self.disk, &self.folder)?;
        }
        Ok(())
    }

    /// Whether there is a newer file: either the next one exists, or it was removed, and then this one was removed
    /// before.
    fn is_old(&self, number: u64) -> Result<bool> {
        Ok(self.disk.exists(&path(&self.folder, number + 1))? || !self.disk.exists(&path(&self.folder, number))?)
    }
}

fn newest(disk: &RealDisk, folder: &Path) -> Result<Newest> {
    let number = numbers(disk, folder)?.pop();
    let number =
        number.ok_or_else(|| Error::Unusable { why: format!("the folder \"{}\" has no journal", folder.display()) })?;
    let file = disk.open(&path(folder, number))?;
    // Preallocated space is a hole.
    let bytes = file.seek_hole(0)?.unwrap_or(0);
    Ok(Newest { number, file, bytes })
}

/// The path of the journal file with a number.
pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number}.jnl"))
}

/// The numbers of the journal's files, ascending.
pub(super) fn numbers(disk: &RealDisk, folder: &Path) -> Result<Vec<u64>> {
    let names = disk.list(folder)?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.strip_suffix(".jnl")?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_found_however_many_were_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |number| path(folder.path(), number);
        assert!(Journal::open(folder.path()).is_err());
        for number in [9, 10] {
            std::fs::File::create(path(number)).unwrap();
        }
        let journal = Journal::open(folder.path()).unwrap();
        let seen = |expected: u64| {
            journal.sync().unwrap();
            assert_eq!(journal.newest.lock().number, expected);
        };
        seen(10);
        std::fs::File::create(path(11)).unwrap();
        seen(11);
        // Three files are begun between two syncs, and all but the last removed.
        std::fs::File::create(path(14)).unwrap();
        for number in [9, 10, 11] {
            std::fs::remove_file(path(number)).unwrap();
        }
        seen(14);
    }

    #[test]
    fn a_file_that_may_be_new_is_looked_for_at_each_commit() {
        let folder = tempfile::tempdir().unwrap();
        let make = |number, bytes: u64| {
            let file = std::fs::File::create(path(folder.path(), number)).unwrap();
            std::io::Write::write_all(&mut &file, &vec![1; bytes as usize]).unwrap();
            file.set_len(64 << 20).unwrap();
        };
        make(0, 1 << 20);
        let journal = Journal::open(folder.path()).unwrap();
        let known = || {
            let newest = journal.newest.lock();
            (newest.number, newest.bytes)
        };
        assert_eq!(known(), (0, 1 << 20));
        journal.grew(FILE_BYTES - (1 << 20));
        journal.grew(1);
        make(1, 0);
        journal.grew(1);
        assert_eq!(known(), (1, 0));
        make(2, 0);
        journal.grew(FILE_BYTES);
        assert_eq!(known(), (1, FILE_BYTES), "there cannot be another");
        journal.grew(1);
        assert_eq!(known(), (2, 0));
    }
}
