//! The mark beside the journal: how much of it was on disk, and how much of it is in tables.
//!
//! - fjall takes a journal that ends early for one that a crash tore, and rightly so: only the number of a batch that was
//!   synced tells the two apart.
//! - A batch that is not whole was torn by a crash only if it was not on disk ([`torn`](super::torn)).
//! - What is in tables need not be read again when the store is opened ([`trim`](super::trim)).
//! - The mark is 28 bytes: three numbers and their CRC-32C, big-endian. It is written at most once a second, after the sync
//!   that it speaks of, and when the store is closed; it is never synced, since an older one is as true.
//!
//! A crash leaves an older mark, or none that counts.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// Between two marks, at least.
const PAUSE: Duration = Duration::from_secs(1);

/// Of a mark without its checksum.
const BYTES: usize = 24;

/// What the mark says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// A batch that was on disk, by our number.
    pub batch: u64,
    /// Every batch below this one was on disk, by fjall's number.
    pub journal: u64,
    /// Every batch up to this one is in tables, by fjall's number.
    pub tables: u64,
}

impl Mark {
    /// The one in `folder`. One that is damaged or missing says nothing.
    pub fn read(folder: &Path) -> Self {
        let path = path(folder);
        let mark = match std::fs::read(&path) {
            Ok(bytes) => Self::decode(&bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => return Self::default(),
            Err(_) => None,
        };
        mark.unwrap_or_else(|| {
            tracing::warn!(path = %path.display(), "the mark of the metadata's end is damaged: it is made anew");
            Self::default()
        })
    }

    fn write(self, path: &Path) -> std::io::Result<()> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        file.write_all_at(&self.encode(), 0)
    }

    fn encode(self) -> [u8; BYTES + 4] {
        let mut bytes = [0; BYTES + 4];
        bytes[..8].copy_from_slice(&self.batch.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.journal.to_be_bytes());
        bytes[16..BYTES].copy_from_slice(&self.tables.to_be_bytes());
        let sum = crc_fast::crc32_iscsi(&bytes[..BYTES]);
        bytes[BYTES..].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let mark = Self { batch: number(0)?, journal: number(8)?, tables: number(16)? };
        (bytes == mark.encode()).then_some(mark)
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join("synced")
}

/// How far the journal goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct End {
    /// The last batch, by our number.
    pub batch: u64,
    /// The next one will have at least this number of fjall's.
    pub journal: u64,
}

/// Keeps the mark of one folder.
pub(super) struct Tail {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    committed: End,
    /// What the mark is to say next.
    now: Mark,
    /// What it says, and when it was written.
    mark: Mark,
    written: Option<Instant>,
}

impl Tail {
    /// Goes on after `mark` with the metadata in `folder`, which ends at `last`.
    ///
    /// # Errors
    /// [`Error::Unusable`] if a later batch was on disk.
    pub fn open(folder: &Path, mark: Mark, last: End) -> Result<Self> {
        if mark.batch > last.batch {
            let why = format!(
                "the metadata in \"{}\" ends at batch {}, and batch {} was on disk: a journal file in it was \
                 cut short or is missing; bring it back, or restore the data folder from a backup",
                folder.display(),
                last.batch,
                mark.batch
            );
            return Err(Error::Unusable { why });
        }
        let now = Mark { batch: last.batch, journal: last.journal, ..mark };
        let state = State { committed: last, now, mark, written: None };
        Ok(Self { path: path(folder), state: Mutex::new(state) })
    }

    /// Notes a commit, after which the journal ends at `end`.
    pub fn committed(&self, end: End) {
        self.state.lock().committed = end;
    }

    /// Where the last commit ended.
    pub fn last(&self) -> End {
        self.state.lock().committed
    }

    /// Notes that all before `end` is on disk; `tables` gives how much is in tables.
    pub fn synced(&self, end: End, tables: impl FnOnce() -> u64) {
        let mut state = self.state.lock();
        state.now.batch = state.now.batch.max(end.batch);
        state.now.journal = state.now.journal.max(end.journal);
        if state.written.is_none_or(|written| written.elapsed() >= PAUSE) {
            state.now.tables = tables();
            self.write(&mut state);
        }
    }

    fn write(&self, state: &mut State) {
        if state.mark == state.now {
            return;
        }
        state.written = Some(Instant::now());
        match state.now.write(&self.path) {
            Ok(()) => state.mark = state.now,
            Err(error) => tracing::warn!(path = %self.path.display(), %error, "the mark of the metadata's end is old"),
        }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let mut state = std::mem::take(&mut *self.state.lock());
        self.write(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_round_trips_and_a_damaged_one_says_nothing() {
        let mark = Mark { batch: 7, journal: 290, tables: 300 };
        assert_eq!(Mark::decode(&mark.encode()), Some(mark));
        for at in 0..BYTES + 4 {
            let mut bytes = mark.encode();
            bytes[at] ^= 1;
            assert_eq!(Mark::decode(&bytes), None);
            assert_eq!(Mark::decode(&mark.encode()[..at]), None);
        }
    }

    #[test]
    fn an_end_that_was_on_disk_is_missed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_owned();
        let at = |batch| End { batch, journal: 10 * batch };
        let tail = Tail::open(&folder, Mark::read(&folder), at(3)).unwrap();
        tail.committed(at(5));
        tail.synced(at(5), || 40);
        tail.committed(at(6));
        assert_eq!(tail.last(), at(6));
        drop(tail);
        assert_eq!(Mark::read(&folder), Mark { batch: 5, journal: 50, tables: 40 });
        let error = Tail::open(&folder, Mark::read(&folder), at(4)).err().unwrap();
        assert!(error.to_string().contains("ends at batch 4, and batch 5 was on disk"), "{error}");
        Tail::open(&folder, Mark::read(&folder), at(5)).unwrap();
        std::fs::write(folder.join("synced"), b"damaged").unwrap();
        Tail::open(&folder, Mark::read(&folder), at(1)).unwrap();
    }
}
