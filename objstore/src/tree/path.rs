//! The key of a name in a directory.

use objstore_files::ROOT_INO;

use super::read::Tree;
use crate::error::Result;
use crate::name::{KEY_BYTES_MAX, Key};

impl Tree<'_> {
    /// The key of a file with this name in this directory; `None` if it would be too long.
    pub fn key_of(&self, parent: u64, name: &str) -> Result<Option<Key>> {
        let mut components = vec![name.to_owned()];
        let mut length = name.len();
        let mut at = parent;
        while at != ROOT_INO {
            let dir = self.directory(at)?;
            length += dir.name.len() + 1;
            if length > KEY_BYTES_MAX {
                return Ok(None);
            }
            components.push(dir.name);
            at = dir.parent;
        }
        components.reverse();
        Ok(components.join("/").parse().ok())
    }
}
