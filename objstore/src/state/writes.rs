//! The writes of another machine's sessions, noted so that a call that is sent again is not written again.
//!
//! - Writing twice leads to the same bytes, unless another session wrote there in between: it would see its bytes undone.
//!   So each slot of a session has a cell in a small file. It is written before the bytes and again behind them, while
//!   the inode's lock is held exclusively: nobody else writes in between.
//! - The file is never synced. It says what happened before the process died; what a machine did that lost power since is
//!   unknown, so its cells are not believed, and the call is executed again.
//! - A cell lies within one page and is written by one call, which the death of the process does not split.
//!
//! A crash before the first note leaves the cell of an earlier call. A crash between the two leaves one that the next
//! opening of the store compares with the file, before anything changes it: the bytes are there, or the call is executed
//! again. A crash behind the second note leaves an outcome.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::appends::FOLDER;
use crate::disk::{Disk, File};
use crate::error::Result;
use crate::session_id::SessionId;

/// The size of a cell in bytes.
const CELL_BYTES: usize = 128;
/// The longest reply that a cell holds.
const REPLY_BYTES_MAX: usize = CELL_BYTES - 74;
/// How the names of these files end.
pub(super) const SUFFIX: &str = ".writes";

/// The writes of a session.
pub(crate) struct Writes {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Which start of the machine this is; `None` if that is unknown: then nothing is noted.
    machine: Option<u64>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// Created by the first write.
    file: Option<Arc<dyn File>>,
    cells: HashMap<u32, WriteNote>,
}

/// A write, as its cell has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteNote {
    /// The number of the call in its slot.
    pub sequence: u64,
    /// The digest of its content.
    pub digest: [u8; 16],
    /// The number of the kernel's request; zero for none.
    pub unique: u64,
    /// Where it writes.
    pub ino: u64,
    /// The offset of its first byte.
    pub offset: u64,
    /// How many bytes it writes.
    pub len: u64,
    /// A checksum of these bytes.
    pub sum: u64,
    /// The bytes of its reply.
    pub reply: Vec<u8>,
    /// Whether the bytes are written.
    pub is_done: bool,
}

impl WriteNote {
    fn encode(&self, machine: u64) -> [u8; CELL_BYTES] {
        let mut cell = [0; CELL_BYTES];
        let numbers = [self.sequence, machine, self.ino, self.offset, self.len, self.sum];
        for (field, number) in cell.chunks_exact_mut(8).zip(numbers) {
            field.copy_from_slice(&number.to_le_bytes());
        }
        cell[48..64].copy_from_slice(&self.digest);
        cell[64] = u8::from(self.is_done);
        let length = self.reply.len().min(REPLY_BYTES_MAX);
        cell[65] = length as u8;
        cell[66..66 + length].copy_from_slice(&self.reply[..length]);
        cell[CELL_BYTES - 8..].copy_from_slice(&self.unique.to_le_bytes());
        cell
    }

    /// Decodes a cell; `None` if it is empty or of an earlier start of the machine.
    fn decode(cell: &[u8], machine: u64) -> Option<Self> {
        let number = |at: usize| cell.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let reply = cell.get(66..)?.get(..usize::from(*cell.get(65)?))?.to_vec();
        let note = Self {
            sequence: number(0)?,
            digest: *cell.get(48..)?.first_chunk()?,
            unique: number(CELL_BYTES - 8)?,
            ino: number(16)?,
            offset: number(24)?,
            len: number(32)?,
            sum: number(40)?,
            reply,
            is_done: *cell.get(64)? == 1,
        };
        (note.sequence != 0 && number(8)? == machine).then_some(note)
    }
}

impl Writes {
    /// The writes of a new session.
    pub fn new(disk: Arc<dyn Disk>, dir: &Path, id: SessionId) -> Self {
        let path = dir.join(FOLDER).join(format!("{:016x}{SUFFIX}", id.get()));
        let unknown =
            |error: &_| tracing::warn!(%error, "writes that are sent again after a restart are written again");
        let machine = disk.machine().inspect_err(unknown).ok();
        Self { disk, path, machine, table: Mutex::default() }
    }

    /// The writes of a continuing session, at the opening of a store.
    pub fn recover(disk: Arc<dyn Disk>, dir: &Path, id: SessionId) -> Result<Self> {
        let found = Self::new(disk, dir, id);
        if let Some(machine) = found.machine
            && found.disk.exists(&found.path)?
        {
            let bytes = found.disk.read_all(&found.path)?;
            let cells = (0..).zip(bytes.chunks_exact(CELL_BYTES));
            let cells = cells.filter_map(|(slot, cell)| Some((slot, WriteNote::decode(cell, machine)?))).collect();
            *found.table.lock() = Table { file: Some(found.disk.open(&found.path)?), cells };
        }
        Ok(found)
    }

    /// Notes a write, before its first byte; the caller holds the inode's lock exclusively until [`Writes::done`].
    pub fn begin(&self, slot: u32, note: WriteNote) -> Result<()> {
        self.put(slot, WriteNote { is_done: false, ..note })
    }

    /// Notes that the bytes are written.
    pub fn done(&self, slot: u32) -> Result<()> {
        let noted = self.table.lock().cells.get(&slot).cloned();
        noted.map_or(Ok(()), |note| self.put(slot, WriteNote { is_done: true, ..note }))
    }

    /// The last write of a slot whose bytes are written.
    pub fn last(&self, slot: u32) -> Option<WriteNote> {
        self.table.lock().cells.get(&slot).filter(|note| note.is_done).cloned()
    }

    /// All slots with their last writes.
    pub fn all(&self) -> Vec<(u32, WriteNote)> {
        self.table.lock().cells.iter().map(|(slot, note)| (*slot, note.clone())).collect()
    }

    fn put(&self, slot: u32, note: WriteNote) -> Result<()> {
        let Some(machine) = self.machine else { return Ok(()) };
        let file = {
            let mut table = self.table.lock();
            match &table.file {
                Some(file) => file.clone(),
                None => table.file.insert(self.create()?).clone(),
            }
        };
        file.write_at(&note.encode(machine), u64::from(slot) * CELL_BYTES as u64)?;
        self.table.lock().cells.insert(slot, note);
        Ok(())
    }

    fn create(&self) -> Result<Arc<dyn File>> {
        if let Some(folder) = self.path.parent() {
            self.disk.make_dir(folder)?;
        }
        // One left by a crash.
        self.disk.remove(&self.path)?;
        self.disk.create(&self.path)
    }

    /// Removes the file of an ending session; opening a store removes leftovers.
    pub fn remove(&self) {
        let mut table = self.table.lock();
        if table.file.take().is_some()
            && let Err(error) = self.disk.remove(&self.path)
        {
            tracing::warn!(%error, "the notes of an ended session could not be removed; the next start removes them");
        }
        *table = Table::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    fn note(sequence: u64) -> WriteNote {
        let reply = vec![8, 1];
        WriteNote {
            sequence,
            digest: [7; 16],
            unique: u64::MAX - 1,
            ino: u64::MAX,
            offset: 3,
            len: 4,
            sum: 5,
            reply,
            is_done: false,
        }
    }

    #[test]
    fn a_cell_reads_as_it_was_written_and_only_on_the_machine_that_has_not_lost_power() {
        let done = WriteNote { is_done: true, ..note(9) };
        assert_eq!(WriteNote::decode(&done.encode(1), 1), Some(done.clone()));
        assert_eq!(WriteNote::decode(&done.encode(1), 2), None);
        assert_eq!(WriteNote::decode(&[0; CELL_BYTES], 0), None);
        let long = WriteNote { reply: vec![1; 200], ..done };
        assert_eq!(WriteNote::decode(&long.encode(1), 1).map(|read| read.reply.len()), Some(REPLY_BYTES_MAX));
        for length in 0..CELL_BYTES {
            let _ = WriteNote::decode(&long.encode(1)[..length], 1);
        }
    }

    #[test]
    fn a_process_that_follows_knows_the_last_write_of_each_slot() {
        let dir = tempfile::tempdir().unwrap();
        let disk = || Arc::new(RealDisk::new());
        let id = SessionId::new(7).unwrap();
        let writes = Writes::new(disk(), dir.path(), id);
        writes.begin(0, note(1)).unwrap();
        writes.done(0).unwrap();
        writes.begin(2, note(4)).unwrap();
        assert_eq!((writes.last(0).map(|last| last.sequence), writes.last(2)), (Some(1), None));
        let after = Writes::recover(disk(), dir.path(), id).unwrap();
        let mut all = after.all();
        all.sort_by_key(|(slot, _)| *slot);
        assert_eq!(all, [(0, WriteNote { is_done: true, ..note(1) }), (2, note(4))]);
        after.done(2).unwrap();
        after.begin(0, note(2)).unwrap();
        let later = Writes::recover(disk(), dir.path(), id).unwrap();
        assert_eq!((later.last(0), later.last(2).map(|last| last.sequence)), (None, Some(4)));
        later.remove();
        assert!(Writes::recover(disk(), dir.path(), id).unwrap().all().is_empty());
    }
}
