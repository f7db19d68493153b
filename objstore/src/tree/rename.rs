//! Renames in all modes of renameat2(2). A directory moves with one name: its content is not touched.
//!
//! In a bucket with versioning, a moved file becomes the current version of its new key, and the file that it replaces
//! a noncurrent one. The files in a moved directory take only their current versions along: older ones stay under their
//! old keys. A version id exists once under a key, so some moves are EXDEV: mv(1) then copies the files, each as a new
//! version. These are moves of
//!
//! - a file that is the version `null` to a key that already has one, or may have one that a bounded search does not
//!   find;
//! - one of several names of a file, from a time before the bucket had versioning: all of them lead to the same
//!   version. Such a name does not move by itself, since the file would become a new version, also `null`, of the
//!   remaining keys, with any versions that those have. Within a directory it does not move to a key that has versions.

use objstore_files::{Ownership, Rename, RenameMode};

use crate::error::{Posix, Result};
use crate::feed::Change;
use crate::record::bucket::VersioningState;
use crate::record::inode::{Inode, InodeKind};
use crate::record::key;

use super::edit::Actor;
use super::flags::Touching;
use super::read::{Found, Tree};
use super::tx::Tx;
use super::versions::order_of;
use super::{dir_name, shown_name};

/// The most versions below a directory's new name that a rename examines.
const LOOKED_MAX: usize = 1024;

impl Tree<'_> {
    /// The file at a path below a directory.
    fn file_below(&self, dir: u64, path: &str) -> Result<Option<Inode>> {
        let mut components: Vec<&str> = path.split('/').collect();
        let name = components.pop().unwrap_or_default();
        let Some(parent) = self.walk_from(dir, &components)? else { return Ok(None) };
        let found = self.dirent(parent, name)?.filter(|dirent| dirent.kind() == InodeKind::File);
        found.map(|dirent| Ok(self.linked_inode(dirent.ino)?.1)).transpose()
    }
}

impl Tx<'_> {
    /// Moves a name.
    pub fn rename(&mut self, rename: &Rename) -> Result<()> {
        let source = self.tree().entry(rename.from_parent, &rename.from_name)?.ok_or(Posix::NotFound)?;
        if self.tree().directory(rename.to_parent)?.nlink == 0 {
            return Err(Posix::NotFound.into());
        }
        let target = self.tree().entry(rename.to_parent, &rename.to_name)?;
        self.check_lock(&source)?;
        target.as_ref().map_or(Ok(()), |target| self.check_lock(target))?;
        match (rename.mode, target) {
            (RenameMode::NoReplace | RenameMode::Whiteout { replace: false, .. }, Some(_)) => Err(Posix::Exists.into()),
            (RenameMode::Exchange, None) => Err(Posix::NotFound.into()),
            (_, Some(target)) if target.dirent.ino == source.dirent.ino => Ok(()),
            (RenameMode::Exchange, Some(target)) => {
                self.check_ids(&source, target.parent, shown_name(&target.sort_name))?;
                self.check_ids(&target, source.parent, shown_name(&source.sort_name))?;
                self.check_moved_length(&source, target.parent, shown_name(&target.sort_name))?;
                self.check_moved_length(&target, source.parent, shown_name(&source.sort_name))?;
                self.exchange(&source, &target)
            }
            (mode, target) => {
                self.check_ids(&source, rename.to_parent, &rename.to_name)?;
                self.check_moved_length(&source, rename.to_parent, &rename.to_name)?;
                self.replace(&source, target.as_ref(), rename)?;
                match mode {
                    RenameMode::Whiteout { owner, .. } => self.white_out(&source, owner),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Leaves a whiteout for an overlay file system (overlayfs) under a name that was moved away.
    fn white_out(&mut self, source: &Found, owner: Ownership) -> Result<()> {
        let mut inode = Inode::new(InodeKind::CharDevice, self.now);
        (inode.uid, inode.gid, inode.mode) = (owner.uid, owner.gid, owner.mode);
        inode.descend_from(&self.tree().directory(source.parent)?, owner.umask)?;
        self.make(source.parent, shown_name(&source.sort_name), inode).map(drop)
    }

    fn replace(&mut self, source: &Found, target: Option<&Found>, rename: &Rename) -> Result<()> {
        self.refuse_loop(source, rename.to_parent)?;
        match target {
            Some(target) => {
                self.check_replaceable(source, target)?;
                // In one step, so that a directory which contains only the target does not count as emptied in between.
                self.switch_name(target, source.dirent)?;
                self.leave(target.parent, &target.sort_name, target.dirent)?;
                self.moved(source, rename.to_parent, &rename.to_name)?;
                self.settle_directory(rename.to_parent, Actor::Mount)?;
            }
            None => self.enter(source, rename.to_parent, &rename.to_name)?,
        }
        self.remove_name(source, Actor::Mount)?;
        self.hide_left(source.parent, &source.sort_name)
    }

    /// Refuses what object lock forbids: a protected file keeps its name. Not all keys below a directory can be
    /// checked, so in a bucket with object lock only an empty directory can be renamed; mv(1) then copies the files one
    /// by one.
    fn check_lock(&self, found: &Found) -> Result<()> {
        let directory = found.dirent.kind() == InodeKind::Directory;
        if directory
            && self.core.settings.of(&*self.txn, &self.bucket)?.object_lock.is_some()
            && self.tree().directory(found.dirent.ino)?.entries > 0
        {
            return Err(Posix::CrossDevice.into());
        }
        self.check_movable(found)
    }

    /// Refuses a move after which a key could have two versions with one id.
    fn check_ids(&self, source: &Found, parent: u64, name: &str) -> Result<()> {
        if self.bucket.versioning() == VersioningState::Disabled {
            return Ok(());
        }
        let clash = match source.dirent.kind() {
            InodeKind::File => self.tree().linked_inode(source.dirent.ino)?.1.nlink > 1,
            InodeKind::Directory => self.may_clash_below(source.dirent.ino, parent, name)?,
            _ => false,
        };
        if clash { Err(Posix::CrossDevice.into()) } else { Ok(()) }
    }

    fn may_clash_below(&self, dir: u64, parent: u64, name: &str) -> Result<bool> {
        let tree = self.tree();
        if tree.directory(dir)?.entries == 0 {
            return Ok(false);
        }
        let Some(to) = tree.key_of(parent, &dir_name(name))? else { return Ok(false) };
        let from = key::versions_below(self.ancestry.clone_group, to.as_str());
        let versions = tree.versions(&from, &key::after_prefix(&from), LOOKED_MAX)?;
        if versions.len() == LOOKED_MAX {
            return Ok(true);
        }
        for of_key in versions.chunk_by(|one, next| one.key == next.key) {
            let Some(file) = tree.file_below(dir, &of_key[0].key[to.as_str().len()..])? else { continue };
            let null = order_of(&file) == 0 && of_key.iter().any(|version| version.version.null);
            if null || file.nlink > 1 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check_replaceable(&self, source: &Found, target: &Found) -> Result<()> {
        let directory = |found: &Found| found.dirent.kind() == InodeKind::Directory;
        match (directory(source), directory(target)) {
            (true, false) => Err(Posix::NotDirectory.into()),
            (false, true) => Err(Posix::IsDirectory.into()),
            (true, true) if self.tree().directory(target.dirent.ino)?.entries > 0 => {
                self.note_not_empty(target.dirent.ino);
                Err(Posix::NotEmpty.into())
            }
            _ => Ok(()),
        }
    }

    /// Swaps the targets of two names. A sort name depends on the kind, so names of different kinds are created again.
    fn exchange(&mut self, source: &Found, target: &Found) -> Result<()> {
        self.refuse_loop(source, target.parent)?;
        self.refuse_loop(target, source.parent)?;
        if source.sort_name.ends_with('/') == target.sort_name.ends_with('/') {
            self.switch_name(source, target.dirent)?;
            self.switch_name(target, source.dirent)?;
            self.moved(source, target.parent, shown_name(&target.sort_name))?;
            self.moved(target, source.parent, shown_name(&source.sort_name))?;
            self.settle_directory(source.parent, Actor::Mount)?;
            self.settle_directory(target.parent, Actor::Mount)?;
            self.hide_left(source.parent, &source.sort_name)?;
            return self.hide_left(target.parent, &target.sort_name);
        }
        let (file, directory) = if source.sort_name.ends_with('/') { (target, source) } else { (source, target) };
        // A key beside the directory, hidden from the mount, would be lost.
        if self.tree().dirent(directory.parent, shown_name(&directory.sort_name))?.is_some() {
            return Err(Posix::Exists.into());
        }
        self.enter(directory, file.parent, &file.sort_name)?;
        self.enter(file, directory.parent, shown_name(&directory.sort_name))?;
        self.remove_name(directory, Actor::Mount)?;
        self.remove_name(file, Actor::Mount)?;
        self.hide_left(file.parent, &file.sort_name)
    }

    /// Adds the name `name` in `parent` for what `source` leads to, beside the old one.
    fn enter(&mut self, source: &Found, parent: u64, name: &str) -> Result<()> {
        let sort_name = if source.sort_name.ends_with('/') { dir_name(name) } else { name.to_owned() };
        self.add_name(parent, &sort_name, source.dirent)?;
        self.moved(source, parent, name)
    }

    fn moved(&mut self, source: &Found, parent: u64, name: &str) -> Result<()> {
        let ino = source.dirent.ino;
        let mut inode = self.own(ino)?;
        inode.refuse_fixed(Touching::Changes)?;
        self.arrive(parent, name, &mut inode)?;
        if inode.is_dir() {
            self.forget_places();
        }
        inode.ctime = self.now.0;
        self.save(ino, &inode);
        self.go_on(ino, &inode);
        self.tell(Change::Attributes { ino });
        Ok(())
    }

    /// Refuses to move a directory into itself.
    fn refuse_loop(&self, source: &Found, parent: u64) -> Result<()> {
        let directory = source.dirent.kind() == InodeKind::Directory;
        if directory && self.tree().is_within(parent, source.dirent.ino)? {
            return Err(Posix::Invalid.into());
        }
        Ok(())
    }
}
