//! Directory streams.
//!
//! - Names come from one moment; what they mean is looked up when they are handed out. The kernel takes the names of
//!   a READDIRPLUS answer into its cache for a day, holding the directory's lock: a meaning loaded with the names
//!   could be older than a notice that is done already, and would stay wrong.

use std::sync::Arc;

use objstore::volume::{Attr, DirEntry, Kind};
use objstore::{Error, Posix};

use crate::errno::{self, Result};
use crate::fs::Fs;
use crate::handles::Names;

/// "." and ".." come first.
const DOTS: u64 = 2;

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
        let names = self.names(place)?;
        for listed in self.dots(place, &names).chain(self.entries(place, &names)) {
            if full(listed) {
                break;
            }
        }
        Ok(())
    }

    /// Hands names with their attributes to `full` until it says so. Each but "." and ".." is pinned like a lookup;
    /// those gone since the names were loaded are left out.
    pub fn read_dir_plus(&self, place: Place, mut full: impl FnMut(Listed<'_>, Option<&Attr>) -> bool) -> Result<()> {
        let names = self.names(place)?;
        for listed in self.dots(place, &names) {
            if full(listed, None) {
                return Ok(());
            }
        }
        let directory = self.view.ino(place.node);
        let mut given = false;
        for listed in self.entries(place, &names) {
            let attr = match self.volume.lookup(directory, listed.name) {
                Ok(attr) => attr,
                Err(Error::Posix(Posix::NotFound)) => continue,
                Err(_) if given => break,
                Err(error) => return Err(errno::of(&error)),
            };
            if full(listed, Some(&self.view.show(attr))) {
                self.volume.forget(attr.ino, 1);
                break;
            }
            given = true;
        }
        Ok(())
    }

    fn names(&self, place: Place) -> Result<Arc<Names>> {
        self.directories.names(place.handle, place.offset, || {
            let ino = self.view.ino(place.node);
            let entries = self.volume.read_dir(ino).map_err(|error| errno::of(&error))?;
            Ok(Names { parent: self.above(ino).unwrap_or(ino), entries })
        })
    }

    fn dots<'a>(&self, place: Place, names: &Names) -> impl Iterator<Item = Listed<'a>> + use<'a> {
        let nodes = [(".", place.node), ("..", self.view.node(names.parent))];
        let cookies = 1..;
        let listed = cookies.zip(nodes).map(|(next, (name, node))| Listed { node, kind: Kind::Directory, name, next });
        listed.filter(move |listed| listed.next > place.offset)
    }

    fn entries<'a>(&self, place: Place, names: &'a Names) -> impl Iterator<Item = Listed<'a>> + use<'a> {
        let view = self.view;
        let first = place.offset.saturating_sub(DOTS);
        let entries: &'a [DirEntry] = usize::try_from(first).ok().and_then(|at| names.entries.get(at..)).unwrap_or(&[]);
        (first + DOTS + 1..).zip(entries).map(move |(next, entry)| Listed {
            node: view.node(entry.ino),
            kind: entry.kind,
            name: &entry.name,
            next,
        })
    }
}
