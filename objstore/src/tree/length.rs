//! Key lengths: a mount creates no name whose key exceeds S3's limit of 1,024 bytes.
//!
//! - The length of a directory's path is its *place*. Places are cached for recently changed directories, and dropped
//!   when a directory of the bucket moves.
//! - A directory's record has an upper bound of the path lengths below it, its *reach*: so renaming a directory to a
//!   longer path costs the same for any content. Deletions leave the bound too high; if the bound alone would
//!   refuse a rename, a bounded search decides.

use objstore_files::ROOT_INO;

use super::cursor::after;
use super::dir_name;
use super::read::Found;
use super::tx::Tx;
use crate::error::{Posix, Result};
use crate::name::KEY_BYTES_MAX;
use crate::record::inode::{Dirent, Inode, InodeKind};
use crate::state::Place;

/// The most names below a directory that a rename examines.
const LOOKED_MAX: usize = 16_384;
/// Names read at a time.
const CHUNK: usize = 512;

/// An upper bound of the lengths of paths below a directory.
fn reach_bound(dir: &Inode) -> usize {
    if dir.entries > 0 && dir.reach == 0 { KEY_BYTES_MAX } else { dir.reach as usize }
}

/// Raises the bound of a directory to cover a path below. Returns whether it changed. An unknown bound stays unknown.
pub(super) fn reach_to(dir: &mut Inode, length: usize) -> bool {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let raises = length > dir.reach && (dir.entries == 0 || dir.reach > 0);
    if raises {
        dir.reach = length;
    }
    raises
}

impl Tx<'_> {
    /// The position of a directory.
    pub(super) fn place_of(&mut self, dir: u64) -> Result<Place> {
        let (mut at, mut unknown) = (dir, Vec::new());
        let mut place = loop {
            if at == ROOT_INO {
                break Place::default();
            }
            let here = self.places.iter().find(|(known, _)| *known == at).map(|(_, place)| *place);
            if let Some(known) = here.or_else(|| self.core.places.get(self.bucket.id, at)) {
                break known;
            }
            let inode = self.tree().directory(at)?;
            unknown.push((at, inode.name));
            at = inode.parent;
        };
        while let Some((ino, name)) = unknown.pop() {
            place = place.below(&name);
            self.places.push((ino, place));
        }
        Ok(place)
    }

    /// Caches the positions that were looked up once this change is committed: after a rollback the same inode numbers
    /// may go to other directories.
    pub(super) fn keep_places(&mut self) {
        let (found, moved) = (std::mem::take(&mut self.places), self.moved_directory);
        if found.is_empty() && !moved {
            return;
        }
        let (core, bucket) = (self.core.clone(), self.bucket.id);
        self.txn.after_commit(Box::new(move || {
            if moved {
                core.places.forget(bucket);
            }
            core.places.add(bucket, &found);
        }));
    }

    /// Called when a directory moved, which changes the paths below it.
    pub(super) fn forget_places(&mut self) {
        self.core.places.forget(self.bucket.id);
        self.places.clear();
        self.moved_directory = true;
    }

    /// Refuses a name whose key would be too long.
    ///
    /// # Errors
    /// ENAMETOOLONG
    pub(super) fn check_length(&mut self, parent: u64, sort_name: &str) -> Result<()> {
        if self.place_of(parent)?.bytes + sort_name.len() > KEY_BYTES_MAX {
            return Err(Posix::NameTooLong.into());
        }
        Ok(())
    }

    /// Refuses a move that would make a key too long, its own or one below it. A move to a path that is not longer is
    /// never refused.
    ///
    /// # Errors
    /// ENAMETOOLONG; EXDEV if a directory has more names than are examined.
    pub(super) fn check_moved_length(&mut self, source: &Found, parent: u64, name: &str) -> Result<()> {
        let is_directory = source.dirent.kind() == InodeKind::Directory;
        let sort_name = if is_directory { dir_name(name) } else { name.to_owned() };
        let before = self.place_of(source.parent)?.bytes + source.sort_name.len();
        let after = self.place_of(parent)?.bytes + sort_name.len();
        if after <= before {
            return Ok(());
        }
        self.check_length(parent, &sort_name)?;
        let room = KEY_BYTES_MAX - after;
        if is_directory && reach_bound(&self.tree().directory(source.dirent.ino)?) > room {
            return self.check_below(source.dirent.ino, room);
        }
        Ok(())
    }

    /// Refuses if a path below a directory is longer than `room`.
    fn check_below(&self, dir: u64, room: usize) -> Result<()> {
        let tree = self.tree();
        let (mut looked, mut left) = (0, vec![(dir, 0)]);
        while let Some((dir, above)) = left.pop() {
            let mut from = String::new();
            loop {
                let entries = tree.entries(dir, &from, CHUNK)?;
                for (name, dirent) in &entries {
                    let length = above + name.len();
                    if length > room {
                        return Err(Posix::NameTooLong.into());
                    }
                    if dirent.kind() == InodeKind::Directory
                        && length + reach_bound(&tree.linked_inode(dirent.ino)?.1) > room
                    {
                        left.push((dirent.ino, length));
                    }
                }
                looked += entries.len();
                if looked > LOOKED_MAX {
                    return Err(Posix::CrossDevice.into());
                }
                match entries.last() {
                    Some((last, _)) if entries.len() == CHUNK => from = after(last),
                    _ => break,
                }
            }
        }
        Ok(())
    }

    /// The longest path in a directory through one of its names.
    pub(super) fn reach_of(&self, sort_name: &str, dirent: Dirent) -> Result<usize> {
        let below = match dirent.kind() {
            InodeKind::Directory => reach_bound(&self.tree().linked_inode(dirent.ino)?.1),
            _ => 0,
        };
        Ok(sort_name.len() + below)
    }

    /// Raises the bounds of the directories above `dir` to cover its own.
    pub(super) fn reach_above(&mut self, ino: u64, dir: &Inode) -> Result<()> {
        let (mut ino, mut dir) = (ino, dir.clone());
        while ino != ROOT_INO && dir.nlink > 0 {
            let mut above = self.own(dir.parent)?;
            if !reach_to(&mut above, dir.name.len() + 1 + reach_bound(&dir)) {
                return Ok(());
            }
            self.save(dir.parent, &above);
            (ino, dir) = (dir.parent, above);
        }
        Ok(())
    }
}
