//! The offsets of appends in progress, recorded so that a repeated append can be recognized.
//!
//! - An append decides its offset under the inode's lock and records it in a slot of a small file of the session. Then
//!   it is a write at an offset, which can be repeated. So replay protection costs an append no transaction.
//! - The file is never synced: it has to survive the process, not the machine, since a mount ends with the machine too.
//!   A slot lies within one page and is written by one call, which the death of the process does not split.
//! - The slot and the bytes are written while the lock is held once. So bytes past a recorded offset at the opening of
//!   a store belong to that append, if it was the one in progress; if it was answered, it is not sent again.
//! - A slot is reused once its request is answered. Those of an earlier process are kept, since it is unknown which
//!   were answered: at each restart the file grows by the number of appends in progress.
//!
//! A crash between slot and bytes leaves a slot that the next opening finds void, because the file ends at or before
//! its offset: the append is executed as new. A crash amid the bytes leaves some of them: the same bytes are written
//! over them, unless another mount has appended meanwhile. After a crash behind them, the append was executed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use objstore_files::RequestId;
use parking_lot::Mutex;

use super::locks;
use super::writes::{self, Writes};
use crate::disk::{Disk, File};
use crate::error::Result;
use crate::session_id::SessionId;

/// The folder of the files, in the data folder.
pub(crate) const FOLDER: &str = "sessions";
/// Size of a slot in bytes.
const SLOT_BYTES: usize = 32;

/// The appends of a session.
pub(crate) struct Appends {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    table: Mutex<Table>,
    /// The writes at given offsets, which the session of another machine notes too.
    pub writes: Writes,
}

#[derive(Default)]
struct Table {
    /// Created by the first append.
    file: Option<Arc<dyn File>>,
    slots: usize,
    free: Vec<usize>,
    noted: HashMap<u64, Noted>,
}

struct Noted {
    slot: usize,
    note: Note,
    state: State,
}

/// A slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    unique: u64,
    ino: u64,
    offset: u64,
    len: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    UnderWay,
    Whole,
    /// Part of the bytes: up to the file's size when the store was opened.
    Partly(u64),
}

/// The state of an append when its request was sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Nothing,
    Partly { offset: u64 },
    Whole { end: u64 },
}

impl Note {
    fn encode(self) -> [u8; SLOT_BYTES] {
        let mut slot = [0; SLOT_BYTES];
        let numbers = [self.unique, self.ino, self.offset, self.len];
        for (field, number) in slot.chunks_exact_mut(8).zip(numbers) {
            field.copy_from_slice(&number.to_le_bytes());
        }
        slot
    }

    /// Decodes a slot; `None` if it is free.
    fn decode(slot: &[u8]) -> Option<Self> {
        let number = |at: usize| slot.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let note = Self { unique: number(0)?, ino: number(8)?, offset: number(16)?, len: number(24)? };
        (note.unique != 0).then_some(note)
    }

    /// How much of the append a file of `size` bytes contains; `None` for nothing.
    fn done_in(self, size: u64) -> Option<State> {
        match size {
            size if size >= self.end() => Some(State::Whole),
            size if size > self.offset => Some(State::Partly(size)),
            _ => None,
        }
    }

    fn end(self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

impl Appends {
    /// The appends of a new session.
    pub fn new(disk: Arc<dyn Disk>, dir: &Path, id: SessionId) -> Self {
        let path = dir.join(FOLDER).join(file_name(id));
        let writes = Writes::new(disk.clone(), dir, id);
        Self { disk, path, table: Mutex::default(), writes }
    }

    /// The appends of a continuing session, at the opening of a store, before any file has changed. `size_of` returns
    /// the size of a file.
    pub fn recover(
        disk: Arc<dyn Disk>,
        dir: &Path,
        id: SessionId,
        mut size_of: impl FnMut(u64) -> Result<Option<u64>>,
    ) -> Result<Self> {
        let writes = Writes::recover(disk.clone(), dir, id)?;
        let found = Self { writes, ..Self::new(disk, dir, id) };
        if !found.disk.exists(&found.path)? {
            return Ok(found);
        }
        let mut table = Table { file: Some(found.disk.open(&found.path)?), ..Table::default() };
        let mut voided = Vec::new();
        for (slot, bytes) in found.disk.read_all(&found.path)?.chunks_exact(SLOT_BYTES).enumerate() {
            table.slots = slot + 1;
            let Some(note) = Note::decode(bytes) else {
                table.free.push(slot);
                continue;
            };
            let state = size_of(note.ino)?.and_then(|size| note.done_in(size));
            match state {
                Some(state) => drop(table.noted.insert(note.unique, Noted { slot, note, state })),
                None => voided.push(slot),
            }
        }
        if let Some(file) = &table.file {
            // Cleared first: once others append, it would look as if the append had been executed.
            voided.iter().try_for_each(|slot| clear(&**file, *slot))?;
        }
        table.free.extend(voided);
        *found.table.lock() = table;
        Ok(found)
    }

    /// The state of a request that may have been sent before, for a file of `size` bytes.
    pub(crate) fn before(&self, request: RequestId, ino: u64, size: u64) -> Before {
        let table = self.table.lock();
        match table.noted.get(&request.unique).filter(|noted| request.resent && noted.note.ino == ino) {
            Some(Noted { note, state: State::Whole, .. }) => Before::Whole { end: note.end() },
            Some(Noted { note, state: State::Partly(left), .. }) if *left == size => {
                Before::Partly { offset: note.offset }
            }
            _ => Before::Nothing,
        }
    }

    /// Records the offset of an append, before any of its bytes is written.
    pub(crate) fn note(&self, unique: u64, ino: u64, offset: u64, len: u64) -> Result<()> {
        let note = Note { unique, ino, offset, len };
        let (file, slot) = {
            let mut table = self.table.lock();
            let file = match &table.file {
                Some(file) => file.clone(),
                None => table.file.insert(self.create()?).clone(),
            };
            let taken = table.noted.get(&unique).map(|noted| noted.slot).or_else(|| table.free.pop());
            let slot = taken.unwrap_or_else(|| {
                table.slots += 1;
                table.slots - 1
            });
            table.noted.insert(unique, Noted { slot, note, state: State::UnderWay });
            (file, slot)
        };
        file.write_at(&note.encode(), (slot * SLOT_BYTES) as u64).inspect_err(|_| self.answered(unique))
    }

    /// Records that the bytes of an append were written.
    pub(crate) fn written(&self, unique: u64) {
        if let Some(noted) = self.table.lock().noted.get_mut(&unique) {
            noted.state = State::Whole;
        }
    }

    /// Clears the record of a failed append before others append.
    pub(crate) fn forget(&self, unique: u64) -> Result<()> {
        let found = {
            let table = self.table.lock();
            table.noted.get(&unique).map(|noted| noted.slot).zip(table.file.clone())
        };
        if let Some((slot, file)) = found {
            clear(&*file, slot)?;
        }
        self.answered(unique);
        Ok(())
    }

    /// Frees the slot of an answered request.
    pub(crate) fn answered(&self, unique: u64) {
        let mut table = self.table.lock();
        if let Some(noted) = table.noted.remove(&unique) {
            table.free.push(noted.slot);
        }
    }

    /// Removes the file of an ending session; opening a store removes leftovers.
    pub fn remove(&self) {
        self.writes.remove();
        let mut table = self.table.lock();
        if table.file.take().is_some()
            && let Err(error) = self.disk.remove(&self.path)
        {
            tracing::warn!(%error, "the file of an ended mount session could not be removed; the next start removes it");
        }
        *table = Table::default();
    }

    fn create(&self) -> Result<Arc<dyn File>> {
        if let Some(folder) = self.path.parent() {
            self.disk.make_dir(folder)?;
        }
        // A file left by a crash; a session with this number would not have been begun otherwise.
        self.disk.remove(&self.path)?;
        self.disk.create(&self.path)
    }
}

fn clear(file: &dyn File, slot: usize) -> Result<()> {
    file.write_at(&[0; SLOT_BYTES], (slot * SLOT_BYTES) as u64)
}

fn file_name(id: SessionId) -> String {
    format!("{:016x}", id.get())
}

/// Removes the files of sessions that do not continue, also those of their writes and locks.
pub(crate) fn sweep(disk: &dyn Disk, dir: &Path, goes_on: impl Fn(SessionId) -> bool) -> Result<()> {
    let folder = dir.join(FOLDER);
    if !disk.exists(&folder)? {
        return Ok(());
    }
    for name in disk.list(&folder)? {
        let suffixes = [writes::SUFFIX, locks::SUFFIX];
        let number = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(&name);
        let id = u64::from_str_radix(number, 16).ok().and_then(SessionId::new);
        if !id.is_some_and(&goes_on) {
            disk.remove(&folder.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    fn sent_again(unique: u64) -> RequestId {
        RequestId { unique, resent: true }
    }

    #[test]
    fn notes_read_back() {
        let note = Note { unique: 1, ino: u64::MAX, offset: 3, len: 4 };
        assert_eq!(Note::decode(&note.encode()), Some(note));
        assert_eq!(Note::decode(&[0; SLOT_BYTES]), None);
    }

    #[test]
    fn what_a_process_left_says_what_was_done() {
        let dir = tempfile::tempdir().unwrap();
        let id = SessionId::new(7).unwrap();
        let disk = || Arc::new(RealDisk::new());
        let appends = Appends::new(disk(), dir.path(), id);
        for (unique, ino) in [(2, 20), (4, 21), (6, 22), (8, 23), (10, 24)] {
            appends.note(unique, ino, 100, 10).unwrap();
        }
        appends.forget(10).unwrap();
        let sizes = HashMap::from([(20, 110), (21, 105), (22, 100), (24, 110)]);
        let after = Appends::recover(disk(), dir.path(), id, |ino| Ok(sizes.get(&ino).copied())).unwrap();
        assert_eq!(after.before(sent_again(2), 20, 110), Before::Whole { end: 110 });
        assert_eq!(after.before(RequestId { unique: 2, resent: false }, 20, 110), Before::Nothing);
        assert_eq!(after.before(sent_again(4), 21, 105), Before::Partly { offset: 100 });
        assert_eq!(after.before(sent_again(4), 21, 106), Before::Nothing, "another mount appended");
        assert_eq!(after.before(sent_again(6), 22, 100), Before::Nothing, "noted, not begun");
        assert_eq!(after.before(sent_again(8), 23, 0), Before::Nothing, "the file is gone");
        assert_eq!(after.before(sent_again(10), 24, 110), Before::Nothing, "it failed");
        assert_eq!(after.table.lock().free.len(), 3);
        let later = Appends::recover(disk(), dir.path(), id, |_| Ok(Some(200))).unwrap();
        assert_eq!(later.before(sent_again(6), 22, 200), Before::Nothing, "nor by what others append");
        after.answered(2);
        assert_eq!(after.before(sent_again(2), 20, 110), Before::Nothing);
        sweep(&RealDisk::new(), dir.path(), |found| found == id).unwrap();
        assert_eq!(RealDisk::new().list(&dir.path().join(FOLDER)).unwrap().len(), 1);
        after.remove();
        assert!(RealDisk::new().list(&dir.path().join(FOLDER)).unwrap().is_empty());
    }
}
