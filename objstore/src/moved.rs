//! The note in a data folder whose store was moved to another place: no server opens the old copy.
//!
//! - It is a text for people; its second line names the place.
//! - To go on with the old copy, an administrator removes the file.
//!
//! A crash leaves the note or none: it is written before the store elsewhere becomes valid, so two copies are never served.

use std::path::Path;

use crate::disk::Disk;
use crate::error::{Error, Result};

/// The file in the data folder.
const FILE: &str = "moved";
const MODE: u32 = 0o600;
/// What stands before the place.
const PLACE: &str = "place: ";

/// Writes the note, durably.
pub(crate) fn write(disk: &dyn Disk, dir: &Path, place: &str) -> Result<()> {
    let text = format!(
        "The store in this folder was moved by `amphora migrate`.\n{PLACE}{place}\n\
         Serve it there, with --metadata-url and --content-url. What is in this folder stays as it was at the move.\n\
         To go on with this old copy, without what was changed there since, remove this file.\n"
    );
    disk.write_atomic(&dir.join(FILE), text.as_bytes(), MODE)
}

/// The place to which the store in `dir` was moved, if it was.
pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<String>> {
    let file = dir.join(FILE);
    if !disk.exists(&file)? {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&disk.read_all(&file)?).into_owned();
    let place = text.lines().find_map(|line| line.strip_prefix(PLACE));
    Ok(Some(place.unwrap_or("a place that the file does not name").to_owned()))
}

/// Refuses a folder whose store was moved.
pub(crate) fn refuse(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let Some(place) = read(disk, dir)? else { return Ok(()) };
    let why = format!(
        "the store in {} was moved to {place}: serve it there with --metadata-url and --content-url, or remove the file \
         {} to go on with the old copy",
        dir.display(),
        dir.join(FILE).display()
    );
    Err(Error::Unusable { why })
}
