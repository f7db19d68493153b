//! Directory streams.
//!
//! - Names come from one moment; what they mean is looked up when they are handed out, for all names of an answer at
//!   once. The kernel takes the names of a READDIRPLUS answer into its cache for a day, holding the directory's lock: a
//!   meaning loaded with the names could be older than a notice that is done already, and would stay wrong. One that is
//!   looked up while the request is answered is not: the notice of a later change waits for that lock. A request that
//!   loads the names itself need not look for them a second time.

use std::cell::Cell;
use std::iter::Peekable;
use std::sync::Arc;

use objstore::volume::{Attr, DirEntry, Kind};
use objstore::{Error, Posix};

use crate::errno::{self, Result};
use crate::fs::Fs;
use crate::handles::Names;

/// Bytes of an entry of a READDIRPLUS answer without its name.
const ENTRY_BYTES: usize = 152;
/// Names looked up at once, at most: what one of them means is not to be older than need be.
const TOGETHER_MAX: usize = 64;

/// A place in a directory stream: what to read, and from which cookie on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub node: u64,
    pub handle: u64,
    pub offset: u64,
}

/// A name to hand out. `next` is the cookie of the one after it.
pub(crate) struct Listed<'a> {
    pub node: u64,
    pub kind: Kind,
    pub name: &'a str,
    pub next: u64,
}

impl Fs {
    /// Hands names to `full` until it says so.
    pub fn read_dir(&self, place: Place, mut full: impl FnMut(Listed<'_>) -> bool) -> Result<()> {
        let (names, _) = self.names(place)?;
        for listed in self.dots(place, &names).chain(self.entries(place, &names)) {
            if full(listed) {
                break;
            }
        }
        Ok(())
    }

    /// Hands names with their attributes to `full` until it says so, which is when they take about `room` bytes. Each but
    /// "." and ".." is pinned like a lookup; those gone since the names were loaded are left out.
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
                    Ok(attr) if ended => self.volume.forget(attr.ino, 1),
                    Ok(attr) => {
                        ended = full(listed, Some(&self.view.show(attr)));
                        given |= !ended;
                        if ended {
                            self.volume.forget(attr.ino, 1);
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

    /// What entries of a directory mean, which were `loaded` by the same request, or by one before.
    fn look_up(&self, node: u64, entries: &[DirEntry], loaded: bool) -> Vec<objstore::Result<Attr>> {
        let parent = self.view.ino(node);
        if loaded {
            return self.volume.lookup_listed(parent, entries);
        }
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        self.volume.lookup_all(parent, &names)
    }

    /// The names to go on with, and whether they were loaded now.
    fn names(&self, place: Place) -> Result<(Arc<Names>, bool)> {
        let loaded = Cell::new(false);
        let names = self.directories.names(place.handle, place.offset, || {
            loaded.set(true);
            if self.directories.is_full() {
                return Err(rustix::io::Errno::AGAIN);
            }
            let ino = self.view.ino(place.node);
            let entries = self.volume.read_dir(ino).map_err(|error| errno::of(&error))?;
            Ok(Names { parent: self.above(ino).unwrap_or(ino), entries })
        })?;
        Ok((names, loaded.get()))
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

/// The next names, as many as there is room for.
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

/// What a name takes with its attributes: fuse_direntplus and the name, padded.
fn bytes(name: &str) -> usize {
    ENTRY_BYTES + name.len().next_multiple_of(8)
}
