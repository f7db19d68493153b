//! The file `version`, looked at before fjall does, which takes a folder without one for a new one; and its lock, which it
//! takes to be there in every other.

use std::io::ErrorKind;
use std::path::Path;

use crate::error::{Error, Result};

/// What the file holds: a name, and the version of fjall's files.
const NAME: &[u8] = b"FJL";
const VERSION: u8 = 3;

/// Refuses a folder of another version, and one whose file is missing or damaged.
pub(super) fn check(folder: &Path) -> Result<()> {
    let path = folder.join("version");
    match std::fs::read(&path) {
        Ok(content) => judge(&path, &content).and_then(|()| make_lock(folder)),
        Err(error) if error.kind() == ErrorKind::NotFound && is_empty(folder) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::Unusable {
            why: format!(
                "the file {} is missing from a folder with metadata in it: bring it back, or restore the data folder \
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

/// The lock holds nothing, so that a missing one is made again.
fn make_lock(folder: &Path) -> Result<()> {
    let path = folder.join("lock");
    let made = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    made.map(drop).map_err(|source| Error::io(format!("opening {}", path.display()), source))
}

/// A lock alone, which an opening that failed leaves, is no store.
fn is_empty(folder: &Path) -> bool {
    let Ok(mut entries) = std::fs::read_dir(folder) else { return true };
    entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == "lock"))
}
