//! A walk over current objects with their whole inodes, for background work on a bucket.

use super::cursor::{Cursor, after};
use super::read::Tree;
use crate::error::Result;
use crate::record::inode::Inode;

/// A key, its inode's number and its inode.
pub(crate) type Swept = (String, u64, Inode);

/// Up to `limit` keys with `prefix`, after `last`; and whether there may be more.
pub(crate) fn sweep(tree: Tree<'_>, prefix: &str, last: Option<&str>, limit: usize) -> Result<(Vec<Swept>, bool)> {
    let from = last.map_or_else(String::new, after).max(prefix.to_owned());
    let mut cursor = Cursor::new(tree, &from)?;
    let mut found = Vec::new();
    while found.len() < limit {
        match cursor.next()?.filter(|item| item.key.starts_with(prefix)) {
            Some(item) => found.push((item.key, item.ino, item.inode)),
            None => return Ok((found, false)),
        }
    }
    Ok((found, true))
}
