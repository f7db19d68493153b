//! Adding and removing names, with the effects on directory and inode.

use crate::clock::Timestamp;
use crate::error::{Posix, Result};
use crate::feed::Change;
use crate::record::acl::DEFAULT;
use crate::record::inode::{Dirent, Inode, InodeKind};
use crate::record::key;

use super::flags::Touching;
use super::length::reach_to;
use super::read::Found;
use super::tx::Tx;
use super::{dir_name, shown_name};

use prost::Message;

/// The handle that removes a name, which decides about an emptied implicit directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// S3 removes it.
    S3,
    /// A mount turns it into an explicit one.
    Mount,
}

impl Tx<'_> {
    /// Adds a name to a directory.
    pub fn add_name(&mut self, parent: u64, sort_name: &str, dirent: Dirent) -> Result<()> {
        self.add_name_as(parent, sort_name, dirent, dirent.encode_to_vec())
    }

    /// Adds a name to a directory, with an encoded record of `dirent`.
    pub(super) fn add_name_as(&mut self, parent: u64, sort_name: &str, dirent: Dirent, value: Vec<u8>) -> Result<()> {
        let is_key = self.leads_to_a_key(dirent)?;
        let reach = self.reach_of(sort_name, dirent)?;
        self.put_dirent(parent, sort_name, value);
        self.count_keys(parent, sort_name, dirent, 1)?;
        self.edit_directory(parent, Touching::Adds, |dir| {
            reach_to(dir, reach);
            count(dir, dirent, is_key, true);
        })
    }

    /// Makes a name lead to another inode, of a kind with the same sort name.
    pub fn switch_name(&mut self, at: &Found, dirent: Dirent) -> Result<()> {
        self.switch_name_as(at, dirent, dirent.encode_to_vec())
    }

    /// Makes a name lead to another inode, with an encoded record of `dirent`.
    pub(super) fn switch_name_as(&mut self, at: &Found, dirent: Dirent, value: Vec<u8>) -> Result<()> {
        let (was_key, is_key) = (self.leads_to_a_key(at.dirent)?, self.leads_to_a_key(dirent)?);
        self.ancestry.shadow(self.txn, &key::dirent(self.ancestry.clone_group, at.parent, &at.sort_name))?;
        self.put_dirent(at.parent, &at.sort_name, value);
        self.count_keys(at.parent, &at.sort_name, at.dirent, -1)?;
        self.count_keys(at.parent, &at.sort_name, dirent, 1)?;
        let reach = self.reach_of(&at.sort_name, dirent)?;
        self.edit_directory(at.parent, Touching::Changes, |dir| {
            reach_to(dir, reach);
            count(dir, at.dirent, was_key, false);
            count(dir, dirent, is_key, true);
        })
    }

    /// Removes a name from a directory; the inode it led to is not changed.
    pub fn remove_name(&mut self, found: &Found, actor: Actor) -> Result<()> {
        self.take_name(found)?;
        self.settle_directory(found.parent, actor)
    }

    /// Removes a name and updates the directory's counts; the caller may have to handle an emptied directory.
    fn take_name(&mut self, found: &Found) -> Result<()> {
        let was_key = self.leads_to_a_key(found.dirent)?;
        self.count_keys(found.parent, &found.sort_name, found.dirent, -1)?;
        let base = key::dirent(self.ancestry.clone_group, found.parent, &found.sort_name);
        self.ancestry.remove(self.txn, &base)?;
        self.tell_name(found.parent, &found.sort_name);
        self.edit_directory(found.parent, Touching::Changes, |dir| {
            count(dir, found.dirent, was_key, false);
            if dir.entries == 0 {
                dir.reach = 0;
            }
        })
    }

    fn put_dirent(&mut self, parent: u64, sort_name: &str, value: Vec<u8>) {
        let base = key::dirent(self.ancestry.clone_group, parent, sort_name);
        self.ancestry.put(self.txn, &base, value);
        self.tell_name(parent, sort_name);
    }

    fn tell_name(&mut self, parent: u64, sort_name: &str) {
        self.tell(Change::Entry { parent, name: shown_name(sort_name).to_owned() });
    }

    fn edit_directory(&mut self, ino: u64, what: Touching, edit: impl FnOnce(&mut Inode)) -> Result<()> {
        let mut dir = self.own(ino)?;
        dir.refuse_fixed(what)?;
        let (led, reach) = (dir.leads_to_a_key(), dir.reach);
        edit(&mut dir);
        dir.touch_content(self.now);
        self.save(ino, &dir);
        self.tell(Change::Attributes { ino });
        if dir.reach > reach {
            self.reach_above(ino, &dir)?;
        }
        self.recount_above(dir, led)
    }

    /// Whether S3 sees a name: a file, or a directory that is a key or contains one at any depth.
    fn leads_to_a_key(&self, dirent: Dirent) -> Result<bool> {
        match dirent.kind() {
            InodeKind::File => Ok(true),
            InodeKind::Directory => Ok(self.tree().linked_inode(dirent.ino)?.1.leads_to_a_key()),
            _ => Ok(false),
        }
    }

    /// Updates the counts of the directories above `dir` if a change altered whether it leads to a key; `led` says
    /// whether it did before.
    pub(super) fn recount_above(&mut self, mut dir: Inode, mut led: bool) -> Result<()> {
        while dir.leads_to_a_key() != led && dir.nlink > 0 {
            let mut above = self.own(dir.parent)?;
            let led_above = above.leads_to_a_key();
            above.keys = step(above.keys, !led);
            self.save(dir.parent, &above);
            (dir, led) = (above, led_above);
        }
        Ok(())
    }

    /// Maintains the rule that an implicit directory has at least one name. S3 removes an empty one, and then those
    /// above that become empty: in a loop, since a key may have 500 levels.
    pub fn settle_directory(&mut self, mut ino: u64, actor: Actor) -> Result<()> {
        loop {
            let mut dir = self.own(ino)?;
            if !dir.implicit || dir.entries > 0 {
                return Ok(());
            }
            let is_kept = actor == Actor::Mount || dir.is_fixed() || self.tree().directory(dir.parent)?.is_fixed();
            if is_kept {
                let led = dir.leads_to_a_key();
                dir.implicit = false;
                self.save(ino, &dir);
                self.count_marker(&dir, 1)?;
                return self.recount_above(dir, led);
            }
            self.prune(ino, &dir)?;
            ino = dir.parent;
        }
    }

    /// Removes an empty implicit directory.
    fn prune(&mut self, ino: u64, dir: &Inode) -> Result<()> {
        let dirent = Dirent::new(ino, InodeKind::Directory);
        self.take_name(&Found { parent: dir.parent, sort_name: dir_name(&dir.name), dirent })?;
        self.end_inode(ino)
    }

    /// Removes one link of an inode; the last one ends it.
    pub fn unlink_inode(&mut self, ino: u64) -> Result<()> {
        let mut inode = self.own(ino)?;
        inode.refuse_fixed(Touching::Changes)?;
        inode.nlink = inode.nlink.saturating_sub(1);
        inode.ctime = self.now.0;
        let ends = inode.nlink == 0 || inode.is_dir();
        if ends {
            inode.nlink = 0;
        }
        self.save(ino, &inode);
        self.tell(Change::Attributes { ino });
        if ends { self.end_inode(ino) } else { Ok(()) }
    }

    /// Deletes an inode without a name; while it is referenced, it stays as an orphan.
    fn end_inode(&mut self, ino: u64) -> Result<()> {
        if let Some(ending) = self.core.inode_refs.keep_or_end(self.bucket.id, ino) {
            self.txn.after_commit(Box::new(move || drop(ending)));
            return self.destroy(ino);
        }
        let mut inode = self.own(ino)?;
        self.count_ending(ino, &inode);
        inode.nlink = 0;
        self.save(ino, &inode);
        self.ancestry.put(self.txn, &key::orphan(self.ancestry.clone_group, ino), vec![1]);
        if self.core.inode_refs.is_suspected(self.bucket.id, ino) {
            let (core, bucket) = (self.core.clone(), self.bucket.id);
            self.txn.after_commit(Box::new(move || core.feeds.publish(bucket, 0, &[Change::Probe { ino }])));
        }
        Ok(())
    }

    /// Marks an inode created without a name as an orphan; its creator takes a reference.
    pub fn keep_orphan(&mut self, ino: u64) {
        self.core.inode_refs.orphan(self.bucket.id, ino);
        self.ancestry.put(self.txn, &key::orphan(self.ancestry.clone_group, ino), vec![1]);
    }

    /// Removes the orphan mark of an inode that gets its first name.
    pub fn adopt_orphan(&mut self, ino: u64) -> Result<()> {
        self.ancestry.remove(self.txn, &key::orphan(self.ancestry.clone_group, ino))
    }

    /// Deletes an unreferenced orphan.
    pub fn collect_orphan(&mut self, ino: u64) -> Result<()> {
        let mark = key::orphan(self.ancestry.clone_group, ino);
        if self.ancestry.get(&*self.txn, &mark)?.is_none() {
            return Ok(());
        }
        self.ancestry.remove(self.txn, &mark)?;
        self.destroy(ino)
    }

    /// Deletes the orphans that no mount of this bucket can hold: those that a crash left, or that a clone inherited.
    pub fn collect_orphans(&mut self) -> Result<()> {
        let marks = key::orphans(self.ancestry.clone_group);
        let end = key::after_prefix(&marks);
        let mut from = marks;
        loop {
            let seen = self.ancestry.scan(&*self.txn, &from, &end, 256)?;
            let Some(last) = seen.last() else { return Ok(()) };
            from = key::after_prefix(&last.base);
            for mark in &seen {
                let ino = key::u64_at(&mark.base, 9);
                if let Some(ino) = ino.filter(|ino| !self.core.inode_refs.keep_if_held(self.bucket.id, *ino)) {
                    self.collect_orphan(ino)?;
                }
            }
        }
    }

    /// Creates missing directories of `components` as implicit ones; returns the last one's inode.
    pub fn ensure_directories(&mut self, components: &[&str]) -> Result<u64> {
        let mut at = objstore_files::ROOT_INO;
        for component in components {
            at = match self.tree().dirent(at, &dir_name(component))? {
                Some(dirent) => dirent.ino,
                None => self.make_implicit(at, component)?,
            };
        }
        Ok(at)
    }

    fn make_implicit(&mut self, parent: u64, name: &str) -> Result<u64> {
        let above = self.tree().directory(parent)?;
        let mut dir = Inode::new(InodeKind::Directory, self.now);
        (dir.implicit, dir.parent, dir.name) = (true, parent, name.to_owned());
        dir.resemble(&above);
        let ino = self.new_ino()?;
        self.add_inode(ino, &dir);
        self.add_name(parent, &dir_name(name), Dirent::new(ino, InodeKind::Directory))?;
        Ok(ino)
    }

    /// Adds a new inode under a name that has to be free for a mount.
    pub fn make(&mut self, parent: u64, name: &str, mut inode: Inode) -> Result<(u64, Inode)> {
        let above = self.tree().directory(parent)?;
        if above.nlink == 0 {
            return Err(Posix::NotFound.into());
        }
        inode.inherit_flags(&above);
        if self.tree().entry(parent, name)?.is_some() {
            return Err(Posix::Exists.into());
        }
        let sort_name = if inode.is_dir() { dir_name(name) } else { name.to_owned() };
        self.check_length(parent, &sort_name)?;
        let ino = self.new_ino()?;
        self.arrive(parent, name, &mut inode)?;
        self.add_inode(ino, &inode);
        self.add_name(parent, &sort_name, Dirent::new(ino, inode.kind()))?;
        Ok((ino, inode))
    }
}

fn step(count: u64, up: bool) -> u64 {
    if up { count + 1 } else { count.saturating_sub(1) }
}

/// Adds a name to or removes it from a directory's counts; `is_key` if S3 sees it.
fn count(dir: &mut Inode, dirent: Dirent, is_key: bool, added: bool) {
    dir.entries = step(dir.entries, added);
    if is_key {
        dir.keys = step(dir.keys, added);
    }
    if dirent.kind() == InodeKind::Directory {
        dir.nlink = if added { dir.nlink + 1 } else { dir.nlink.saturating_sub(1).max(2) };
    }
}

/// An inode that S3 creates in a directory: with the directory's owner and group, and its default ACL or else its mode
/// without execute.
pub(super) fn object_inode(dir: &Inode, now: Timestamp) -> Result<Inode> {
    let mut inode = Inode::new(InodeKind::File, now);
    (inode.uid, inode.gid, inode.mode) = (dir.uid, dir.gid, 0o666);
    inode.inherit_flags(dir);
    if dir.acl(DEFAULT)?.is_some() {
        inode.descend_from(dir, 0)?;
    } else {
        inode.mode = dir.mode_for_objects()?;
    }
    Ok(inode)
}
