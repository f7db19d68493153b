//! Writing objects into the tree for S3.

use crate::error::Result;
use crate::feed::Change;
use crate::name::Key;
use crate::record::inode::{Content, Dirent, Inode, InodeKind, Object};
use crate::record::listed::{ListedDirent, ListingEntry};

use super::dir_name;
use super::edit::{Actor, object_inode};
use super::flags::Touching;
use super::read::Found;
use super::tx::Tx;

use prost::Message;

impl Tx<'_> {
    /// Puts content under a key and returns the inode. The previous inode is deleted unless it has other names or
    /// references.
    ///
    /// `content` was adopted by this transaction.
    pub fn put_object(
        &mut self,
        key: &Key,
        ino: u64,
        content: Option<Content>,
        size: u64,
        object: Object,
    ) -> Result<Inode> {
        let (dirs, last) = key.split();
        match last {
            Some(name) => self.put_file(key, (&dirs, name), ino, content, size, object),
            None => self.put_marker(&dirs, ino, content, size, object),
        }
    }

    fn put_file(
        &mut self,
        key: &Key,
        (dirs, name): (&[&str], &str),
        ino: u64,
        content: Option<Content>,
        size: u64,
        mut object: Object,
    ) -> Result<Inode> {
        let parent = self.ensure_directories(dirs)?;
        let old = self.tree().dirent(parent, name)?;
        let mut inode = object_inode(&self.tree().directory(parent)?, self.now)?;
        if let Some(dirent) = old.filter(Dirent::is_key) {
            let (_, before) = self.tree().linked_inode(dirent.ino)?;
            inode.succeed(&before);
        }
        if let Some(old) = old {
            self.retire(key, old)?;
        }
        self.replace_null(key)?;
        object.version = self.version_for(key)?;
        if object.etag.is_empty() {
            // A copy of a file that was never written is an object, and a version, like any other.
            inode.generation = inode.generation.max(1);
        }
        (inode.content, inode.size, inode.object) = (content, size, Some(object));
        (inode.parent, inode.name, inode.shown) = (parent, name.to_owned(), true);
        self.add_inode(ino, &inode);
        let dirent = Dirent::new(ino, InodeKind::File);
        let value = ListedDirent::new(dirent, ListingEntry::of(ino, &inode)).encode_to_vec();
        match old {
            Some(old) => {
                let found = Found { parent, sort_name: name.to_owned(), dirent: old };
                self.switch_name_as(&found, dirent, value)?;
            }
            None => self.add_name_as(parent, name, dirent, value)?,
        }
        Ok(inode)
    }

    /// Puts a key that ends in `/`: the directory itself.
    fn put_marker(
        &mut self,
        dirs: &[&str],
        made: u64,
        content: Option<Content>,
        size: u64,
        object: Object,
    ) -> Result<Inode> {
        let ino = self.ensure_directories(dirs)?;
        let mut dir = self.own(ino)?;
        dir.refuse_fixed(Touching::Changes)?;
        let led = dir.leads_to_a_key();
        if dir.implicit {
            self.count_marker(&dir, 1)?;
        }
        dir.implicit = false;
        self.replace_content(ino, &mut dir, content, size)?;
        self.move_extents(made, ino)?;
        self.drop_parts(ino, &dir)?;
        if object.part_table {
            self.move_parts(made, ino)?;
        }
        dir.object = Some(object);
        dir.generation += 1;
        dir.touch_content(self.now);
        self.save(ino, &dir);
        self.tell(Change::Attributes { ino });
        self.recount_above(dir.clone(), led)?;
        Ok(dir)
    }

    /// Removes the object under a key. Returns whether there was one.
    pub fn delete_object(&mut self, key: &Key) -> Result<bool> {
        let Some(found) = self.tree().find(key)? else { return Ok(false) };
        if found.dirent.kind() == InodeKind::Directory {
            return self.delete_marker(&found);
        }
        self.remove_name(&found, Actor::S3)?;
        self.unlink_inode(found.dirent.ino)?;
        Ok(true)
    }

    /// An explicit directory with names in it becomes implicit, even if only mounts see them; an empty one is removed.
    fn delete_marker(&mut self, found: &Found) -> Result<bool> {
        let ino = found.dirent.ino;
        let (_, dir) = self.tree().linked_inode(ino)?;
        if dir.implicit {
            return Ok(false);
        }
        if dir.entries == 0 {
            self.remove_name(found, Actor::S3)?;
            self.unlink_inode(ino)?;
            return Ok(true);
        }
        let mut dir = self.own(ino)?;
        dir.refuse_fixed(Touching::Changes)?;
        let led = dir.leads_to_a_key();
        self.drop_parts(ino, &dir)?;
        self.count_marker(&dir, -1)?;
        dir.implicit = true;
        dir.object = None;
        self.replace_content(ino, &mut dir, None, 0)?;
        self.save(ino, &dir);
        self.recount_above(dir, led)?;
        Ok(true)
    }
}

/// The directories of a key and its sort name, for records keyed beside the dirent.
pub(crate) fn place(key: &Key) -> (Vec<&str>, String) {
    let (mut dirs, last) = key.split();
    match last {
        Some(name) => (dirs, name.to_owned()),
        None => {
            let name = dirs.pop().unwrap_or_default();
            (dirs, dir_name(name))
        }
    }
}
