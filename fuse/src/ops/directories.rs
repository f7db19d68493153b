//! Directory streams: READDIR and READDIRPLUS.
//!
//! - The names are those of one moment. Their attributes are looked up when a reply is made, for all its names at once.
//!   The kernel caches the names of a READDIRPLUS reply for a day, under the directory's lock: attributes loaded with
//!   the names could be older than an invalidation already delivered, and would stay wrong. Attributes looked up while
//!   the request is served cannot: the invalidation of a later change waits for that lock. A request that loads the
//!   names itself need not look them up twice.

use std::cell::Cell;
use std::iter::Peekable;
use std::sync::Arc;

use objstore_base::error::{Error, Posix};
use objstore_files::{Attr, DirEntry, Kind, NAMES_MAX};

use crate::errno::{self, Result};
use crate::fs::Fs;
use crate::handles::Names;

/// Size of a READDIRPLUS entry in bytes, without its name.
const ENTRY_BYTES: usize = 152;
/// The most names looked up at once, so that no attributes are older than necessary: as many as a store on another machine
/// looks up in one call.
const TOGETHER_MAX: usize = 256;

/// A position in a directory stream: the directory, its handle, and the cookie to continue at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub node: u64,
    pub handle: u64,
    pub offset: u64,
}

/// A name to return. `next` is the cookie of the name after it.
pub(crate) struct Listed<'a> {
    pub node: u64,
    pub kind: Kind,
    pub name: &'a str,
    pub next: u64,
}

impl Fs<'_> {
    /// Passes names to `full` until it returns `true`.
    pub fn read_dir(&self, place: Place, mut full: impl FnMut(Listed<'_>) -> bool) -> Result<()> {
        let (names, _) = self.names(place)?;
        for listed in self.dots(place, &names).chain(self.entries(place, &names)) {
            if full(listed) {
                break;
            }
        }
        Ok(())
    }

    /// Passes names with attributes to `full` until it returns `true`, which it does after about `room` bytes. Each
    /// name but "." and ".." takes an inode reference, as a lookup does. Names removed since they were loaded are left
    /// out.
    pub fn read_dir_plus(
        &self,
        place: Place,
        room: usize,
        mut full: impl FnMut(Listed<'_>, Option<&Attr>) -> bool,
    ) -> Result<()> {
        let (names, loaded) = self.names(place)?;
        let mut left = room;
        for listed in self.dots(place, &names) {
            left = left.saturating_sub(bytes(listed.name));
            if full(listed, None) {
                return Ok(());
            }
        }
        let mut entries = self.entries(place, &names).peekable();
        let mut rest = names.entries.get(names.index(place.offset)..).unwrap_or_default();
        let (mut given, mut ended) = (false, false);
        while !ended {
            let part = fitting(&mut entries, &mut left);
            if part.is_empty() {
                break;
            }
            let (here, behind) = rest.split_at(part.len());
            rest = behind;
            for (listed, looked) in part.into_iter().zip(self.look_up(place.node, here, loaded)) {
                match looked {
                    Ok(attr) if ended => self.forget_listed(attr.ino),
                    Ok(attr) => {
                        ended = full(listed, Some(&self.view.show(attr)));
                        given |= !ended;
                        if ended {
                            self.forget_listed(attr.ino);
                        }
                    }
                    Err(Error::Posix(Posix::NotFound)) => {}
                    Err(error) if !given && !ended => return Err(errno::of(&error)),
                    Err(_) => ended = true,
                }
            }
        }
        Ok(())
    }

    /// Returns the reference of a name that did not fit.
    fn forget_listed(&self, ino: u64) {
        if let Err(error) = self.files.forget(ino, 1u64) {
            tracing::debug!(ino, %error, "cannot return an inode reference to the store; it ends with the session");
        }
    }

    /// The attributes of directory entries. `loaded` says whether this request loaded the names.
    fn look_up(&self, node: u64, entries: &[DirEntry], loaded: bool) -> Vec<objstore_base::error::Result<Attr>> {
        let looked = self.files.lookup_all(self.view.ino(node), entries, loaded);
        looked.unwrap_or_else(|error| entries.iter().map(|_| Err(error.clone())).collect())
    }

    /// The names to continue with, and whether they were loaded just now.
    fn names(&self, place: Place) -> Result<(Arc<Names>, bool)> {
        let loaded = Cell::new(false);
        let names = self.directories.names(place.handle, place.offset, || {
            loaded.set(true);
            if self.directories.is_full() {
                return Err(rustix::io::Errno::AGAIN);
            }
            let ino = self.view.ino(place.node);
            let entries = self.all_names(ino).map_err(|error| errno::of(&error))?;
            Ok(Names { parent: self.above(ino).unwrap_or(ino), entries })
        })?;
        Ok((names, loaded.get()))
    }

    /// All names of a directory: those of one moment, unless the service returns them in pages.
    fn all_names(&self, ino: u64) -> objstore_base::error::Result<Vec<DirEntry>> {
        let mut names = self.files.read_dir(ino, None::<String>, NAMES_MAX)?;
        while let Some(after) = names.next.take() {
            let more = self.files.read_dir(ino, after, NAMES_MAX)?;
            names.entries.extend(more.entries);
            names.next = more.next;
        }
        Ok(names.entries)
    }

    fn dots<'a>(&self, place: Place, names: &Names) -> impl Iterator<Item = Listed<'a>> + use<'a> {
        let nodes = [(".", place.node), ("..", self.view.node(names.parent))];
        let cookies = 1..;
        let listed = cookies.zip(nodes).map(|(next, (name, node))| Listed { node, kind: Kind::Directory, name, next });
        listed.filter(move |listed| listed.next > place.offset)
    }

    fn entries<'a>(&self, place: Place, names: &'a Names) -> impl Iterator<Item = Listed<'a>> + use<'a> {
        let view = self.view;
        names.entries.iter().enumerate().skip(names.index(place.offset)).map(move |(index, entry)| Listed {
            node: view.node(entry.ino),
            kind: entry.kind,
            name: &entry.name,
            next: names.cookie(index),
        })
    }
}

/// The next names that fit.
fn fitting<'a>(entries: &mut Peekable<impl Iterator<Item = Listed<'a>>>, left: &mut usize) -> Vec<Listed<'a>> {
    let mut part = Vec::new();
    while part.len() < TOGETHER_MAX
        && let Some(listed) = entries.next_if(|listed| bytes(listed.name) <= *left)
    {
        *left -= bytes(listed.name);
        part.push(listed);
    }
    part
}

/// The size of a name with its attributes: fuse_direntplus and the padded name.
fn bytes(name: &str) -> usize {
    ENTRY_BYTES + name.len().next_multiple_of(8)
}
