//! The state of a simulated disk: what processes see, and what of it is on disk.
//!
//! - Calls that change or sync something are counted; reads are not, since dying before a read equals dying before the
//!   next counted call.
//! - After the call at which the process dies every call fails, and nothing changes any more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use objstore_base::clock::Timestamp;
use objstore_base::error::{Error, Result};

use super::crash::{self, Change};
use super::image::Image;
use crate::random::Choices;

/// Kinds of syncs that the disk reports as done without doing them, to test that tests notice lost data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FalseSyncs {
    /// Syncs of a file.
    pub file_sync: bool,
    /// Syncs of the names in a folder.
    pub dir_sync: bool,
    /// Syncs of everything.
    pub full_sync: bool,
}

/// How much is done of the call at which the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Nothing is done.
    None,
    /// A write is done in part; any other call is not done.
    Some,
    /// The call is done, but not answered.
    All,
}

/// The call at which the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// The number of the call, counted from 1.
    pub call: u64,
    /// How much of the call is done.
    pub done: Amount,
}

/// What a name refers to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    File(u64),
    Folder,
}

#[derive(Clone, Default)]
pub(super) struct Folder {
    pub(super) names: BTreeMap<String, Node>,
    synced: BTreeMap<String, Node>,
    /// What names referred to since the folder was synced.
    since: BTreeMap<String, Vec<Option<Node>>>,
}

#[derive(Clone, Default)]
pub(super) struct Inode {
    pub(super) now: Image,
    synced: Image,
    changes: Vec<Change>,
    pub(super) modified: Timestamp,
    synced_modified: Timestamp,
}

/// The state of the whole disk.
#[derive(Clone, Default)]
pub(super) struct World {
    /// The folders by path, as text, which is compared faster.
    pub(super) folders: BTreeMap<String, Folder>,
    pub(super) inodes: BTreeMap<u64, Inode>,
    pub(super) locks: BTreeSet<PathBuf>,
    pub(super) lies: FalseSyncs,
    pub(super) reflinks: bool,
    pub(super) calls: u64,
    pub(super) death: Option<Death>,
    pub(super) dead: bool,
    /// How often the machine was started.
    pub(super) machine: u64,
    /// A checksum over all calls: equal for two runs that do the same.
    pub(super) trace: u64,
}

/// The error for every call of a dead process.
pub(super) fn gone() -> Error {
    Error::io("the test's disk", std::io::Error::other("the process is dead"))
}

impl World {
    /// An empty disk.
    pub(super) fn new(lies: FalseSyncs, reflinks: bool) -> Self {
        let folders = BTreeMap::from([("/".to_owned(), Folder::default())]);
        Self { folders, lies, reflinks, ..Self::default() }
    }

    /// Refuses calls of a dead process.
    pub(super) fn alive(&self) -> Result<()> {
        if self.dead { Err(gone()) } else { Ok(()) }
    }

    /// Counts a call; returns how much of it is to be done.
    pub(super) fn count(&mut self, what: &[u8], number: u64) -> Result<Amount> {
        self.alive()?;
        self.calls += 1;
        let summed =
            what.iter().fold(self.trace ^ number, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3));
        self.trace = summed.rotate_left(7);
        tell(self.calls, what, number);
        match self.death.filter(|death| death.call == self.calls) {
            Some(death) => {
                self.dead = true;
                Ok(death.done)
            }
            None => Ok(Amount::All),
        }
    }

    /// What `path` refers to.
    pub(super) fn node(&self, path: &Path) -> Option<Node> {
        let (folder, name) = split(path);
        if path == Path::new("/") {
            return Some(Node::Folder);
        }
        self.folders.get(text(folder))?.names.get(&name).copied()
    }

    /// Makes `path` refer to something else, or to nothing.
    pub(super) fn set(&mut self, path: &Path, node: Option<Node>) -> Result<()> {
        let (parent, name) = split(path);
        let folder = self.folders.get_mut(text(parent)).ok_or_else(|| missing(path))?;
        match node {
            Some(node) => folder.names.insert(name.clone(), node),
            None => folder.names.remove(&name),
        };
        folder.since.entry(name).or_default().push(node);
        if node == Some(Node::Folder) {
            self.folders.entry(text(path).to_owned()).or_default();
        }
        Ok(())
    }

    /// Adds a new file.
    pub(super) fn add_inode(&mut self, modified: Timestamp) -> u64 {
        let number = self.inodes.last_key_value().map_or(1, |(last, _)| last + 1);
        self.inodes.insert(number, Inode { modified, synced_modified: modified, ..Inode::default() });
        number
    }

    /// Changes a file.
    pub(super) fn change(&mut self, inode: u64, change: Change, modified: Timestamp) {
        let inode = self.inodes.entry(inode).or_default();
        change.apply(&mut inode.now);
        inode.changes.push(change);
        inode.modified = modified;
    }

    /// Makes a file's content durable, and its modification time if `with_time`.
    pub(super) fn sync_file(&mut self, inode: u64, with_time: bool) {
        if let Some(inode) = self.inodes.get_mut(&inode).filter(|_| !self.lies.file_sync) {
            inode.sync(with_time);
        }
    }

    /// Makes the names in a folder durable.
    pub(super) fn sync_folder(&mut self, path: &Path) -> Result<()> {
        let folder = self.folders.get_mut(text(path)).ok_or_else(|| missing(path))?;
        if !self.lies.dir_sync {
            folder.sync();
        }
        Ok(())
    }

    /// Makes everything durable.
    pub(super) fn sync_all(&mut self) {
        if !self.lies.full_sync {
            self.inodes.values_mut().for_each(|inode| inode.sync(true));
            self.folders.values_mut().for_each(Folder::sync);
        }
    }

    /// The disk as the next process finds it after this one was killed: nothing that it wrote is lost, and nothing more
    /// is synced.
    pub(super) fn after_kill(&self) -> Self {
        Self { locks: BTreeSet::new(), calls: 0, death: None, dead: false, trace: 0, ..self.clone() }
    }

    /// The disk after a power cut.
    pub(super) fn after_power_cut(&self, choices: &mut Choices) -> Self {
        let mut left = Self { machine: self.machine + 1, ..Self::new(self.lies, self.reflinks) };
        left.folders.clear();
        left.restore(Path::new("/"), self, choices);
        left
    }

    fn restore(&mut self, path: &Path, from: &Self, choices: &mut Choices) {
        let Some(before) = from.folders.get(text(path)) else { return };
        let mut names = before.synced.clone();
        for (name, since) in &before.since {
            match crash::name(before.synced.get(name).copied(), since, choices) {
                Some(node) => names.insert(name.clone(), node),
                None => names.remove(name),
            };
        }
        for (name, node) in &names {
            match node {
                Node::Folder => self.restore(&path.join(name), from, choices),
                Node::File(number) => {
                    if let Some(inode) = from.inodes.get(number).filter(|_| !self.inodes.contains_key(number)) {
                        self.inodes.insert(*number, inode.after_power_cut(choices));
                    }
                }
            }
        }
        self.folders.insert(text(path).to_owned(), Folder { synced: names.clone(), names, since: BTreeMap::new() });
    }
}

impl Folder {
    fn sync(&mut self) {
        if !self.since.is_empty() {
            self.since.clear();
            self.synced.clone_from(&self.names);
        }
    }
}

impl Inode {
    fn sync(&mut self, with_time: bool) {
        if !self.changes.is_empty() {
            self.changes.clear();
            self.synced = self.now.clone();
        }
        if with_time {
            self.synced_modified = self.modified;
        }
    }

    fn after_power_cut(&self, choices: &mut Choices) -> Self {
        let left = crash::file(&self.synced, &self.changes, choices);
        let modified = self.synced_modified;
        Self { now: left.clone(), synced: left, changes: Vec::new(), modified, synced_modified: modified }
    }
}

/// Prints a call, for people who examine a crash.
#[expect(clippy::print_stderr, reason = "it is asked for")]
fn tell(call: u64, what: &[u8], number: u64) {
    static ASKED: OnceLock<bool> = OnceLock::new();
    if *ASKED.get_or_init(|| std::env::var_os("AMPHORA_TRACE").is_some()) {
        eprintln!("{call}: {} {number}", String::from_utf8_lossy(what));
    }
}

/// The key of a folder: its path as text.
pub(super) fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// The folder of a path, and the name in it.
pub(super) fn split(path: &Path) -> (&Path, String) {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    (path.parent().unwrap_or(Path::new("/")), name)
}

pub(super) fn missing(path: &Path) -> Error {
    Error::io(format!("looking for {}", path.display()), std::io::Error::from_raw_os_error(libc::ENOENT))
}
