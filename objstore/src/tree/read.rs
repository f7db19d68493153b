//! Reading the tree of one branch.

use std::collections::HashMap;

use objstore_files::ROOT_INO;
use prost::Message;

use crate::branch::{Ancestry, Seen};
use crate::error::{Error, Posix, Result};
use crate::meta::Read;
use crate::name::Key;
use crate::record::inode::{Dirent, Inode, InodeKind};
use crate::record::key::{self, Branch};
use crate::record::{decode, decode_shared};

use super::cursor::after;
use super::dir_name;

/// How many entries of a directory are read for each name that is searched in it, before each is searched by itself.
const READ_PER_NAME: usize = 4;
/// As many are read for a few names.
const READ_AT_LEAST: usize = 64;

/// A branch's tree at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Tree<'a> {
    /// The source of records.
    pub read: &'a dyn Read,
    /// The branch that reads, with its ancestry.
    pub ancestry: &'a Ancestry,
}

/// A name found in a directory.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The directory.
    pub parent: u64,
    /// The sort name.
    pub sort_name: String,
    /// Its directory entry.
    pub dirent: Dirent,
}

impl<'a> Tree<'a> {
    /// The visible inode and the branch that wrote it.
    pub fn inode(&self, ino: u64) -> Result<Option<(Branch, Inode)>> {
        match self.ancestry.get(self.read, &key::inode(self.ancestry.clone_group, ino))? {
            Some((branch, value)) => Ok(Some((branch, decode_shared("an inode", &value)?))),
            None => Ok(None),
        }
    }

    /// The inode with a number that a client holds; ESTALE if it is gone.
    pub fn dirty_inode(&self, ino: u64) -> Result<(Branch, Inode)> {
        self.inode(ino)?.ok_or(Error::Posix(Posix::Stale))
    }

    /// The inode that a directory entry leads to; a missing one is corruption.
    pub fn linked_inode(&self, ino: u64) -> Result<(Branch, Inode)> {
        self.inode(ino)?
            .ok_or_else(|| Error::corrupt(format!("inode {ino}"), "a record, since a name leads to it", "none"))
    }

    /// The directory with this number.
    pub fn directory(&self, ino: u64) -> Result<Inode> {
        let (_, inode) = self.dirty_inode(ino)?;
        if !inode.is_dir() {
            return Err(Posix::NotDirectory.into());
        }
        Ok(inode)
    }

    /// The directory entry of a sort name.
    pub fn dirent(&self, parent: u64, sort_name: &str) -> Result<Option<Dirent>> {
        match self.ancestry.get(self.read, &key::dirent(self.ancestry.clone_group, parent, sort_name))? {
            Some((_, value)) => Ok(Some(decode("a directory entry", &value)?)),
            None => Ok(None),
        }
    }

    /// The entry that a mount finds under a name: the directory before the file.
    pub fn entry(&self, parent: u64, name: &str) -> Result<Option<Found>> {
        for sort_name in [dir_name(name), name.to_owned()] {
            if let Some(dirent) = self.dirent(parent, &sort_name)? {
                return Ok(Some(Found { parent, sort_name, dirent }));
            }
        }
        Ok(None)
    }

    /// The directory reached through `components`; `None` if one is missing.
    pub fn walk(&self, components: &[&str]) -> Result<Option<u64>> {
        self.walk_from(ROOT_INO, components)
    }

    /// The directory reached from another directory through `components`; `None` if one is missing.
    pub fn walk_from(&self, dir: u64, components: &[&str]) -> Result<Option<u64>> {
        let mut at = dir;
        for component in components {
            match self.dirent(at, &dir_name(component))? {
                Some(dirent) => at = dirent.ino,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// The name of an object's key, if S3 sees an object there.
    pub fn find(&self, key: &Key) -> Result<Option<Found>> {
        let (dirs, last) = key.split();
        let (dirs, sort_name) = match (last, dirs.split_last()) {
            (Some(name), _) => (dirs.as_slice(), name.to_owned()),
            (None, Some((name, above))) => (above, dir_name(name)),
            (None, None) => return Ok(None),
        };
        let Some(parent) = self.walk(dirs)? else { return Ok(None) };
        let Some(dirent) = self.dirent(parent, &sort_name)? else { return Ok(None) };
        Ok(dirent.is_key().then_some(Found { parent, sort_name, dirent }))
    }

    /// The object under a key: its inode number and inode. Implicit directories are not objects.
    pub fn object(&self, key: &Key) -> Result<Option<(u64, Inode)>> {
        let Some(found) = self.find(key)? else { return Ok(None) };
        let (_, inode) = self.linked_inode(found.dirent.ino)?;
        Ok((!inode.implicit).then_some((found.dirent.ino, inode)))
    }

    /// Up to `limit` entries of a directory with sort names from `from` on, in order.
    pub fn entries(&self, parent: u64, from: &str, limit: usize) -> Result<Vec<(String, Dirent)>> {
        self.entries_as(parent, from, limit)
    }

    /// Up to `limit` entries of a directory from `from` on, decoded as another type.
    pub fn entries_as<M: Message + Default>(&self, parent: u64, from: &str, limit: usize) -> Result<Vec<(String, M)>> {
        let all = key::dirents(self.ancestry.clone_group, parent);
        let mut first = all.clone();
        first.extend_from_slice(from.as_bytes());
        let seen = self.ancestry.scan(self.read, &first, &key::after_prefix(&all), limit)?;
        seen.iter().map(named).collect()
    }

    /// The entries that a mount finds under names of a directory, given in key order: see [`Tree::entry`].
    pub fn entries_of(&self, parent: u64, names: &[&str]) -> Result<Vec<Option<Dirent>>> {
        let (Some(first), Some(last)) = (names.first(), names.last()) else { return Ok(Vec::new()) };
        let key = |name: &str| key::dirent(self.ancestry.clone_group, parent, name);
        // Names may lie far apart: then each is searched by itself, in place of reading all between.
        let most = READ_PER_NAME * names.len() + READ_AT_LEAST;
        // The last may be a directory.
        let seen = self.ancestry.scan(self.read, &key(first), &key(&after(&dir_name(last))), most)?;
        let read: Vec<(String, Dirent)> = seen.iter().map(named).collect::<Result<_>>()?;
        let reached = read.last().filter(|_| read.len() == most).map(|(name, _)| name.clone());
        let held: HashMap<String, Dirent> = read.into_iter().collect();
        let find = |name: &&str| {
            let directory = dir_name(name);
            match &reached {
                Some(reached) if directory > *reached => Ok(self.entry(parent, name)?.map(|found| found.dirent)),
                _ => Ok(held.get(&directory).or_else(|| held.get(*name)).copied()),
            }
        };
        names.iter().map(find).collect()
    }

    /// Whether directory `below` is `above` or lies in it.
    pub fn is_within(&self, below: u64, above: u64) -> Result<bool> {
        let mut at = below;
        loop {
            if at == above {
                return Ok(true);
            }
            if at == ROOT_INO {
                return Ok(false);
            }
            at = self.directory(at)?.parent;
        }
    }
}

fn named<M: Message + Default>(seen: &Seen) -> Result<(String, M)> {
    let name = key::text_at(&seen.base, key::DIRENT_NAME_AT);
    let name = name.ok_or_else(|| Error::corrupt("a directory entry", "a name in its key", "none"))?;
    Ok((name.to_owned(), decode("a directory entry", &seen.value)?))
}

/// Whether the bytes of an inode of this kind count against the quota.
pub(crate) fn counts_bytes(kind: InodeKind) -> bool {
    matches!(kind, InodeKind::File | InodeKind::Directory)
}
