//! The file of a session's locks, from which the next opening of the store knows them.
//!
//! - Each change is a cell behind the one before, written before it is answered. The file is never synced: it has to
//!   survive the process. A mount of this machine ends with the machine.
//! - A mount on another machine outlives this one. So the file of its session is created durably, and is written out
//!   when the store is closed. A file of an earlier start of the machine that was not, says that the session had
//!   locks, and not which: the session is ended then.
//! - When a session has no lock, its full first page is emptied and used again. A file that is much longer than what is
//!   held is written again.
//!
//! A crash between two cells leaves the changes up to one that was not answered: the kernel or the node asks for that
//! again. A crash while the file is emptied leaves the first page with zeros, which end it: what lies behind is not read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::cell::{CELL_BYTES, Cell};
use crate::disk::{Disk, File};
use crate::error::{Error, Result};
use crate::session_id::SessionId;
use crate::state::appends::FOLDER;

/// How the names of these files end.
pub(in crate::state) const SUFFIX: &str = ".locks";
/// The part of a file that exists as long as it does, in bytes: a page.
const FIRST_BYTES: usize = 4096;
const FIRST_CELLS: u64 = (FIRST_BYTES / CELL_BYTES) as u64;
/// From so many cells on a file is written again if few of them count.
const LONG: u64 = 32_768;
const MODE: u32 = 0o600;

/// The file of a session's locks.
pub(crate) struct LockLog {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    path: PathBuf,
    /// Whether the mount is on another machine.
    remote: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Created for the first lock.
    file: Option<Arc<dyn File>>,
    machine: u64,
    cells: u64,
    /// The number of cells at which to look whether the file can be shorter.
    look: u64,
}

/// What the file of a session that continues says.
pub(crate) enum Left {
    /// These changes, in their order.
    Changes(Vec<Cell>),
    /// The session had locks when the machine lost power; which is not known.
    Unknown,
}

impl LockLog {
    /// The file of a session, which is created with its first lock.
    pub fn new(disk: Arc<dyn Disk>, dir: &Path, id: SessionId, remote: bool) -> Self {
        let folder = dir.join(FOLDER);
        let path = folder.join(format!("{:016x}{SUFFIX}", id.get()));
        Self { disk, folder, path, remote, state: Mutex::default() }
    }

    /// Reads the file of a session that continues, when a store opens; it is used on.
    pub fn recover(&self) -> Result<Left> {
        if !self.disk.exists(&self.path)? {
            return Ok(Left::Changes(Vec::new()));
        }
        let machine = self.disk.machine()?;
        let bytes = self.disk.read_all(&self.path)?;
        let is_closed = matches!(Cell::decode(&bytes), Some((Cell::Closed, _)));
        let all = bytes.chunks_exact(CELL_BYTES).map_while(Cell::decode);
        let cells: Vec<_> = all.filter(|(_, start)| is_closed || *start == machine).map(|(cell, _)| cell).collect();
        if self.remote && cells.is_empty() && emptied_on(&bytes) != Some(machine) {
            return Ok(Left::Unknown);
        }
        let cells: Vec<_> = cells.into_iter().filter(|cell| *cell != Cell::Closed).collect();
        let state = &mut *self.state.lock();
        state.machine = machine;
        self.replace(state, &cells)?;
        Ok(Left::Changes(cells))
    }

    /// Whether there is a file.
    pub fn is_open(&self) -> bool {
        self.state.lock().file.is_some()
    }

    /// Makes sure that there is a file. Called before the first lock, and waits for the disk once.
    pub fn prepare(&self) -> Result<()> {
        let state = &mut *self.state.lock();
        if state.file.is_some() {
            return Ok(());
        }
        state.machine = self.disk.machine()?;
        self.disk.make_dir(&self.folder)?;
        // One left by a crash; a session with this number would not have been begun otherwise.
        self.disk.remove(&self.path)?;
        let file = self.disk.create(&self.path)?;
        file.write_at(&content(&[], state.machine), 0)?;
        if self.remote {
            file.sync()?;
            self.folder.parent().map_or(Ok(()), |dir| self.disk.sync_dir(dir))?;
            self.disk.sync_dir(&self.folder)?;
        }
        (state.file, state.cells, state.look) = (Some(file), 0, FIRST_CELLS - 1);
        Ok(())
    }

    /// Adds a change. `held` has what the session holds before it, as cells.
    pub fn add(&self, cell: Cell, held: impl FnOnce() -> Vec<Cell>) -> Result<()> {
        let state = &mut *self.state.lock();
        if state.cells >= state.look {
            self.shorten(state, &held())?;
        }
        let Some(file) = &state.file else { return Err(missing()) };
        file.write_at(&cell.encode(state.machine), state.cells * CELL_BYTES as u64)?;
        state.cells += 1;
        Ok(())
    }

    /// Begins at the start again where few cells count, or looks again when there are twice as many.
    fn shorten(&self, state: &mut State, held: &[Cell]) -> Result<()> {
        if held.is_empty() {
            return self.empty(state);
        }
        if state.cells >= LONG && held.len() as u64 * 4 < state.cells {
            return self.replace(state, held);
        }
        state.look = state.cells * 2;
        Ok(())
    }

    /// Begins at the start again.
    fn empty(&self, state: &mut State) -> Result<()> {
        let Some(file) = &state.file else { return Err(missing()) };
        file.write_at(&content(&[], state.machine), 0)?;
        (state.cells, state.look) = (0, FIRST_CELLS - 1);
        file.set_len(FIRST_BYTES as u64)
    }

    fn replace(&self, state: &mut State, cells: &[Cell]) -> Result<()> {
        self.disk.write_atomic(&self.path, &content(cells, state.machine), MODE)?;
        state.file = Some(self.disk.open(&self.path)?);
        state.cells = cells.len() as u64;
        state.look = (state.cells * 4).max(FIRST_CELLS - 1);
        Ok(())
    }

    /// Writes out what the session holds, because the store is closed: the next opening believes it on any machine.
    pub fn close(&self, held: Vec<Cell>) -> Result<()> {
        let state = &mut *self.state.lock();
        if !self.remote || state.file.is_none() {
            return Ok(());
        }
        let cells: Vec<_> = std::iter::once(Cell::Closed).chain(held).collect();
        self.replace(state, &cells)
    }

    /// Removes the file of an ending session; opening a store removes leftovers.
    pub fn remove(&self) {
        if self.state.lock().file.take().is_some()
            && let Err(error) = self.disk.remove(&self.path)
        {
            tracing::warn!(%error, "the lock file of an ended mount session could not be removed; the next start removes it");
        }
    }
}

fn missing() -> Error {
    Error::Unusable { why: "the lock file of a mount's session is not open; this is a fault of the store".into() }
}

/// A file with these cells. The last bytes of a first page without a cell there say on which start of the machine it was
/// written.
fn content(cells: &[Cell], machine: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> = cells.iter().flat_map(|cell| cell.encode(machine)).collect();
    if (cells.len() as u64) < FIRST_CELLS {
        bytes.resize(FIRST_BYTES, 0);
        bytes[FIRST_BYTES - 8..].copy_from_slice(&machine.to_le_bytes());
    }
    bytes
}

/// The start of the machine on which the first page was written without cells.
fn emptied_on(bytes: &[u8]) -> Option<u64> {
    bytes.get(FIRST_BYTES - 8..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use node_session::lock::{Kind, Mode, Range};
    use objstore_files::LockOwner;

    use super::*;
    use crate::disk::RealDisk;

    fn cell(ino: u64, mode: Option<Mode>) -> Cell {
        let by = LockOwner { owner: 1, handle: 2, pid: 3 };
        Cell::Changed { ino, kind: Kind::Ranges, by, range: Range::ALL, mode }
    }

    fn log(dir: &Path, remote: bool) -> LockLog {
        LockLog::new(Arc::new(RealDisk::new()), dir, SessionId::new(7).unwrap(), remote)
    }

    fn left(log: &LockLog) -> Option<Vec<Cell>> {
        match log.recover().unwrap() {
            Left::Changes(cells) => Some(cells),
            Left::Unknown => None,
        }
    }

    /// The changes in the file, which is left as it is.
    fn written(log: &LockLog) -> Vec<Cell> {
        let bytes = std::fs::read(&log.path).unwrap();
        bytes.chunks_exact(CELL_BYTES).map_while(Cell::decode).map(|(cell, _)| cell).collect()
    }

    #[test]
    fn the_next_process_reads_every_change_and_writes_on() {
        let dir = tempfile::tempdir().unwrap();
        let first = log(dir.path(), true);
        assert_eq!(left(&first), Some(vec![]));
        first.prepare().unwrap();
        assert_eq!(left(&log(dir.path(), true)), Some(vec![]), "prepared, and on the same start of the machine");
        let mut all = Vec::new();
        let mut before = log(dir.path(), true);
        for round in 0..100 {
            before = log(dir.path(), true);
            assert_eq!(left(&before), Some(all.clone()), "round {round}");
            for more in 0..3 {
                let change = cell(round * 3 + more, Some(Mode::Shared));
                before.add(change, || vec![change]).unwrap();
                all.push(change);
            }
        }
        before.remove();
        assert_eq!(left(&log(dir.path(), true)), Some(vec![]));
    }

    #[test]
    fn a_session_without_locks_uses_its_first_page_again() {
        let dir = tempfile::tempdir().unwrap();
        let first = log(dir.path(), false);
        first.prepare().unwrap();
        for round in 0..1000_u64 {
            let (locked, unlocked) = (cell(round, Some(Mode::Exclusive)), cell(round, None));
            first.add(locked, Vec::new).unwrap();
            assert_eq!(written(&first).last(), Some(&locked), "round {round}");
            first.add(unlocked, || vec![locked]).unwrap();
        }
        let size = std::fs::metadata(&first.path).unwrap().len();
        assert!(size <= 3 * FIRST_BYTES as u64, "{size}");
    }

    #[test]
    fn what_a_machine_that_lost_power_left_is_unknown_unless_the_store_was_closed() {
        let dir = tempfile::tempdir().unwrap();
        let first = log(dir.path(), true);
        first.prepare().unwrap();
        first.add(cell(1, Some(Mode::Shared)), Vec::new).unwrap();
        first.state.lock().machine ^= 1;
        first.empty(&mut first.state.lock()).unwrap();
        assert_eq!(left(&log(dir.path(), true)), None, "emptied on another start");
        first.add(cell(1, Some(Mode::Shared)), Vec::new).unwrap();
        assert_eq!(left(&log(dir.path(), true)), None);
        assert_eq!(left(&log(dir.path(), false)), Some(vec![]), "a mount of this machine ended with it");
        first.close(vec![cell(2, Some(Mode::Exclusive))]).unwrap();
        let after = log(dir.path(), true);
        assert_eq!(left(&after), Some(vec![cell(2, Some(Mode::Exclusive))]));
        after.add(cell(2, None), Vec::new).unwrap();
        let changes = vec![cell(2, Some(Mode::Exclusive)), cell(2, None)];
        assert_eq!(left(&log(dir.path(), true)), Some(changes));
    }
}
