//! The mark beside the journal: a batch that was on disk, so that a journal that was cut short or lost is noticed.
//!
//! - fjall takes a journal that ends early for one that a crash tore, and rightly so: only the number of a batch that was
//!   synced tells the two apart.
//! - The mark is 12 bytes: the number and its CRC-32C, big-endian. It is written at most once a second, after the sync
//!   that it speaks of, and when the store is closed; it is never synced, since an older one is as true.
//!
//! A crash leaves an older mark, or none that counts.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// Between two marks, at least.
const PAUSE: Duration = Duration::from_secs(1);

/// The mark of one folder.
pub(super) struct Tail {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last batch committed, and the last on disk.
    committed: u64,
    synced: u64,
    /// The one that the mark says, and when it was written.
    marked: u64,
    written: Option<Instant>,
}

impl Tail {
    /// The mark of the metadata in `folder`, which ends at batch `last`.
    ///
    /// # Errors
    /// [`Error::Unusable`] if a later batch was on disk.
    pub fn open(folder: &Path, last: u64) -> Result<Self> {
        let path = folder.join("synced");
        let marked = read(&path).unwrap_or(0);
        if marked > last {
            let why = format!(
                "the metadata in \"{}\" ends at batch {last}, and batch {marked} was on disk: a journal file in it was \
                 cut short or is missing; bring it back, or restore the data folder from a backup",
                folder.display()
            );
            return Err(Error::Unusable { why });
        }
        let state = State { committed: last, synced: last, marked, written: None };
        Ok(Self { path, state: Mutex::new(state) })
    }

    /// Notes a commit.
    pub fn committed(&self, batch: u64) {
        self.state.lock().committed = batch;
    }

    /// Notes that every commit is on disk.
    pub fn synced(&self) {
        let mut state = self.state.lock();
        state.synced = state.committed;
        if state.written.is_none_or(|written| written.elapsed() >= PAUSE) {
            self.mark(&mut state);
        }
    }

    fn mark(&self, state: &mut State) {
        if state.marked == state.synced {
            return;
        }
        state.written = Some(Instant::now());
        match write(&self.path, state.synced) {
            Ok(()) => state.marked = state.synced,
            Err(error) => tracing::warn!(path = %self.path.display(), %error, "the mark of the metadata's end is old"),
        }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let mut state = std::mem::take(&mut *self.state.lock());
        self.mark(&mut state);
    }
}

fn encode(batch: u64) -> [u8; 12] {
    let mut mark = [0; 12];
    mark[..8].copy_from_slice(&batch.to_be_bytes());
    mark[8..].copy_from_slice(&crc(&batch.to_be_bytes()).to_be_bytes());
    mark
}

fn crc(bytes: &[u8]) -> u32 {
    // Of 32 bits.
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

fn decode(mark: &[u8]) -> Option<u64> {
    let batch = u64::from_be_bytes(mark.get(..8)?.try_into().ok()?);
    (mark == encode(batch)).then_some(batch)
}

/// What the mark says. One that is damaged or missing says nothing.
fn read(path: &Path) -> Option<u64> {
    let batch = decode(&std::fs::read(path).ok()?);
    if batch.is_none() {
        tracing::warn!(path = %path.display(), "the mark of the metadata's end is damaged: it is made anew");
    }
    batch
}

fn write(path: &Path, batch: u64) -> std::io::Result<()> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    file.write_all_at(&encode(batch), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_round_trips_and_a_damaged_one_says_nothing() {
        assert_eq!(decode(&encode(7)), Some(7));
        for at in 0..12 {
            let mut mark = encode(7);
            mark[at] ^= 1;
            assert_eq!(decode(&mark), None);
        }
        assert_eq!(decode(&encode(7)[..11]), None);
    }

    #[test]
    fn an_end_that_was_on_disk_is_missed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_owned();
        let tail = Tail::open(&folder, 3).unwrap();
        tail.committed(5);
        tail.synced();
        tail.committed(6);
        drop(tail);
        let error = Tail::open(&folder, 4).err().unwrap();
        assert!(error.to_string().contains("ends at batch 4, and batch 5 was on disk"), "{error}");
        Tail::open(&folder, 5).unwrap();
        std::fs::write(folder.join("synced"), b"damaged").unwrap();
        Tail::open(&folder, 1).unwrap();
    }
}
