//! The names of a directory, as a mount lists them.
//!
//! A listing continues behind a sort name. Where a file and a directory share a name, the directory is shown, and both may
//! lie far apart in the order of keys (`a`, `a.txt`, `a/`): so the end of a page looks for directories behind it.

use std::collections::HashSet;

use super::session::{Volume, shown_kind};
use super::types::{DirEntry, Kind, Names};
use crate::error::Result;
use crate::name::mountable;
use crate::record::inode::Dirent;
use crate::tree::{Tree, dir_name, shown_name};

/// Entries read at a time.
const CHUNK: usize = 1024;

impl Volume {
    /// All names of a directory at one moment, in key order, without `.` and `..` and without hidden keys. Where a file
    /// and a directory share a name, the directory is shown.
    pub fn read_dir(&self, ino: u64) -> Result<Vec<DirEntry>> {
        self.read_dir_from(ino, None, usize::MAX).map(|names| names.entries)
    }

    /// Names of a directory as [`Volume::read_dir`] returns them, from the place that an earlier call returned: at most
    /// `limit`, at one moment.
    pub fn read_dir_from(&self, ino: u64, after: Option<&str>, limit: usize) -> Result<Names> {
        self.reading(|tree| {
            tree.directory(ino)?;
            let mut page = Page::default();
            let mut from = after.map(behind).unwrap_or_default();
            loop {
                let wanted = CHUNK.min(limit - page.shown.len());
                let entries = tree.entries(ino, &from, wanted)?;
                let more = entries.len() == wanted;
                for (sort_name, dirent) in &entries {
                    page.add(sort_name, dirent);
                }
                let Some((last, _)) = entries.last().filter(|_| more) else { return Ok(page.end()) };
                if page.shown.len() == limit {
                    return page.stop(tree, ino, last);
                }
                from = behind(last);
            }
        })
    }
}

/// The first sort name behind another.
fn behind(sort_name: &str) -> String {
    format!("{sort_name}\u{1}")
}

/// Names of a directory that are being gathered.
#[derive(Default)]
struct Page {
    shown: Vec<DirEntry>,
    /// The names of directories, which hide files of the same name.
    directories: HashSet<String>,
}

impl Page {
    fn add(&mut self, sort_name: &str, dirent: &Dirent) {
        let name = shown_name(sort_name);
        if sort_name.ends_with('/') {
            self.directories.insert(name.to_owned());
        }
        if mountable(name) {
            self.shown.push(DirEntry { name: name.to_owned(), ino: dirent.ino, kind: shown_kind(dirent.kind()) });
        }
    }

    /// The page that ends the directory.
    fn end(mut self) -> Names {
        self.shown.retain(|entry| entry.kind == Kind::Directory || !self.directories.contains(&entry.name));
        Names { entries: self.shown, next: None }
    }

    /// The page up to the sort name `last`, with more behind it.
    fn stop(mut self, tree: Tree<'_>, ino: u64, last: &str) -> Result<Names> {
        // A directory behind the page hides a file in it only if the file's name begins the page's last name.
        let files = self.shown.iter().filter(|entry| entry.kind != Kind::Directory && last.starts_with(&entry.name));
        for name in files.map(|entry| entry.name.clone()).collect::<Vec<_>>() {
            if tree.dirent(ino, &dir_name(&name))?.is_some() {
                self.directories.insert(name);
            }
        }
        Ok(Names { next: Some(last.to_owned()), ..self.end() })
    }
}
