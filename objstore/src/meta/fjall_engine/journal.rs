//! The journal's newest file, synced beside fjall: its own sync holds back every commit meanwhile.
//!
//! - fjall numbers the files, `N.jnl`, and writes to the one with the highest number. Before it begins the next it syncs
//!   this one; it removes them in order, and never the newest. So whoever syncs the newest syncs all.
//! - A commit that fjall has returned from is in the file, as far as other descriptors can tell.
//!
//! It writes nothing, and a crash leaves nothing of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::{Disk, File, RealDisk};
use crate::error::{Error, Result};

/// The journal in one folder.
pub(super) struct Journal {
    disk: RealDisk,
    folder: PathBuf,
    newest: Mutex<Newest>,
}

struct Newest {
    number: u64,
    file: Arc<dyn File>,
}

impl Journal {
    /// The journal in `folder`, once fjall has opened it.
    pub fn open(folder: &Path) -> Result<Self> {
        let disk = RealDisk::new();
        let newest = Mutex::new(newest(&disk, folder)?);
        Ok(Self { disk, folder: folder.to_owned(), newest })
    }

    /// Returns once every commit that fjall had returned from is on disk.
    pub fn sync(&self) -> Result<()> {
        let file = self.file()?;
        // Enough: it writes the size too when that grew, and what fjall allocates ahead is synced when it is made.
        file.sync()
    }

    fn file(&self) -> Result<Arc<dyn File>> {
        let mut known = self.newest.lock();
        if self.is_old(known.number)? {
            *known = newest(&self.disk, &self.folder)?;
        }
        Ok(Arc::clone(&known.file))
    }

    /// Whether there is a newer one: the next, unless that was removed in its turn, and then this one was before.
    fn is_old(&self, number: u64) -> Result<bool> {
        Ok(self.disk.exists(&path(&self.folder, number + 1))? || !self.disk.exists(&path(&self.folder, number))?)
    }
}

fn newest(disk: &RealDisk, folder: &Path) -> Result<Newest> {
    let number = numbers(disk, folder)?.into_iter().max();
    let number =
        number.ok_or_else(|| Error::Unusable { why: format!("the folder \"{}\" has no journal", folder.display()) })?;
    Ok(Newest { number, file: disk.open(&path(folder, number))? })
}

/// The journal's file with a number.
pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number}.jnl"))
}

/// The numbers of the files.
pub(super) fn numbers(disk: &RealDisk, folder: &Path) -> Result<Vec<u64>> {
    let names = disk.list(folder)?;
    Ok(names.iter().filter_map(|name| name.strip_suffix(".jnl")?.parse().ok()).collect())
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
        // Three are begun between two syncs, and those before the last removed.
        std::fs::File::create(path(14)).unwrap();
        for number in [9, 10, 11] {
            std::fs::remove_file(path(number)).unwrap();
        }
        seen(14);
    }
}
