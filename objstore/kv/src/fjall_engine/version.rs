//! Checks of fjall's file `version` and of its lock file before fjall opens a folder: fjall would take a folder without
//! `version` for a new one, and expects the lock file in every other.
//!
//! - fjall writes `version` last when it creates a database: before that the folder has a journal without a batch and a
//!   folder without a table. If a crash left those, they are removed, and the database is created again.

use std::io::{ErrorKind, Read as _};
use std::path::Path;

use objstore_base::error::{Error, Result};
use objstore_disk::{Disk as _, RealDisk};

/// The content of the file: a name and the version of fjall's format.
const NAME: &[u8] = b"FJL";
const VERSION: u8 = 3;

/// Refuses a folder of another version, and one whose file is missing or damaged.
pub(super) fn check(folder: &Path) -> Result<()> {
    let path = folder.join("version");
    match std::fs::read(&path) {
        Ok(content) if content.is_empty() && is_unmade(folder)? => remove_unmade(folder),
        Ok(content) => judge(&path, &content).and_then(|()| make_lock(folder)),
        Err(error) if error.kind() == ErrorKind::NotFound && is_empty(folder) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound && is_unmade(folder)? => remove_unmade(folder),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::Unusable {
            why: format!(
                "the file {} is missing from a folder with metadata in it: put it back, or restore the data folder \
                 from a backup",
                path.display()
            ),
        }),
        Err(source) => Err(Error::io(format!("reading {}", path.display()), source)),
    }
}

fn judge(path: &Path, content: &[u8]) -> Result<()> {
    match content.strip_prefix(NAME) {
        Some([VERSION]) => Ok(()),
        Some([other]) => Err(Error::Unusable {
            why: format!(
                "the metadata is of version {other} by {}, this program reads version {VERSION}; open it with the \
                 program that wrote it",
                path.display()
            ),
        }),
        _ => {
            let found = content.escape_ascii().to_string();
            Err(Error::corrupt(format!("the file {}", path.display()), format!("\"FJL\" and {VERSION}"), found))
        }
    }
}

/// Creates the lock file if it is missing; it has no content.
fn make_lock(folder: &Path) -> Result<()> {
    let path = folder.join("lock");
    let made = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    made.map(drop).map_err(|source| Error::io(format!("opening {}", path.display()), source))
}

/// Whether the folder holds nothing but a lock file, which a failed opening leaves: that is no store.
fn is_empty(folder: &Path) -> bool {
    let Ok(mut entries) = std::fs::read_dir(folder) else { return true };
    entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == "lock"))
}

/// What fjall creates before `version`: its lock, the first journal file, and a folder for tables.
const JOURNAL: &str = "0.jnl";
const TABLES: &str = "keyspaces";

/// Whether a crash left the folder before the database was complete: it holds nothing that a commit wrote.
fn is_unmade(folder: &Path) -> Result<bool> {
    let failed = |source| Error::io(format!("reading the folder {}", folder.display()), source);
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_fresh = match entry.file_name().to_str() {
            Some("lock" | "version") => true,
            Some(TABLES) => std::fs::read_dir(entry.path()).map_err(failed)?.next().is_none(),
            Some(JOURNAL) => is_zeros(&entry.path()).map_err(failed)?,
            _ => false,
        };
        if !is_fresh {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_zeros(path: &Path) -> std::io::Result<bool> {
    let (mut file, mut step) = (std::fs::File::open(path)?, vec![0; 1 << 20]);
    loop {
        match file.read(&mut step)? {
            0 => return Ok(true),
            read if step[..read].iter().any(|byte| *byte != 0) => return Ok(false),
            _ => {}
        }
    }
}

fn remove_unmade(folder: &Path) -> Result<()> {
    tracing::info!(folder = %folder.display(), "the first start of this store was interrupted; its metadata is created again");
    [JOURNAL, "version"].iter().try_for_each(|name| RealDisk::new().remove(&folder.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_first_start_left_is_made_again_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let journal = dir.path().join(JOURNAL);
        let left = |version: Option<&[u8]>| {
            std::fs::create_dir_all(dir.path().join(TABLES)).unwrap();
            std::fs::File::create(&journal).unwrap().set_len(4 << 20).unwrap();
            std::fs::write(dir.path().join("lock"), "").unwrap();
            version.inspect(|bytes| std::fs::write(dir.path().join("version"), bytes).unwrap());
        };
        for version in [None, Some(&b""[..])] {
            left(version);
            check(dir.path()).unwrap();
            assert!(!journal.exists() && !dir.path().join("version").exists());
        }
        super::super::open(dir.path(), super::super::Options::default()).unwrap();
        std::fs::remove_file(dir.path().join("version")).unwrap();
        assert!(
            check(dir.path()).unwrap_err().to_string().contains("is missing"),
            "a folder with a table or a batch is not created again"
        );
    }
}
