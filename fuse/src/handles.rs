//! Open files and open directories.
//!
//! - An open file is a value in its handle, not an entry in a table: it costs nothing and outlives this process.
//! - An open directory keeps the names it had when reading began: a cookie is an index into them, so a listing is
//!   stable while others change the directory. Reading from the start (rewinddir) loads them anew.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use objstore::volume::DirEntry;
use parking_lot::{Mutex, RwLock};

/// An open file, as the number the kernel keeps for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFile {
    /// Whether it was opened for writing, so that closing it has something to hand in.
    pub writable: bool,
}

impl OpenFile {
    const WRITABLE: u64 = 1;

    /// From the flags of open(2).
    pub fn from_flags(flags: i32) -> Self {
        Self { writable: flags & libc::O_ACCMODE != libc::O_RDONLY }
    }

    /// The number for the kernel.
    pub fn encode(self) -> u64 {
        if self.writable { Self::WRITABLE } else { 0 }
    }

    /// From the kernel's number.
    pub fn decode(handle: u64) -> Self {
        Self { writable: handle & Self::WRITABLE != 0 }
    }
}

/// The names of a directory from one moment.
#[derive(Debug)]
pub(crate) struct Names {
    /// The directory above.
    pub parent: u64,
    /// All but "." and "..".
    pub entries: Vec<DirEntry>,
}

type Stream = Arc<Mutex<Option<Arc<Names>>>>;

/// The open directories.
#[derive(Debug, Default)]
pub(crate) struct OpenDirectories {
    streams: RwLock<HashMap<u64, Stream>>,
    last: AtomicU64,
}

impl OpenDirectories {
    /// A handle for one more.
    pub fn open(&self) -> u64 {
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.streams.write().insert(handle, Stream::default());
        handle
    }

    /// Closes one.
    pub fn close(&self, handle: u64) {
        self.streams.write().remove(&handle);
    }

    /// The names to go on with from `offset`, loaded by `load` at the start. A handle that is not known, because
    /// another process opened it, loads them each time.
    pub fn names<E>(&self, handle: u64, offset: u64, load: impl FnOnce() -> Result<Names, E>) -> Result<Arc<Names>, E> {
        let stream = self.streams.read().get(&handle).cloned().unwrap_or_default();
        let mut names = stream.lock();
        match names.as_ref().filter(|_| offset > 0) {
            Some(names) => Ok(names.clone()),
            None => Ok(names.insert(Arc::new(load()?)).clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_survive_the_kernel() {
        for flags in [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR | libc::O_APPEND] {
            let file = OpenFile::from_flags(flags);
            assert_eq!(OpenFile::decode(file.encode()), file);
            assert_eq!(file.writable, flags & libc::O_ACCMODE != libc::O_RDONLY);
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
}
