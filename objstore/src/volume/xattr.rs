//! Extended attributes: they lie in the inode's record.

use bytes::Bytes;

use super::session::Volume;
use super::types::XattrMode;
use crate::error::{Posix, Result};

/// The longest value (XATTR_SIZE_MAX), and the most bytes of names and values together.
const BYTES_MAX: usize = 64 << 10;
const TOTAL_BYTES_MAX: usize = 512 << 10;

impl Volume {
    /// An extended attribute; ENODATA if absent.
    pub fn xattr(&self, ino: u64, name: &str) -> Result<Bytes> {
        let (_, mut inode) = self.reading(|tree| tree.live_inode(ino))?;
        inode.xattrs.remove(name).map(Bytes::from).ok_or_else(|| Posix::NoData.into())
    }

    /// All names of extended attributes.
    pub fn xattrs(&self, ino: u64) -> Result<Vec<String>> {
        let (_, inode) = self.reading(|tree| tree.live_inode(ino))?;
        Ok(inode.xattrs.into_keys().collect())
    }

    /// Sets one.
    pub fn set_xattr(&self, ino: u64, name: &str, value: &[u8], mode: XattrMode) -> Result<()> {
        if value.len() > BYTES_MAX {
            return Err(Posix::NoSpace.into());
        }
        let (name, value) = (name.to_owned(), value.to_vec());
        self.change(move |tx| {
            let mut inode = tx.own(ino)?;
            match (mode, inode.xattrs.contains_key(&name)) {
                (XattrMode::Create, true) => return Err(Posix::Exists.into()),
                (XattrMode::Replace, false) => return Err(Posix::NoData.into()),
                _ => {}
            }
            inode.xattrs.insert(name, value);
            let total: usize = inode.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
            if total > TOTAL_BYTES_MAX {
                return Err(Posix::NoSpace.into());
            }
            inode.ctime = tx.now.0;
            tx.save(ino, &inode);
            tx.tell(super::Change::Attributes { ino });
            Ok(())
        })
    }

    /// Removes one; ENODATA if absent.
    pub fn remove_xattr(&self, ino: u64, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.change(move |tx| {
            let mut inode = tx.own(ino)?;
            if inode.xattrs.remove(&name).is_none() {
                return Err(Posix::NoData.into());
            }
            inode.ctime = tx.now.0;
            tx.save(ino, &inode);
            tx.tell(super::Change::Attributes { ino });
            Ok(())
        })
    }
}
