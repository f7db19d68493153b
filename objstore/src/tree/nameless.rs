//! Files created without a name (open(2), O_TMPFILE), which may get one later.
//!
//! - Such a file is an orphan from the start: it counts against the quota, S3 does not see it, and when it is no longer
//!   referenced, or the server dies, it is collected like an unlinked file.
//! - Its mark distinguishes it from a file that lost its names: only a file that never had a name may be linked
//!   (linkat(2)).
//! - In a bucket with versioning the name makes it the current version of its key, as a rename would.

use super::flags::Touching;
use super::tx::Tx;
use crate::error::{Posix, Result};
use crate::record::inode::{Dirent, Inode};
use crate::record::key;

/// The mark of an orphan that may be linked; with any other mark it may not.
const LINKABLE: u8 = 2;

impl Tx<'_> {
    /// Adds an inode without a name, with the attributes of one created in a directory. The caller takes a reference
    /// before the change commits.
    pub fn make_nameless(&mut self, parent: u64, mut inode: Inode, linkable: bool) -> Result<(u64, Inode)> {
        let above = self.tree().directory(parent)?;
        if above.nlink == 0 {
            return Err(Posix::NotFound.into());
        }
        above.refuse_fixed(Touching::Adds)?;
        inode.inherit_flags(&above);
        inode.nlink = 0;
        let ino = self.new_ino()?;
        self.add_inode(ino, &inode);
        self.keep_orphan(ino);
        if linkable {
            self.ancestry.put(self.txn, &key::orphan(self.ancestry.clone_group, ino), vec![LINKABLE]);
        }
        Ok((ino, inode))
    }

    /// Whether an inode never had a name and may be linked.
    pub(super) fn is_linkable(&self, ino: u64) -> Result<bool> {
        let mark = self.ancestry.get(&*self.txn, &key::orphan(self.ancestry.clone_group, ino))?;
        Ok(mark.is_some_and(|(_, mark)| mark[..] == [LINKABLE]))
    }

    /// Gives an inode without a name its first one, which has to be free.
    pub(super) fn name_first(&mut self, ino: u64, mut inode: Inode, parent: u64, name: &str) -> Result<Inode> {
        self.adopt_orphan(ino)?;
        inode.nlink = 1;
        inode.ctime = self.now.0;
        self.arrive(parent, name, &mut inode)?;
        self.save(ino, &inode);
        self.add_name(parent, name, Dirent::new(ino, inode.kind()))?;
        self.go_on(ino, &inode);
        Ok(inode)
    }
}
