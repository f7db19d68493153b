//! The names and inodes that are kept, and when each was invalidated last.
//!
//! - Invalidations are numbered. For each name, listing and inode the number of its last one is kept, in a table of fixed
//!   size: what shares a place there is invalidated together.
//! - The bound of names: beyond it whole directories are dropped.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use objstore_files::{Attr, DirEntry, Traits, WhichAcl};

use super::nodes::Nodes;

/// The most names that are kept, about 100 bytes each.
const NAMES_MAX: usize = 1 << 17;
/// The places in the table of invalidations.
const PLACES: usize = 1 << 12;

/// What is known of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// No inode has it.
    Absent,
    /// It leads to this inode.
    Leads(u64),
    /// Nothing.
    Unknown,
}

#[derive(Default)]
struct Directory {
    /// Whether a name that is not in the table is absent.
    is_whole: bool,
    names: HashMap<Box<str>, Name>,
    /// All names as the store listed them, until one of them changes.
    listing: Option<Vec<DirEntry>>,
}

pub(super) struct State {
    pub(super) follows: bool,
    /// Whether references that the kernel returns may be kept.
    keeps: bool,
    directories: HashMap<u64, Directory>,
    /// Names in all directories.
    names: usize,
    nodes: Nodes,
    /// Inodes that calls of this session are changing, with the number of those calls.
    changing: HashMap<u64, u32>,
    /// The number of the last invalidation.
    last: u64,
    /// The number of the last invalidation of everything, and of all attributes.
    floor: (u64, u64),
    places: Box<[u64]>,
    hasher: RandomState,
}

impl Default for State {
    fn default() -> Self {
        Self {
            follows: false,
            keeps: true,
            directories: HashMap::new(),
            names: 0,
            nodes: Nodes::default(),
            changing: HashMap::new(),
            last: 0,
            floor: (0, 0),
            places: vec![0; PLACES].into(),
            hasher: RandomState::new(),
        }
    }
}

impl State {
    /// Nothing, of which references that the kernel returns may be kept or not.
    pub(super) fn new(keeps: bool) -> Self {
        Self { keeps, ..Self::default() }
    }

    /// The number of the last invalidation.
    pub(super) fn stamp(&self) -> u64 {
        self.last
    }

    fn place(&self, ino: u64, name: Option<&str>, is_attr: bool) -> usize {
        self.hasher.hash_one((ino, name, is_attr)) as usize % PLACES
    }

    fn invalidate(&mut self, place: usize) {
        self.last += 1;
        self.places[place] = self.last;
    }

    fn is_since(&self, stamp: u64, place: usize) -> bool {
        self.follows && stamp >= self.floor.0 && stamp >= self.places[place]
    }

    /// Whether what was told of a name since then still holds.
    pub(super) fn is_name_since(&self, stamp: u64, parent: u64, name: &str) -> bool {
        self.is_since(stamp, self.place(parent, Some(name), false))
    }

    /// Whether a listing that was told since then still holds.
    pub(super) fn is_listing_since(&self, stamp: u64, directory: u64) -> bool {
        self.is_since(stamp, self.place(directory, None, false))
    }

    /// Whether attributes that were told since then still hold.
    pub(super) fn is_attr_since(&self, stamp: u64, ino: u64) -> bool {
        let is_since = stamp >= self.floor.1 && self.is_since(stamp, self.place(ino, None, true));
        is_since && !self.changing.contains_key(&ino)
    }

    /// What is known of a name.
    pub(super) fn name(&self, parent: u64, name: &str) -> Name {
        let Some(directory) = self.directories.get(&parent) else { return Name::Unknown };
        let missing = if directory.is_whole { Name::Absent } else { Name::Unknown };
        directory.names.get(name).copied().unwrap_or(missing)
    }

    pub(super) fn set_name(&mut self, parent: u64, name: &str, known: Name) {
        let is_new = self.name(parent, name) != known;
        let directory = self.directories.entry(parent).or_default();
        if is_new {
            directory.listing = None;
        }
        if let Some(before) = directory.names.get_mut(name) {
            *before = known;
            return;
        }
        directory.names.insert(name.into(), known);
        self.names += 1;
        self.make_room();
    }

    pub(super) fn drop_name(&mut self, parent: u64, name: &str) {
        self.invalidate(self.place(parent, Some(name), false));
        self.invalidate(self.place(parent, None, false));
        let is_whole = self.directories.get(&parent).map(|directory| directory.is_whole);
        match is_whole {
            Some(true) => self.set_name(parent, name, Name::Unknown),
            Some(false) => {
                let directory = self.directories.entry(parent).or_default();
                self.names -= usize::from(directory.names.remove(name).is_some());
                if directory.names.is_empty() {
                    self.directories.remove(&parent);
                }
            }
            None => {}
        }
    }

    /// These are all names of a directory.
    pub(super) fn set_whole(&mut self, ino: u64, entries: &[DirEntry]) {
        self.remove_directory(ino);
        let names = entries.iter().map(|entry| (entry.name.as_str().into(), Name::Leads(entry.ino)));
        let names: HashMap<Box<str>, Name> = names.collect();
        self.names += names.len();
        let listing = Some(entries.to_vec());
        self.directories.insert(ino, Directory { is_whole: true, names, listing });
        self.make_room();
    }

    /// All names of a directory as the store listed them, if none has changed since.
    pub(super) fn listing(&self, ino: u64) -> Option<&[DirEntry]> {
        self.directories.get(&ino)?.listing.as_deref()
    }

    /// The names of a directory are not known any more.
    pub(super) fn drop_directory(&mut self, ino: u64) {
        if self.directories.contains_key(&ino) {
            // Replies about its names are on their way.
            self.last += 1;
            self.floor.0 = self.last;
        }
        self.invalidate(self.place(ino, None, false));
        self.remove_directory(ino);
    }

    fn remove_directory(&mut self, ino: u64) {
        let names = self.directories.remove(&ino).map_or(0, |directory| directory.names.len());
        self.names -= names;
    }

    fn make_room(&mut self) {
        // An empty directory takes as much as a name.
        while self.names + self.directories.len() > NAMES_MAX
            && let Some(any) = self.directories.keys().next().copied()
        {
            self.remove_directory(any);
        }
    }

    /// The attributes, if they are known.
    pub(super) fn attr(&self, ino: u64) -> Option<Attr> {
        self.nodes.get(ino)?.attr.filter(|_| !self.changing.contains_key(&ino))
    }

    /// The attributes for look-ups, each of which takes a reference; `None` if any are not known here.
    pub(super) fn look_up(&mut self, inos: impl Iterator<Item = Option<u64>>) -> Option<Vec<Attr>> {
        let attrs: Vec<Attr> = inos.map(|ino| self.attr(ino?)).collect::<Option<_>>()?;
        if !self.nodes.has_room(attrs.len()) {
            return None;
        }
        attrs.iter().for_each(|attr| self.nodes.count(attr.ino));
        Some(attrs)
    }

    /// The kernel returns references: how many of them go back to the store. An inode of which all go back is not kept for
    /// this session any more.
    pub(super) fn forget(&mut self, ino: u64, count: u64) -> u64 {
        let keeps = self.keeps && self.follows && !self.changing.contains_key(&ino);
        let (left, is_kept) = self.nodes.forget(ino, count, keeps);
        if !is_kept {
            self.invalidate(self.place(ino, None, true));
        }
        left
    }

    pub(super) fn set_attr(&mut self, attr: Attr) {
        self.nodes.keep(attr.ino).attr = Some(attr);
    }

    /// The attributes of an inode are others from now on: what is on its way may be older.
    pub(super) fn replace_attr(&mut self, attr: Attr) {
        self.invalidate(self.place(attr.ino, None, true));
        self.set_attr(attr);
    }

    /// A name that leads to a directory.
    pub(super) fn set_place(&mut self, ino: u64, parent: u64, name: &str) {
        self.nodes.keep(ino).place = Some((parent, name.into()));
    }

    /// The parent of a directory, if it is known.
    pub(super) fn parent(&self, ino: u64) -> Option<u64> {
        let (parent, name) = self.nodes.get(ino)?.place.as_ref()?;
        (self.name(*parent, name) == Name::Leads(ino)).then_some(*parent)
    }

    /// The parent of a directory, with the length of its name there, if they are known.
    pub(super) fn above(&self, ino: u64) -> Option<(u64, usize)> {
        let parent = self.parent(ino)?;
        let (_, name) = self.nodes.get(ino)?.place.as_ref()?;
        Some((parent, name.len()))
    }

    pub(super) fn set_incapable(&mut self, ino: u64) {
        self.nodes.keep(ino).is_incapable = true;
    }

    pub(super) fn is_incapable(&self, ino: u64) -> bool {
        self.nodes.get(ino).is_some_and(|node| node.is_incapable)
    }

    pub(super) fn set_no_acl(&mut self, ino: u64, which: WhichAcl) {
        self.nodes.keep(ino).set_no_acl(which);
    }

    pub(super) fn has_no_acl(&self, ino: u64, which: WhichAcl) -> bool {
        self.nodes.get(ino).is_some_and(|node| node.has_no_acl(which))
    }

    pub(super) fn set_unprotected(&mut self, ino: u64) {
        self.nodes.keep(ino).is_unprotected = true;
    }

    pub(super) fn is_unprotected(&self, ino: u64) -> bool {
        self.nodes.get(ino).is_some_and(|node| node.is_unprotected)
    }

    /// What an inode does not have; what is not told may be known already.
    pub(super) fn set_traits(&mut self, ino: u64, traits: Traits) {
        let node = self.nodes.keep(ino);
        node.is_incapable |= traits.no_capabilities;
        node.is_unprotected |= traits.no_protection;
        for (has_none, which) in [(traits.no_access_acl, WhichAcl::Access), (traits.no_default_acl, WhichAcl::Default)]
        {
            if has_none {
                node.set_no_acl(which);
            }
        }
    }

    pub(super) fn drop_attr(&mut self, ino: u64) {
        self.invalidate(self.place(ino, None, true));
        self.nodes.drop_attr(ino);
    }

    /// The attributes of all inodes are not known any more, and one of them may have been removed.
    pub(super) fn drop_attrs(&mut self) {
        self.last += 1;
        self.floor.1 = self.last;
        self.nodes.drop_attrs();
        self.nodes.give_back();
    }

    /// Nothing is known of an inode any more, except what its names are.
    pub(super) fn drop_node(&mut self, ino: u64) {
        self.invalidate(self.place(ino, None, true));
        self.nodes.drop_node(ino);
    }

    /// Nothing is known any more.
    pub(super) fn clear(&mut self) {
        self.last += 1;
        self.floor = (self.last, self.last);
        self.directories = HashMap::new();
        self.names = 0;
        self.nodes.drop_all();
    }

    /// Nothing is known any more, and changes were missed: what may have been removed is kept no longer.
    pub(super) fn clear_all(&mut self) {
        self.clear();
        self.nodes.give_back();
    }

    /// The store has counted a reference of the node's own.
    pub(super) fn own(&mut self, ino: u64) {
        self.nodes.own(ino);
    }

    /// The references that the store gets back.
    pub(super) fn returned(&mut self) -> Vec<(u64, u64)> {
        self.nodes.returned()
    }

    /// A call is about to change an inode.
    pub(super) fn begin_change(&mut self, ino: u64) {
        *self.changing.entry(ino).or_default() += 1;
    }

    /// A call that changed an inode is answered.
    pub(super) fn end_change(&mut self, ino: u64) {
        if let Some(count) = self.changing.get_mut(&ino) {
            *count -= 1;
            if *count == 0 {
                self.changing.remove(&ino);
            }
        }
    }

    /// The number of names and of inodes that are kept.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.names, self.nodes.len())
    }
}
