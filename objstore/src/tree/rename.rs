//! Renames, in all modes of renameat2(2). A directory moves with one name: what lies in it is not touched.

use crate::error::{Posix, Result};
use crate::record::inode::InodeKind;
use crate::volume::{Change, Rename, RenameMode};

use super::edit::Actor;
use super::read::Found;
use super::tx::Tx;
use super::{dir_name, shown_name};

impl Tx<'_> {
    /// Moves a name.
    pub fn rename(&mut self, rename: &Rename) -> Result<()> {
        let source = self.tree().entry(rename.from_parent, &rename.from_name)?.ok_or(Posix::NotFound)?;
        if self.tree().directory(rename.to_parent)?.nlink == 0 {
            return Err(Posix::NotFound.into());
        }
        let target = self.tree().entry(rename.to_parent, &rename.to_name)?;
        match (rename.mode, target) {
            (RenameMode::NoReplace, Some(_)) => Err(Posix::Exists.into()),
            (RenameMode::Exchange, None) => Err(Posix::NotFound.into()),
            (_, Some(target)) if target.dirent.ino == source.dirent.ino => Ok(()),
            (RenameMode::Exchange, Some(target)) => self.exchange(&source, &target),
            (_, target) => self.replace(&source, target.as_ref(), rename),
        }
    }

    fn replace(&mut self, source: &Found, target: Option<&Found>, rename: &Rename) -> Result<()> {
        self.refuse_loop(source, rename.to_parent)?;
        match target {
            Some(target) => {
                self.check_replaceable(source, target)?;
                // One step: a directory that holds only the target must not count as emptied on the way.
                self.switch_name(target, source.dirent)?;
                self.unlink_inode(target.dirent.ino)?;
                self.moved(source, rename.to_parent, &rename.to_name)?;
                self.settle_directory(rename.to_parent, Actor::Mount)?;
            }
            None => self.enter(source, rename.to_parent, &rename.to_name)?,
        }
        self.remove_name(source, Actor::Mount)
    }

    fn check_replaceable(&self, source: &Found, target: &Found) -> Result<()> {
        let directory = |found: &Found| found.dirent.kind() == InodeKind::Directory;
        match (directory(source), directory(target)) {
            (true, false) => Err(Posix::NotDirectory.into()),
            (false, true) => Err(Posix::IsDirectory.into()),
            (true, true) if self.tree().directory(target.dirent.ino)?.entries > 0 => Err(Posix::NotEmpty.into()),
            _ => Ok(()),
        }
    }

    /// Swaps what two names lead to. A sort name tells a directory, so names of different kinds are made anew.
    fn exchange(&mut self, source: &Found, target: &Found) -> Result<()> {
        self.refuse_loop(source, target.parent)?;
        self.refuse_loop(target, source.parent)?;
        if source.sort_name.ends_with('/') == target.sort_name.ends_with('/') {
            self.switch_name(source, target.dirent)?;
            self.switch_name(target, source.dirent)?;
            self.moved(source, target.parent, shown_name(&target.sort_name))?;
            self.moved(target, source.parent, shown_name(&source.sort_name))?;
            self.settle_directory(source.parent, Actor::Mount)?;
            return self.settle_directory(target.parent, Actor::Mount);
        }
        let (file, directory) = if source.sort_name.ends_with('/') { (target, source) } else { (source, target) };
        // A key beside the directory, which the mount cannot see, would be lost.
        if self.tree().dirent(directory.parent, shown_name(&directory.sort_name))?.is_some() {
            return Err(Posix::Exists.into());
        }
        self.enter(directory, file.parent, &file.sort_name)?;
        self.enter(file, directory.parent, shown_name(&directory.sort_name))?;
        self.remove_name(directory, Actor::Mount)?;
        self.remove_name(file, Actor::Mount)
    }

    /// Gives what `source` leads to the name `name` in `parent`, beside the old one.
    fn enter(&mut self, source: &Found, parent: u64, name: &str) -> Result<()> {
        let sort_name = if source.sort_name.ends_with('/') { dir_name(name) } else { name.to_owned() };
        self.add_name(parent, &sort_name, source.dirent)?;
        self.moved(source, parent, name)
    }

    fn moved(&mut self, source: &Found, parent: u64, name: &str) -> Result<()> {
        let ino = source.dirent.ino;
        let mut inode = self.own(ino)?;
        if inode.is_dir() {
            (inode.parent, inode.name) = (parent, name.to_owned());
        }
        inode.ctime = self.now.0;
        self.save(ino, &inode);
        self.tell(Change::Attributes { ino });
        Ok(())
    }

    /// A directory must not move into itself.
    fn refuse_loop(&self, source: &Found, parent: u64) -> Result<()> {
        let directory = source.dirent.kind() == InodeKind::Directory;
        if directory && self.tree().is_within(parent, source.dirent.ino)? {
            return Err(Posix::Invalid.into());
        }
        Ok(())
    }
}
