//! The watermark file beside the journal: up to which batch it was synced, and up to which batch tables contain it.
//!
//! - fjall takes a journal that ends early to be torn by a crash; only the number of the last synced batch
//!   distinguishes the two cases.
//! - An incomplete batch was torn by a crash only if it was not on disk ([`torn`](super::torn)).
//! - Batches that are in tables need not be read again when the store is opened ([`trim`](super::trim)).
//! - The file has 20 bytes: two of our numbers and their CRC-32C, big-endian. It is written at most once a second,
//!   after the sync that it records, and when the store is closed. It is never synced, since an older one is also true.
//!   A file of 28 bytes is from an older version: its first number has the same meaning, the other two are fjall's and
//!   not used.
//!
//! A crash leaves an older file, or none that counts.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use objstore_base::error::{Error, Result};

/// The shortest time between two writes of the watermark.
const PAUSE: Duration = Duration::from_secs(1);

/// The length of a watermark without its checksum, in bytes.
const BYTES: usize = 16;

const SUM_BYTES: usize = 4;

/// The length of an older version's watermark without its checksum, in bytes.
const FORMER_BYTES: usize = 24;

/// The content of the watermark file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// Every batch up to this one was on disk.
    pub batch: u64,
    /// Every batch up to this one is in tables.
    pub tables: u64,
}

impl Mark {
    /// Reads the watermark in `folder`. One that is damaged or missing counts as zeros.
    pub fn read(folder: &Path) -> Self {
        let path = path(folder);
        let mark = match std::fs::read(&path) {
            Ok(bytes) => Self::decode(&bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => return Self::default(),
            Err(_) => None,
        };
        mark.unwrap_or_else(|| {
            tracing::warn!(path = %path.display(), "the metadata watermark is damaged; a new one is written");
            Self::default()
        })
    }

    fn write(self, path: &Path) -> std::io::Result<()> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        file.write_all_at(&self.encode(), 0)?;
        file.set_len(BYTES as u64 + SUM_BYTES as u64)
    }

    fn encode(self) -> [u8; BYTES + SUM_BYTES] {
        let mut bytes = [0; BYTES + SUM_BYTES];
        bytes[..8].copy_from_slice(&self.batch.to_be_bytes());
        bytes[8..BYTES].copy_from_slice(&self.tables.to_be_bytes());
        let sum = crc_fast::crc32_iscsi(&bytes[..BYTES]);
        bytes[BYTES..].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<SUM_BYTES>()?;
        let number = |at: usize| Some(u64::from_be_bytes(body.get(at..at + 8)?.try_into().ok()?));
        let batch = number(0).filter(|_| crc_fast::crc32_iscsi(body) == u32::from_be_bytes(*sum))?;
        match body.len() {
            BYTES => Some(Self { batch, tables: number(8)? }),
            FORMER_BYTES => Some(Self { batch, tables: 0 }),
            _ => None,
        }
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join("synced")
}

/// Keeps the watermark of one folder up to date.
pub(super) struct Tail {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    committed: u64,
    /// The content of the next write.
    now: Mark,
    /// The content of the last write, and its time.
    mark: Mark,
    written: Option<Instant>,
}

impl Tail {
    /// Continues after the watermark `mark` in `folder`, whose metadata ends at the batch `last` and is in tables up to
    /// `tables`.
    ///
    /// # Errors
    /// [`Error::Unusable`] if a later batch was on disk.
    pub fn open(folder: &Path, mark: Mark, last: u64, tables: u64) -> Result<Self> {
        if mark.batch > last {
            let why = format!(
                "the metadata in \"{}\" ends at batch {last}, and batch {} was on disk: a journal file in it was \
                 cut short or is missing; put it back, or restore the data folder from a backup",
                folder.display(),
                mark.batch
            );
            return Err(Error::Unusable { why });
        }
        let state =
            State { committed: last, now: Mark { batch: last, tables: tables.max(mark.tables) }, mark, written: None };
        Ok(Self { path: path(folder), state: Mutex::new(state) })
    }

    /// Records a commit.
    pub fn committed(&self, batch: u64) {
        self.state.lock().committed = batch;
    }

    /// The number of the last commit.
    pub fn last(&self) -> u64 {
        self.state.lock().committed
    }

    /// Records that everything up to `batch` is on disk; `tables` returns the last batch in tables.
    pub fn synced(&self, batch: u64, tables: impl FnOnce() -> u64) {
        let mut state = self.state.lock();
        state.now.batch = state.now.batch.max(batch);
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
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "cannot update the metadata watermark; the older one stays");
            }
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
        let mark = Mark { batch: 7, tables: 5 };
        assert_eq!(Mark::decode(&mark.encode()), Some(mark));
        for at in 0..BYTES + SUM_BYTES {
            let mut bytes = mark.encode();
            bytes[at] ^= 1;
            assert_eq!(Mark::decode(&bytes), None);
            assert_eq!(Mark::decode(&mark.encode()[..at]), None);
        }
    }

    #[test]
    fn a_mark_of_an_older_version_says_what_was_on_disk() {
        let mut bytes = [7, 290, 300].map(u64::to_be_bytes).concat();
        bytes.extend(crc_fast::crc32_iscsi(&bytes).to_be_bytes());
        let former = Mark { batch: 7, tables: 0 };
        assert_eq!(Mark::decode(&bytes), Some(former));
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(path(dir.path()), bytes).unwrap();
        let next = Mark { batch: 8, tables: 3 };
        next.write(&path(dir.path())).unwrap();
        assert_eq!(Mark::read(dir.path()), next);
    }

    #[test]
    fn an_end_that_was_on_disk_is_missed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_owned();
        let tail = Tail::open(&folder, Mark::read(&folder), 3, 0).unwrap();
        tail.committed(5);
        tail.synced(5, || 4);
        tail.committed(6);
        assert_eq!(tail.last(), 6);
        drop(tail);
        assert_eq!(Mark::read(&folder), Mark { batch: 5, tables: 4 });
        let error = Tail::open(&folder, Mark::read(&folder), 4, 0).err().unwrap();
        assert!(error.to_string().contains("ends at batch 4, and batch 5 was on disk"), "{error}");
        Tail::open(&folder, Mark::read(&folder), 5, 0).unwrap();
        std::fs::write(folder.join("synced"), b"damaged").unwrap();
        Tail::open(&folder, Mark::read(&folder), 1, 0).unwrap();
    }
}
