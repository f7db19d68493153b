//! Adding and removing names through a mount: link, unlink, rmdir.

use crate::error::{Posix, Result};
use crate::feed::Change;
use crate::record::bucket::VersioningState;
use crate::record::inode::{Dirent, Inode, InodeKind};

use super::edit::Actor;
use super::flags::Touching;
use super::tx::Tx;

/// The most names of a file (LINK_MAX of ext4, which programs expect).
const LINKS_MAX: u32 = 65_000;

impl Tx<'_> {
    /// Adds a name to anything but a directory, or the first name of a file created without one.
    pub fn link(&mut self, ino: u64, parent: u64, name: &str) -> Result<Inode> {
        let mut inode = self.own(ino)?;
        if inode.is_dir() {
            return Err(Posix::NotPermitted.into());
        }
        inode.refuse_fixed(Touching::Changes)?;
        let first = inode.nlink == 0 && self.is_linkable(ino)?;
        // Names that share a file could not have separate versions.
        if inode.kind() == InodeKind::File && !first && self.bucket.versioning() != VersioningState::Disabled {
            return Err(Posix::NotPermitted.into());
        }
        if (inode.nlink == 0 && !first) || self.tree().directory(parent)?.nlink == 0 {
            return Err(Posix::NotFound.into());
        }
        if inode.nlink >= LINKS_MAX {
            return Err(Posix::TooManyLinks.into());
        }
        if self.tree().entry(parent, name)?.is_some() {
            return Err(Posix::Exists.into());
        }
        self.check_length(parent, name)?;
        if first {
            return self.name_first(ino, inode, parent, name);
        }
        inode.nlink += 1;
        inode.ctime = self.now.0;
        self.save(ino, &inode);
        self.tell(Change::Attributes { ino });
        self.add_name(parent, name, Dirent::new(ino, inode.kind()))?;
        Ok(inode)
    }

    /// Removes a name that is not a directory.
    pub fn unlink(&mut self, parent: u64, name: &str) -> Result<()> {
        let found = self.tree().entry(parent, name)?.ok_or(Posix::NotFound)?;
        if found.dirent.kind() == InodeKind::Directory {
            return Err(Posix::IsDirectory.into());
        }
        self.check_movable(&found)?;
        self.remove_name(&found, Actor::Mount)?;
        self.leave(parent, name, found.dirent)
    }

    /// Removes an empty directory.
    pub fn remove_directory(&mut self, parent: u64, name: &str) -> Result<()> {
        let found = self.tree().entry(parent, name)?.ok_or(Posix::NotFound)?;
        if found.dirent.kind() != InodeKind::Directory {
            return Err(Posix::NotDirectory.into());
        }
        if self.tree().directory(found.dirent.ino)?.entries > 0 {
            self.note_not_empty(found.dirent.ino);
            return Err(Posix::NotEmpty.into());
        }
        self.remove_name(&found, Actor::Mount)?;
        self.unlink_inode(found.dirent.ino)
    }
}
