//! The reference model of both handles: a plain map of names, and the rules of buckets in their simplest form.
//!
//! - A directory's name ends in `/`, so `a` and `a/` can both exist; a mount shows the directory.
//! - An implicit directory exists because of the names in it, links among them: S3 removes it with its last name, and a
//!   mount that removes its last name makes it explicit.

use std::collections::{BTreeMap, BTreeSet};

/// What a name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// A file, by its number; several names may lead to one.
    File(u64),
    /// A symbolic link, which only a mount sees.
    Link(String),
    /// A directory.
    Directory {
        /// Whether S3 lists it.
        explicit: bool,
    },
}

/// Who removes a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    S3,
    Mount,
}

/// The state of a file's entity tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tag {
    /// It is this one.
    Known(String),
    /// It is unknown; the content changed, so it is none of these.
    Other(BTreeSet<String>),
}

/// A file.
#[derive(Clone, Debug)]
pub struct File {
    pub content: Vec<u8>,
    /// The value of the user metadata entry, if there is one.
    pub metadata: Option<String>,
    /// The permissions, if they were set.
    pub mode: Option<u32>,
    /// The modification time in seconds, if it was set since the last change.
    pub mtime: Option<i64>,
    pub tag: Tag,
}

/// The reference model.
#[derive(Debug, Default)]
pub struct Model {
    pub names: BTreeMap<String, Name>,
    pub files: BTreeMap<u64, File>,
    /// Files kept open, the oldest first.
    pub held: Vec<u64>,
    pub quota: Option<u64>,
    next: u64,
}

impl File {
    pub fn new(content: Vec<u8>) -> Self {
        Self { content, metadata: None, mode: None, mtime: None, tag: Tag::Other(BTreeSet::new()) }
    }

    /// Records that a mount changed the content.
    pub fn changed(&mut self) {
        self.mtime = None;
        if let Tag::Known(tag) = &self.tag {
            self.tag = Tag::Other([tag.clone()].into());
        }
    }

    /// Records that a mount may have changed the content, perhaps to the same bytes.
    pub fn maybe_changed(&mut self) {
        self.mtime = None;
        self.tag = Tag::Other(BTreeSet::new());
    }
}

impl Model {
    pub fn new(quota: Option<u64>) -> Self {
        Self { quota, ..Self::default() }
    }

    /// Adds a file that has no name yet.
    pub fn add_file(&mut self, file: File) -> u64 {
        self.next += 1;
        self.files.insert(self.next, file);
        self.next
    }

    /// The file with exactly this key.
    pub fn file_at(&self, key: &str) -> Option<u64> {
        match self.names.get(key) {
            Some(Name::File(id)) => Some(*id),
            _ => None,
        }
    }

    /// The number of names that lead to a file.
    pub fn links(&self, id: u64) -> usize {
        self.names.values().filter(|name| **name == Name::File(id)).count()
    }

    /// The bytes that count against the quota.
    pub fn used(&self) -> u64 {
        self.files.values().map(|file| file.content.len() as u64).sum()
    }

    /// Whether `growth` more bytes do not fit if the same step frees `freed`.
    pub fn over(&self, growth: u64, freed: u64) -> bool {
        growth > freed && self.quota.is_some_and(|quota| self.used() + growth - freed > quota)
    }

    /// The names directly in a directory.
    pub fn children<'a>(&'a self, dir: &'a str) -> impl Iterator<Item = (&'a str, &'a Name)> {
        let below = self.names.range(dir.to_owned()..).take_while(move |(key, _)| key.starts_with(dir));
        let direct = |rest: &str| !rest.is_empty() && !rest.trim_end_matches('/').contains('/');
        below.filter(move |(key, _)| direct(&key[dir.len()..])).map(|(key, name)| (key.as_str(), name))
    }

    /// The keys S3 shows, with the files of those that are files.
    pub fn keys(&self) -> impl Iterator<Item = (&str, Option<u64>)> {
        self.names.iter().filter_map(|(key, name)| match name {
            Name::File(id) => Some((key.as_str(), Some(*id))),
            Name::Directory { explicit: true } => Some((key.as_str(), None)),
            Name::Directory { explicit: false } | Name::Link(_) => None,
        })
    }

    /// The key of what a mount shows at a path.
    pub fn shown(&self, path: &str) -> Option<String> {
        let dir = format!("{path}/");
        if self.names.contains_key(&dir) {
            return Some(dir);
        }
        self.names.contains_key(path).then(|| path.to_owned())
    }

    /// Creates the directories that a key lies in.
    pub fn ensure_directories(&mut self, key: &str) {
        for (at, _) in key.trim_end_matches('/').match_indices('/') {
            self.names.entry(key[..=at].to_owned()).or_insert(Name::Directory { explicit: false });
        }
    }

    /// Removes a name, and the directories that are removed with it.
    pub fn remove(&mut self, key: &str, actor: Actor) {
        self.names.remove(key);
        self.update_implicit(parent(key), actor);
        self.collect();
    }

    /// Applies the rule of implicit directories.
    pub fn update_implicit(&mut self, dir: &str, actor: Actor) {
        if self.names.get(dir) != Some(&(Name::Directory { explicit: false })) {
            return;
        }
        match actor {
            _ if self.children(dir).next().is_some() => {}
            Actor::S3 => self.remove(dir, Actor::S3),
            Actor::Mount => drop(self.names.insert(dir.to_owned(), Name::Directory { explicit: true })),
        }
    }

    /// Removes files that cannot be reached any more.
    pub fn collect(&mut self) {
        let named = self.names.values().filter_map(|name| match name {
            Name::File(id) => Some(*id),
            _ => None,
        });
        let used: BTreeSet<u64> = named.chain(self.held.iter().copied()).collect();
        self.files.retain(|id, _| used.contains(id));
    }
}

/// The directory that a key lies in; empty for the root.
pub fn parent(key: &str) -> &str {
    let at = key.trim_end_matches('/').rfind('/').map_or(0, |at| at + 1);
    &key[..at]
}
