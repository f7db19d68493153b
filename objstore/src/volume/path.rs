//! The path of an inode, for people.

use super::session::Volume;
use super::types::ROOT_INO;
use crate::error::Result;

impl Volume {
    /// A path of an inode from the bucket's root, without a leading slash; `None` if it has no name, or the path is too
    /// long.
    pub fn path(&self, ino: u64) -> Result<Option<String>> {
        if ino == ROOT_INO {
            return Ok(Some(String::new()));
        }
        self.reading(|tree| {
            let (_, inode) = tree.dirty_inode(ino)?;
            if inode.nlink == 0 {
                return Ok(None);
            }
            Ok(tree.key_of(inode.parent, &inode.name)?.map(|key| key.to_string()))
        })
    }
}
