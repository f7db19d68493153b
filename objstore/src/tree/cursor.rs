//! A cursor over the keys of a bucket in byte order.
//!
//! - It reads one directory's entries in chunks, and descends where a sort name is a directory's: that order is the
//!   byte order of full keys.
//! - It seeks to any key at the cost of its depth, and skips a directory at no cost, so the cost of a listing is
//!   proportional to its result.

use std::collections::VecDeque;

use objstore_files::ROOT_INO;

use crate::error::Result;
use crate::record::inode::{Dirent, Inode, InodeKind};
use crate::record::listed::{ListedDirent, ListingEntry};

use super::read::Tree;

/// Entries read at a time: few at first, since the cursor may leave a directory soon.
const CHUNKS: [usize; 3] = [16, 128, 512];

/// A name that S3 may see: a file's key, or a directory's with its `/`, which is a key only if the directory is
/// explicit.
pub(super) struct Name {
    /// The key.
    pub key: String,
    /// Its directory entry.
    pub dirent: Dirent,
    /// The copy of attributes for listings, if the name carries it.
    pub shown: Option<ListingEntry>,
}

/// A key and its inode.
pub(super) struct Item {
    /// The key.
    pub key: String,
    /// Its inode number.
    pub ino: u64,
    /// Its inode.
    pub inode: Inode,
}

/// A cursor over keys.
pub(super) struct Cursor<'a> {
    tree: Tree<'a>,
    frames: Vec<Frame>,
}

/// A directory on the cursor's path.
struct Frame {
    ino: u64,
    /// The directory's key with its `/`; empty for the root.
    prefix: String,
    pending: VecDeque<(String, ListedDirent)>,
    /// The name to read from; `None` at the end.
    from: Option<String>,
    chunks: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the first key that is not less than `from`.
    pub fn new(tree: Tree<'a>, from: &str) -> Result<Self> {
        let mut cursor = Self { tree, frames: Vec::new() };
        cursor.seek(from)?;
        Ok(cursor)
    }

    /// Moves to the first key that is not less than `from`.
    pub fn seek(&mut self, from: &str) -> Result<()> {
        self.frames.clear();
        let mut ino = ROOT_INO;
        let mut done = 0;
        for component in from.split_inclusive('/').filter(|component| component.ends_with('/')) {
            let below = self.tree.dirent(ino, component)?;
            self.frames.push(Frame::new(
                ino,
                &from[..done],
                match below {
                    Some(_) => after(component),
                    None => component.to_owned(),
                },
            ));
            let Some(dirent) = below else { return Ok(()) };
            (ino, done) = (dirent.ino, done + component.len());
        }
        self.frames.push(Frame::new(ino, &from[..done], from[done..].to_owned()));
        self.marker_first(from, done)
    }

    /// A key that ends in `/` precedes everything in it: seeking to it has to return the directory's own key.
    fn marker_first(&mut self, from: &str, done: usize) -> Result<()> {
        if done == 0 || done != from.len() {
            return Ok(());
        }
        let (Some(frame), Some(above)) = (self.frames.pop(), self.frames.last_mut()) else { return Ok(()) };
        let name = &from[above.prefix.len()..];
        above.from = Some(name.to_owned());
        drop(frame);
        Ok(())
    }

    /// Moves forward to the first key that is not less than `to`, which is after all keys returned so far.
    pub fn advance(&mut self, to: &str) -> Result<()> {
        while self.frames.last().is_some_and(|frame| !to.starts_with(&frame.prefix)) {
            self.frames.pop();
        }
        match self.frames.last_mut() {
            Some(frame) if !to[frame.prefix.len()..].contains('/') => {
                frame.advance(&to[frame.prefix.len()..]);
                Ok(())
            }
            _ => self.seek(to),
        }
    }

    /// The directory of the name that [`Cursor::next_name`] has just returned.
    pub fn holder(&self, name: &Name) -> u64 {
        let entered = usize::from(name.dirent.kind() == InodeKind::Directory);
        self.frames.iter().rev().nth(entered).map_or(ROOT_INO, |frame| frame.ino)
    }

    /// Skips the content of the directory that [`Cursor::next_name`] has just returned.
    pub fn leave(&mut self) {
        self.frames.pop();
    }

    /// The next file or directory; a directory precedes its content.
    pub fn next_name(&mut self) -> Result<Option<Name>> {
        while let Some(frame) = self.frames.last_mut() {
            let Some((sort_name, listed)) = frame.take(self.tree)? else {
                self.frames.pop();
                continue;
            };
            let dirent = listed.dirent();
            if !dirent.is_key() {
                continue;
            }
            let key = [&frame.prefix, sort_name.as_str()].concat();
            if dirent.kind() == InodeKind::Directory {
                self.frames.push(Frame::new(dirent.ino, &key, String::new()));
            }
            return Ok(Some(Name { key, dirent, shown: listed.shown }));
        }
        Ok(None)
    }

    /// The next key that S3 sees.
    pub fn next(&mut self) -> Result<Option<Item>> {
        while let Some(Name { key, dirent, .. }) = self.next_name()? {
            let (_, inode) = self.tree.linked_inode(dirent.ino)?;
            if !inode.implicit {
                return Ok(Some(Item { key, ino: dirent.ino, inode }));
            }
        }
        Ok(None)
    }
}

impl Frame {
    fn new(ino: u64, prefix: &str, from: String) -> Self {
        Self { ino, prefix: prefix.to_owned(), pending: VecDeque::new(), from: Some(from), chunks: 0 }
    }

    fn take(&mut self, tree: Tree<'_>) -> Result<Option<(String, ListedDirent)>> {
        if self.pending.is_empty() {
            self.fill(tree)?;
        }
        Ok(self.pending.pop_front())
    }

    /// Skips the names less than `name`.
    fn advance(&mut self, name: &str) {
        let below = self.pending.partition_point(|(pending, _)| pending.as_str() < name);
        self.pending.drain(..below);
        if self.pending.is_empty()
            && let Some(from) = self.from.as_mut().filter(|from| from.as_str() < name)
        {
            name.clone_into(from);
            // After a jump the next one may skip the rest of a large chunk, so chunks start small again.
            self.chunks = 0;
        }
    }

    fn fill(&mut self, tree: Tree<'_>) -> Result<()> {
        let Some(from) = self.from.take() else { return Ok(()) };
        let want = CHUNKS[self.chunks.min(CHUNKS.len() - 1)];
        self.chunks += 1;
        let entries = tree.entries_as(self.ino, &from, want)?;
        if let Some((last, _)) = entries.last().filter(|_| entries.len() == want) {
            self.from = Some(after(last));
        }
        self.pending = entries.into();
        Ok(())
    }
}

/// The smallest sort name greater than `name`: names contain no NUL.
pub(super) fn after(name: &str) -> String {
    format!("{name}\u{1}")
}
