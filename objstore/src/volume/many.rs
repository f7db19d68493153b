//! Looking up many names of a directory at once, for a READDIRPLUS reply.
//!
//! - Names are read at one moment, then references are taken, and then inodes are read, as [`Volume::lookup`] does for
//!   one name. Both reads are after the call began.

use super::session::attr;
use super::{Attr, DirEntry, Volume};
use crate::error::{Posix, Result};
use crate::record::inode::Inode;

/// The result for a name: the inode number, and the inode if it still existed when it was read.
type Found = Option<(u64, Option<Inode>)>;

impl Volume {
    /// Looks up names of one directory, in the order of its listing. Each result equals that of [`Volume::lookup`], and
    /// takes one reference.
    pub fn lookup_all(&self, parent: u64, names: &[&str]) -> Vec<Result<Attr>> {
        let looked = self.inos_under(parent, names).and_then(|inos| self.look_pinned(&inos));
        self.answer(parent, names.iter().copied(), looked)
    }

    /// Looks up names that [`Volume::read_dir`] returned within the same call: they need not be searched again.
    pub fn lookup_listed(&self, parent: u64, entries: &[DirEntry]) -> Vec<Result<Attr>> {
        let inos: Vec<_> = entries.iter().map(|entry| Some(entry.ino)).collect();
        let looked = self.look_pinned(&inos);
        self.answer(parent, entries.iter().map(|entry| entry.name.as_str()), looked)
    }

    fn answer<'a>(
        &self,
        parent: u64,
        names: impl Iterator<Item = &'a str>,
        looked: Result<Vec<Found>>,
    ) -> Vec<Result<Attr>> {
        let answer = |(name, looked): (&str, Found)| match looked {
            None => Err(Posix::NotFound.into()),
            Some((ino, Some(inode))) => {
                self.learn_name(ino, &inode, parent, name);
                Ok(attr(ino, &inode))
            }
            // Replaced and collected in between: the name now leads to another inode or to none.
            Some((ino, None)) => {
                self.forget(ino, 1);
                self.lookup(parent, name)
            }
        };
        match looked {
            Ok(looked) => names.zip(looked).map(answer).collect(),
            Err(error) => names.map(|_| Err(error.clone())).collect(),
        }
    }

    /// The inode numbers of names.
    fn inos_under(&self, parent: u64, names: &[&str]) -> Result<Vec<Option<u64>>> {
        let found = self.reading(|tree| {
            tree.directory(parent)?;
            tree.entries_of(parent, names)
        })?;
        Ok(found.into_iter().map(|dirent| dirent.map(|dirent| dirent.ino)).collect())
    }

    /// Takes references on these inodes and reads them.
    fn look_pinned(&self, found: &[Option<u64>]) -> Result<Vec<Found>> {
        let inos: Vec<u64> = found.iter().flatten().copied().collect();
        inos.iter().for_each(|ino| self.hold_found(*ino));
        let looked = self.look_at(&inos).inspect_err(|_| inos.iter().for_each(|ino| self.forget(*ino, 1)))?;
        let mut looked = looked.into_iter();
        Ok(found.iter().map(|ino| ino.map(|ino| (ino, looked.next().flatten()))).collect())
    }

    /// The current inodes: [`Volume::look`] for many.
    fn look_at(&self, inos: &[u64]) -> Result<Vec<Option<Inode>>> {
        let core = &self.0.core;
        // Read before the records: a file flushed in between is complete in its record.
        let dirty: Vec<_> = inos.iter().map(|ino| core.dirty.get(self.0.bucket, *ino)).collect();
        let mut inodes: Vec<Option<Inode>> = self.reading(|tree| tree.inodes_as(inos))?;
        for ((inode, dirty), ino) in inodes.iter_mut().zip(dirty).zip(inos) {
            let Some(inode) = inode else { continue };
            if let Some(dirty) = dirty.filter(|_| self.0.frozen.is_none()) {
                dirty.show(inode);
            }
            self.show_past(*ino, inode);
        }
        Ok(inodes)
    }
}
