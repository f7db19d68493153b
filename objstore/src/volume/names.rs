//! Directory operations: lookup, create, link, remove, rename.

use objstore_files::TARGET_BYTES_MAX;

use super::session::{Volume, attr, inode_kind};
use super::types::{Attr, Make, Ownership, Rename};
use crate::error::{Error, Posix, Result};
use crate::name::{NAME_BYTES_MAX, mountable};
use crate::record::inode::{Content, Inode, InodeKind};
use crate::tree::Tx;

impl Volume {
    /// Looks up a name and takes a reference on its inode: it stays readable, though unlinked or replaced, until
    /// `forget`.
    pub fn lookup(&self, parent: u64, name: &str) -> Result<Attr> {
        check_name(name)?;
        let mut gone = 0;
        loop {
            let found = self.reading(|tree| {
                tree.directory(parent)?;
                tree.entry(parent, name)
            })?;
            let ino = found.ok_or(Posix::NotFound)?.dirent.ino;
            // Between look-up and reference the inode may have been replaced and collected: then look again. Inode
            // numbers are never reused, so the same number again means damage.
            match self.pin_inode(ino) {
                Ok(inode) => {
                    self.learn_name(ino, &inode, parent, name);
                    return Ok(attr(ino, &inode));
                }
                Err(Error::Posix(Posix::Stale)) if ino != gone => gone = ino,
                Err(Error::Posix(Posix::Stale)) => {
                    return Err(Error::corrupt(format!("inode {ino}"), "a record, since a name leads to it", "none"));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Records in a file with several names the one it was found under, if the recorded one is gone: its versions
    /// belong to that key. If this fails, the file can still be read, and a writer gets the error.
    pub(super) fn learn_name(&self, ino: u64, inode: &Inode, parent: u64, name: &str) {
        let known = inode.parent == parent && inode.name == name;
        if known || inode.kind() != InodeKind::File || self.0.read_only {
            return;
        }
        let learn = || {
            if !self.keeps_versions()? || self.reading(|tree| tree.knows_its_key(ino, inode))? {
                return Ok(());
            }
            let name = name.to_owned();
            self.change(move |tx| tx.learn_name(ino, parent, &name))
        };
        if let Err(error) = learn() {
            tracing::debug!(ino, %error, "cannot record the name under which a file was found");
        }
    }

    /// The parent of a directory; the root is its own parent.
    pub fn parent(&self, ino: u64) -> Result<u64> {
        if ino == self.root() {
            return Ok(ino);
        }
        self.reading(|tree| Ok(tree.directory(ino)?.parent))
    }

    /// Creates an inode with one reference.
    pub fn make(&self, parent: u64, name: &str, what: Make, who: Ownership) -> Result<Attr> {
        self.make_and(parent, name, what, who, |_, _, _| {})
    }

    /// Creates a file with one reference, and opens it for writing: [`Volume::close_writer`] has to follow. In a bucket
    /// with versioning, everything written until then belongs to the version as which it was created.
    pub fn create(&self, parent: u64, name: &str, who: Ownership) -> Result<Attr> {
        let made = self.make_and(parent, name, Make::File, who, Self::open_made)?;
        self.count_writer(made.ino);
        Ok(made)
    }

    fn make_and(
        &self,
        parent: u64,
        name: &str,
        what: Make,
        who: Ownership,
        then: impl FnOnce(&mut Tx<'_>, u64, &Inode) + Send + 'static,
    ) -> Result<Attr> {
        check_name(name)?;
        let name = name.to_owned();
        let pinning = self.clone();
        let make = move |tx: &mut Tx<'_>| {
            let mut inode = new_inode(what, who, tx.now)?;
            inode.descend_from(&tx.tree().directory(parent)?, who.umask)?;
            tx.make(parent, &name, inode)
        };
        let (ino, inode) = self.once_and(make, move |tx, (ino, inode)| {
            pinning.hold(*ino);
            then(tx, *ino, inode);
        })?;
        Ok(attr(ino, &inode))
    }

    /// Adds a name to anything but a directory, and takes one more reference.
    pub fn link(&self, ino: u64, parent: u64, name: &str) -> Result<Attr> {
        check_name(name)?;
        let name = name.to_owned();
        self.once(move |tx| Ok((ino, tx.link(ino, parent, &name)?)))?;
        self.hold(ino);
        self.attr(ino)
    }

    /// Removes a name that is not a directory.
    pub fn unlink(&self, parent: u64, name: &str) -> Result<()> {
        check_name(name)?;
        let name = name.to_owned();
        self.once(move |tx| tx.unlink(parent, &name))?;
        self.0.core.wait_for_writes(self.0.bucket);
        Ok(())
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, parent: u64, name: &str) -> Result<()> {
        check_name(name)?;
        let name = name.to_owned();
        self.once(move |tx| tx.remove_directory(parent, &name))
    }

    /// Renames.
    pub fn rename(&self, rename: Rename) -> Result<()> {
        check_name(&rename.from_name)?;
        check_name(&rename.to_name)?;
        self.once(move |tx| tx.rename(&rename))?;
        self.0.core.wait_for_writes(self.0.bucket);
        Ok(())
    }

    /// The target of a symbolic link.
    pub fn read_link(&self, ino: u64) -> Result<String> {
        let (_, inode) = self.reading(|tree| tree.dirty_inode(ino))?;
        match (inode.kind(), inode.content) {
            (InodeKind::Symlink, Some(Content::Inline(target))) => String::from_utf8(target.into())
                .map_err(|_| Error::corrupt(format!("symlink {ino}"), "UTF-8", "other bytes")),
            _ => Err(Posix::Invalid.into()),
        }
    }
}

pub(super) fn new_inode(what: Make, who: Ownership, now: crate::clock::Timestamp) -> Result<Inode> {
    let kind = match &what {
        Make::File => InodeKind::File,
        Make::Directory => InodeKind::Directory,
        Make::Symlink(_) => InodeKind::Symlink,
        Make::Special(kind, _) => inode_kind(*kind),
    };
    let mut inode = Inode::new(kind, now);
    (inode.uid, inode.gid, inode.mode) = (who.uid, who.gid, who.mode & 0o7777);
    match what {
        Make::Symlink(target) if target.is_empty() => return Err(Posix::NotFound.into()),
        Make::Symlink(target) if target.len() > TARGET_BYTES_MAX => return Err(Posix::NameTooLong.into()),
        Make::Symlink(target) => {
            inode.size = target.len() as u64;
            inode.content = Some(Content::Inline(target.into_bytes().into()));
        }
        Make::Special(_, device) => inode.rdev = device,
        Make::File | Make::Directory => {}
    }
    Ok(inode)
}

/// Refuses a name that no directory entry can have.
fn check_name(name: &str) -> Result<()> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Posix::NameTooLong.into());
    }
    if mountable(name) && !name.contains(['/', '\0']) { Ok(()) } else { Err(Posix::Invalid.into()) }
}
