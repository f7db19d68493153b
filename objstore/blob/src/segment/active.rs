//! The growing segment.
//!
//! - One thread owns it, and no other writes to it.
//! - A group counts only once it is synced; a group that failed is cut off again.
//!
//! A crash leaves the synced groups, possibly a part of one more, and zeros.

use std::path::Path;
use std::sync::Arc;

use objstore_base::error::Result;
use objstore_disk::{Disk, File, Poison};

use super::header::{FILE_HEADER, FileHeader};
use super::segment_path;

// The number of bytes that are zeroed ahead. A sync that has to record neither new space nor a new size takes half the
// time, so zeros are written ahead, in a group that has to record both anyway. Preallocated space alone (fallocate)
// gains nothing, since its first use is recorded too; and large groups gain nothing either, and would write everything
// twice.
const ZEROED: usize = 1024 * 1024;
const SMALL_GROUP: usize = 64 * 1024;
const ZEROS: &[u8] = &[0; ZEROED];

/// The segment that grows.
pub(super) struct Active {
    pub(super) segment: u64,
    /// The offset of the end of the synced groups.
    pub(super) end: u64,
    file: Arc<dyn File>,
    zeroed: u64,
    named: bool,
}

impl Active {
    /// Creates the file of `segment` in `dir`.
    pub(super) fn create(disk: &dyn Disk, dir: &Path, segment: u64) -> Result<Self> {
        let path = segment_path(dir, segment);
        let file = disk.create(&path)?;
        if let Err(error) = file.write_at(&FileHeader { segment }.encode(), 0) {
            // An empty segment is harmless: the collector removes it.
            let _ = disk.remove(&path);
            return Err(error);
        }
        let end = FILE_HEADER as u64;
        Ok(Self { segment, end, file, zeroed: end, named: false })
    }

    /// Writes `group` at the end and makes it durable.
    pub(super) fn append(&mut self, group: &[u8], disk: &dyn Disk, dir: &Path, poison: &Poison) -> Result<()> {
        if let Err(error) = self.write(group) {
            self.zeroed = self.end;
            // Removes what was written of the group, which must not remain behind the next, shorter one.
            poison.judge(self.file.set_len(self.end))?;
            return Err(error);
        }
        poison.judge(self.file.sync())?;
        if !self.named {
            poison.judge(disk.sync_dir(dir))?;
            self.named = true;
        }
        self.end += group.len() as u64;
        Ok(())
    }

    /// Writes `group` as all of a segment that is one object. A failed request poisons nothing: the object, if there is one,
    /// is never named, and the next group has another.
    pub(super) fn send(&mut self, group: &[u8]) -> Result<()> {
        self.file.write_at(group, self.end)?;
        self.file.sync()?;
        self.end += group.len() as u64;
        Ok(())
    }

    /// Frees the space behind the end; nothing more is written to the segment.
    pub(super) fn close(&self) {
        if let Err(error) = self.file.set_len(self.end) {
            tracing::debug!(segment = self.segment, %error, "a full segment keeps zeros after its records");
        }
    }

    fn write(&mut self, group: &[u8]) -> Result<()> {
        self.file.write_at(group, self.end)?;
        let end = self.end + group.len() as u64;
        if end > self.zeroed && group.len() <= SMALL_GROUP {
            // A disk that is too full for the zeros may still have space for further groups.
            self.zeroed = if self.file.write_at(ZEROS, end).is_ok() { end + ZEROED as u64 } else { end };
        }
        Ok(())
    }
}
