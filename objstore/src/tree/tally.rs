//! Recounting a whole tree: a branch's objects and hidden keys, from the names themselves.

use std::collections::HashSet;

use super::cursor::Cursor;
use super::hidden::hidden_by;
use super::read::Tree;
use crate::error::{Error, Result};
use crate::record::inode::InodeKind;

/// The counts of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Current objects.
    pub objects: i64,
    /// The hidden keys among them.
    pub hidden: i64,
}

/// Counts a tree by visiting all names.
///
/// # Errors
/// Corruption: a name leads to nothing, or two names lead to one directory.
pub(crate) fn tally(tree: Tree<'_>) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut met = HashSet::new();
    let mut cursor = Cursor::new(tree, "")?;
    while let Some(name) = cursor.next_name()? {
        let ino = name.dirent.ino;
        let is_directory = name.dirent.kind() == InodeKind::Directory;
        if is_directory && !met.insert(ino) {
            return Err(Error::corrupt(format!("directory {ino}"), "one name", "several"));
        }
        let is_key = !is_directory || !tree.linked_inode(ino)?.1.implicit;
        tally.objects += i64::from(is_key);
        tally.hidden += i64::from(hidden_by(tree, &name, cursor.holder(&name))?.is_some());
    }
    Ok(tally)
}
