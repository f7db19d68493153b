//! Blob ids.
//!
//! - An id is never reused in the life of a store: it consists of an epoch, which grows at each open, and a sequence
//!   number within it.
//! - An epoch that runs out of numbers (after 2^32 blobs) is followed by the next one at once. The file `epoch` then
//!   holds the highest epoch in use and its CRC-32C, and from then on the store counts from it instead of from its
//!   caller's epoch.
//!
//! A crash leaves the file `epoch` at a value that no id exceeds.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use objstore_base::error::{Error, Result};
use objstore_disk::{Disk, Poison};

/// The id of a blob, never reused: an epoch in the upper 32 bits, a sequence number in the lower.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BlobId(pub u64);

impl BlobId {
    /// How often the store had been opened when the blob was made.
    pub fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Where a blob is stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// In its own file.
    File,
    /// In a segment, among other blobs.
    Packed {
        /// The segment.
        segment: u64,
        /// The offset of the record's header in the segment, in bytes.
        offset: u64,
    },
}

/// Parses the 16 hex digits of a file name; `None` for a name that this store did not write.
pub(super) fn parse_hex(digits: &str) -> Option<u64> {
    let plain = digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    plain.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// The source of new blob ids.
pub(super) struct Ids {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    poison: Poison,
    next: AtomicU64,
    noted: AtomicU32,
    noting: Mutex<()>,
}

impl Ids {
    /// Ids of `epoch`, or of a later epoch if an earlier opening went beyond it.
    pub(super) fn open(disk: Arc<dyn Disk>, dir: &Path, epoch: u32, poison: Poison) -> Result<Self> {
        let path = dir.join("epoch");
        let mut epoch = epoch;
        if disk.exists(&path)? {
            let used = parse_epoch(&path, &disk.read_all(&path)?)?;
            epoch = epoch.max(used.checked_add(1).ok_or_else(|| exhausted(&path))?);
            write_epoch(&*disk, &path, epoch)?;
        }
        let next = AtomicU64::new(u64::from(epoch) << 32 | 1);
        Ok(Self { disk, path, poison, next, noted: AtomicU32::new(epoch), noting: Mutex::new(()) })
    }

    /// A new blob id.
    pub(super) fn next(&self) -> BlobId {
        let id = BlobId(self.next.fetch_add(1, Ordering::Relaxed));
        if id.epoch() > self.noted.load(Ordering::Acquire) {
            self.note(id.epoch());
        }
        id
    }

    /// A new blob id whose low byte is `low`. It skips up to 255 sequence numbers.
    pub(super) fn next_in(&self, low: usize) -> BlobId {
        loop {
            let id = self.next();
            let behind = (low as u64).wrapping_sub(id.0) & 0xff;
            if behind == 0 {
                return id;
            }
            self.next.fetch_add(behind - 1, Ordering::Relaxed);
        }
    }

    /// The epoch of the ids that are given out now.
    pub(super) fn epoch(&self) -> u32 {
        self.noted.load(Ordering::Acquire)
    }

    // Records the new epoch on disk before any id of it is given out. If that fails, the store is poisoned, so nothing
    // can be written under such an id.
    fn note(&self, epoch: u32) {
        let _one = self.noting.lock();
        if epoch > self.noted.load(Ordering::Acquire)
            && self.poison.judge(write_epoch(&*self.disk, &self.path, epoch)).is_ok()
        {
            self.noted.store(epoch, Ordering::Release);
        }
    }
}

fn write_epoch(disk: &dyn Disk, path: &Path, epoch: u32) -> Result<()> {
    disk.write_atomic(path, format!("{}\n", summed(epoch)).as_bytes(), 0o600)
}

fn summed(epoch: u32) -> String {
    format!("{epoch} {:08x}", crc_fast::crc32_iscsi(&epoch.to_be_bytes()))
}

fn parse_epoch(path: &Path, content: &[u8]) -> Result<u32> {
    let text = std::str::from_utf8(content).unwrap_or_default().trim_end();
    let parsed = text.split(' ').next().and_then(|number| number.parse().ok());
    parsed.filter(|epoch| summed(*epoch) == text).ok_or_else(|| {
        let found = String::from_utf8_lossy(content).into_owned();
        Error::corrupt(path.display().to_string(), "a decimal number and its checksum", found)
    })
}

fn exhausted(path: &Path) -> Error {
    Error::Unusable { why: format!("{} holds the last epoch: copy the data to a new store", path.display()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use objstore_disk::RealDisk;

    fn ids(dir: &Path, epoch: u32) -> Ids {
        Ids::open(Arc::new(RealDisk::new()), dir, epoch, Poison::default()).unwrap()
    }

    #[test]
    fn ids_carry_the_epoch_and_differ() {
        let dir = tempfile::tempdir().unwrap();
        let ids = ids(dir.path(), 7);
        assert_eq!(ids.next(), BlobId(7 << 32 | 1));
        assert_eq!(ids.next(), BlobId(7 << 32 | 2));
        assert!(!dir.path().join("epoch").exists());
    }

    #[test]
    fn ids_of_one_folder_differ() {
        let dir = tempfile::tempdir().unwrap();
        let ids = ids(dir.path(), 7);
        for low in [0, 0, 1, 255, 255, 3] {
            let before = ids.next();
            let id = ids.next_in(low);
            assert!(id > before && id.0 & 0xff == low as u64 && id.0 - before.0 <= 256, "{id:?} after {before:?}");
        }
    }

    #[test]
    fn an_exhausted_epoch_never_gives_an_id_twice_over_reopens() {
        let dir = tempfile::tempdir().unwrap();
        let first = ids(dir.path(), 7);
        first.next.store(8 << 32, Ordering::Relaxed);
        assert_eq!(first.next().epoch(), 8);
        // The caller's epoch counts only how often the store was opened.
        assert_eq!(ids(dir.path(), 8).next().epoch(), 9);
        assert_eq!(ids(dir.path(), 9).next().epoch(), 10);
        assert_eq!(ids(dir.path(), 50).next().epoch(), 50);
    }

    #[test]
    fn a_damaged_epoch_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        for damaged in ["x", "", "8", "9 deadbeef", &format!("{}1", summed(7))] {
            std::fs::write(dir.path().join("epoch"), damaged).unwrap();
            let opened = Ids::open(Arc::new(RealDisk::new()), dir.path(), 1, Poison::default());
            assert!(matches!(opened, Err(Error::Corrupt { .. })), "{damaged}");
        }
        std::fs::write(dir.path().join("epoch"), summed(7)).unwrap();
        assert_eq!(ids(dir.path(), 1).next().epoch(), 8);
    }

    #[test]
    fn only_names_this_store_writes_are_parsed() {
        assert_eq!(parse_hex(&BlobId(0x1_0000_00ff).to_string()), Some(0x1_0000_00ff));
        for foreign in ["", "1", "+000000000000001", "00000000000000FF", "00000000000000001", "é00000000000000"] {
            assert_eq!(parse_hex(foreign), None, "{foreign}");
        }
    }
}
