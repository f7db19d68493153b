//! Handles of open files and directories.
//!
//! - An open file is a plain number in its handle: it takes no memory here and outlives this process. Opens of a node
//!   are counted separately (`passthrough`).
//! - An open directory keeps the names from when reading began, so a listing is stable while other clients change the
//!   directory. Reading from the start (rewinddir) loads the names again. Once open directories keep [`NAMES_MAX`]
//!   names, no other is read until one is closed.
//! - A cookie is an index into the names plus a hash of the name before it. A process that takes the mount over loads
//!   the names again and finds the position by the hash. If that name was deleted meanwhile, reading restarts, so a
//!   program that deletes what it lists, as `rm -r` does, misses nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use objstore_files::DirEntry;
use parking_lot::{Mutex, RwLock};

/// The most names that the open directories of a mount keep: about 400 MB.
const NAMES_MAX: usize = 4 << 20;

/// An open file as the number that the kernel keeps as its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFile {
    /// Whether it was opened for writing.
    pub writable: bool,
    /// A number, if the kernel announces close(2) before it returns; otherwise 0. It does for writers in a bucket with
    /// versioning, and for each file of a mount whose store keeps file locks: there the number of those writers has the bit
    /// [`Self::WRITER_BIT`], so that only their closes are announced to the store.
    pub number: u32,
    /// The run of the store in which the file was opened: the open counts as a writer in that run only.
    pub life: u32,
}

impl OpenFile {
    const WRITABLE: u64 = 1;
    const NUMBER_AT: u32 = 1;
    const LIFE_AT: u32 = 32;
    /// The largest file number.
    pub const NUMBER_MAX: u32 = u32::MAX >> 1;
    /// Where the store keeps file locks: the bit of a number that says that the store waits for this writer's close.
    pub const WRITER_BIT: u32 = 1 << 30;

    /// The handle for the kernel.
    pub fn encode(self) -> u64 {
        let writable = if self.writable { Self::WRITABLE } else { 0 };
        u64::from(self.life) << Self::LIFE_AT | u64::from(self.number) << Self::NUMBER_AT | writable
    }

    /// Whether the store waits for the close of this file. `locks` says whether the store keeps file locks.
    pub fn is_announced(self, locks: bool) -> bool {
        if locks { self.number & Self::WRITER_BIT != 0 } else { self.number != 0 }
    }

    /// Decodes a handle.
    pub fn decode(handle: u64) -> Self {
        let (low, life) = (handle as u32, (handle >> Self::LIFE_AT) as u32);
        Self { writable: handle & Self::WRITABLE != 0, number: low >> Self::NUMBER_AT, life }
    }
}

/// Whether the flags of open(2) include writing.
pub(crate) fn is_writer(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// A directory's names at one moment.
#[derive(Debug)]
pub(crate) struct Names {
    /// The inode of the parent directory.
    pub parent: u64,
    /// All names except "." and "..".
    pub entries: Vec<DirEntry>,
}

impl Names {
    /// Number of entries before the first name: "." and "..".
    pub const DOTS: u64 = 2;

    /// The cookie of the entry after this one.
    pub fn cookie(&self, index: usize) -> u64 {
        let hash = self.entries.get(index).map_or(0, |entry| hash(&entry.name));
        hash << 32 | (index as u64 + Self::DOTS + 1)
    }

    /// The index of the entry at which to continue for a cookie.
    pub fn index(&self, cookie: u64) -> usize {
        let after = usize::try_from(u64::from(cookie as u32).saturating_sub(Self::DOTS)).unwrap_or(usize::MAX);
        let is_it = |entry: &DirEntry| hash(&entry.name) == cookie >> 32;
        match after.checked_sub(1) {
            None => 0,
            Some(before) if self.entries.get(before).is_some_and(is_it) => after,
            Some(_) => self.entries.iter().position(is_it).map_or(0, |before| before + 1),
        }
    }
}

/// 31 bits of a name's hash (FNV-1a, folded), so that a cookie is a positive number.
fn hash(name: &str) -> u64 {
    let hash = name
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    (hash ^ hash >> 32) & 0x7FFF_FFFF
}

type Stream = Arc<Mutex<Option<Arc<Names>>>>;

/// The open directories of a mount.
#[derive(Debug, Default)]
pub(crate) struct OpenDirectories {
    streams: RwLock<HashMap<u64, Stream>>,
    last: AtomicU64,
    /// Number of names that all of them keep.
    kept: AtomicUsize,
}

impl OpenDirectories {
    /// An empty table of a process: its handles differ from those of earlier processes.
    pub fn new(process: u32) -> Self {
        Self { last: AtomicU64::new(u64::from(process) << 32), ..Self::default() }
    }

    /// Opens a directory and returns its handle.
    pub fn open(&self) -> u64 {
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.streams.write().insert(handle, Stream::default());
        handle
    }

    /// Closes a directory.
    pub fn close(&self, handle: u64) {
        let stream = self.streams.write().remove(&handle);
        let kept = stream.and_then(|stream| stream.lock().take()).map_or(0, |names| names.entries.len());
        self.kept.fetch_sub(kept, Ordering::Relaxed);
    }

    /// Whether so many names are kept that no other directory may be read.
    pub fn is_full(&self) -> bool {
        self.kept.load(Ordering::Relaxed) >= NAMES_MAX
    }

    /// The names from which to continue at `offset`. `load` loads them at the start of a directory, and for an unknown
    /// handle, which another process opened.
    pub fn names<E>(&self, handle: u64, offset: u64, load: impl FnOnce() -> Result<Names, E>) -> Result<Arc<Names>, E> {
        let known = self.streams.read().get(&handle).cloned();
        let stream = known.unwrap_or_else(|| self.streams.write().entry(handle).or_default().clone());
        let mut names = stream.lock();
        match names.as_ref().filter(|_| offset > 0) {
            Some(names) => Ok(names.clone()),
            None => {
                // The names kept before are dropped first, so that they do not count against this load.
                let before = names.take().map_or(0, |names| names.entries.len());
                self.kept.fetch_sub(before, Ordering::Relaxed);
                let loaded = Arc::new(load()?);
                self.kept.fetch_add(loaded.entries.len(), Ordering::Relaxed);
                Ok(names.insert(loaded).clone())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use objstore_files::Kind;

    use super::*;

    #[test]
    fn open_files_survive_the_kernel() {
        for (writable, number) in [(false, 0), (true, 0), (true, 1), (true, OpenFile::NUMBER_MAX)] {
            let file = OpenFile { writable, number, life: u32::MAX - 1 };
            assert_eq!(OpenFile::decode(file.encode()), file);
        }
        let announced = |number: u32, locks: bool| OpenFile { writable: true, number, life: 1 }.is_announced(locks);
        assert_eq!([0, 5].map(|number| announced(number, false)), [false, true]);
        assert_eq!([5, 5 | OpenFile::WRITER_BIT].map(|number| announced(number, true)), [false, true]);
        for flags in [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR | libc::O_APPEND] {
            assert_eq!(is_writer(flags), flags != libc::O_RDONLY);
        }
    }

    #[test]
    fn names_are_loaded_at_the_start_and_kept() {
        let open = OpenDirectories::default();
        let handle = open.open();
        let load = |parent| move || Ok::<_, ()>(Names { parent, entries: Vec::new() });
        assert_eq!(open.names(handle, 0, load(1)).unwrap().parent, 1);
        assert_eq!(open.names(handle, 5, load(2)).unwrap().parent, 1);
        assert_eq!(open.names(handle, 0, load(3)).unwrap().parent, 3);
        open.close(handle);
        assert_eq!(open.names(handle, 5, load(4)).unwrap().parent, 4);
    }

    #[test]
    fn names_that_are_kept_are_counted() {
        let open = OpenDirectories::default();
        let (first, second) = (open.open(), open.open());
        let load = |count| {
            let entry = DirEntry { name: "a".into(), ino: 9, kind: Kind::File };
            move || Ok::<_, ()>(Names { parent: 1, entries: vec![entry; count] })
        };
        open.names(first, 0, load(NAMES_MAX / 2)).unwrap();
        open.names(second, 0, load(NAMES_MAX / 2)).unwrap();
        assert!(open.is_full());
        open.names(first, 0, load(10)).unwrap();
        assert!(!open.is_full(), "read again, it keeps less");
        open.close(first);
        open.close(second);
        assert_eq!(open.kept.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_place_is_found_in_names_that_were_loaded_anew() {
        let names = |all: &[&str]| {
            let entry = |name: &&str| DirEntry { name: (*name).to_owned(), ino: 9, kind: Kind::File };
            Names { parent: 1, entries: all.iter().map(entry).collect() }
        };
        let old = names(&["a", "b", "c", "d"]);
        for index in 0..4 {
            assert_eq!(old.index(old.cookie(index)), index + 1);
            assert!(old.cookie(index).cast_signed() > 0);
        }
        assert_eq!((old.index(0), old.index(1), old.index(2)), (0, 0, 0));
        let after_b = old.cookie(1);
        assert_eq!(names(&["b", "c", "d"]).index(after_b), 1, "what was before it is gone");
        assert_eq!(names(&["0", "a", "b", "c"]).index(after_b), 3, "something came before it");
        assert_eq!(names(&["c", "d"]).index(after_b), 0, "it is gone itself");
        assert_eq!(names(&[]).index(after_b), 0);
    }
}
