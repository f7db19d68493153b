//! Which files have locks of this mount, or may have: closing any other asks nobody. And whose locks of byte ranges they are,
//! which the mount's shared memory has for the holder (`places`).
//!
//! - A file is touched from before the store is first asked for a lock, until the store says that the session has no lock
//!   of it and waits for none, unless another request for one began since that was asked.
//! - An owner is noted in the same way: until the store has ended the owner's locks, because a descriptor was closed, or until
//!   the file has none. The kernel does not tell an open file description from a process, so an owner that locked through one
//!   open file alone is also done when that is closed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use objstore_files::{FileSession, LockKind, LockOwner, LockRelease};
use parking_lot::Mutex;

use super::places::Places;
use crate::shared_memory::SharedMemory;

/// The files with locks.
pub(super) struct Touched {
    state: Mutex<State>,
    /// Any file may have locks: the store could not be asked.
    all: AtomicBool,
}

struct State {
    files: HashMap<u64, Touch>,
    places: Places,
}

#[derive(Default)]
struct Touch {
    /// How many requests for locks the store is being asked for.
    under_way: usize,
    /// How many began.
    begun: u64,
    owners: HashMap<u64, Noted>,
}

/// An owner of byte ranges of a file.
struct Noted {
    under_way: usize,
    /// How many requests had begun with the owner's last one.
    last: u64,
    /// The open file through which all were asked for, if it is one.
    through: Option<u64>,
    place: Option<usize>,
}

/// A request for a lock of a file.
pub(super) struct UnderWay<'a> {
    touched: &'a Touched,
    ino: u64,
    owner: Option<u64>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(touch) = self.touched.state.lock().files.get_mut(&self.ino) {
            touch.under_way -= 1;
            if let Some(noted) = self.owner.and_then(|owner| touch.owners.get_mut(&owner)) {
                noted.under_way -= 1;
            }
        }
    }
}

impl Touched {
    /// The files of owners that an earlier process noted in the mount's memory, or none.
    pub fn resume(memory: Arc<SharedMemory>) -> Self {
        let (places, left) = Places::resume(memory);
        let mut files: HashMap<u64, Touch> = HashMap::new();
        for placed in left {
            let noted = Noted { under_way: 0, last: 0, through: None, place: Some(placed.place) };
            files.entry(placed.ino).or_default().owners.insert(placed.owner, noted);
        }
        Self { state: Mutex::new(State { files, places }), all: AtomicBool::new(false) }
    }

    /// Asks the store for the files of which the session has locks.
    pub fn load(&self, files: &FileSession) {
        let mut after = 0;
        loop {
            let inos = match files.own().locked_inodes(after) {
                Ok(inos) => inos,
                Err(error) => {
                    tracing::debug!(%error, "each close asks the store about locks");
                    return self.all.store(true, Ordering::Release);
                }
            };
            let Some(last) = inos.last().copied().filter(|last| *last > after) else { return };
            after = last;
            let mut state = self.state.lock();
            for ino in inos {
                state.files.entry(ino).or_default();
            }
        }
    }

    /// Whether a file may have locks.
    pub fn has(&self, ino: u64) -> bool {
        self.all.load(Ordering::Acquire) || self.state.lock().files.contains_key(&ino)
    }

    /// A request for a lock begins.
    pub fn begin(&self, ino: u64, by: LockOwner, kind: LockKind) -> UnderWay<'_> {
        let State { files, places } = &mut *self.state.lock();
        let touch = files.entry(ino).or_default();
        touch.under_way += 1;
        touch.begun += 1;
        let owner = (kind == LockKind::Ranges).then_some(by.owner);
        if owner.is_some() {
            let noted = touch.owners.entry(by.owner).or_insert_with(|| {
                let place = places.take(ino, by.owner);
                Noted { under_way: 0, last: 0, through: Some(by.handle), place }
            });
            noted.under_way += 1;
            noted.last = touch.begun;
            noted.through = noted.through.filter(|through| *through == by.handle);
        }
        UnderWay { touched: self, ino, owner }
    }

    /// The moment at which the store is asked to end locks.
    pub fn moment(&self, ino: u64) -> u64 {
        self.state.lock().files.get(&ino).map_or(0, |touch| touch.begun)
    }

    /// The store, asked at this moment, has ended the locks of what is closed.
    pub fn closed(&self, ino: u64, moment: u64, closed: LockRelease) {
        let State { files, places } = &mut *self.state.lock();
        let Some(touch) = files.get_mut(&ino) else { return };
        let is_over = |owner: &u64, noted: &mut Noted| {
            let is_meant = match closed {
                LockRelease::Descriptor { owner: closing } => *owner == closing,
                LockRelease::Description { handle, .. } => noted.through == Some(handle),
            };
            is_meant && noted.under_way == 0 && noted.last <= moment
        };
        let over = touch.owners.extract_if(is_over);
        over.for_each(|(_, noted)| places.give_back(noted.place));
    }

    /// The store, asked at this moment, has others of the file left, or not.
    pub fn left(&self, ino: u64, moment: u64, has_others: bool) {
        let State { files, places } = &mut *self.state.lock();
        let is_over = |touch: &Touch| touch.under_way == 0 && touch.begun == moment;
        if has_others || !files.get(&ino).is_some_and(is_over) {
            return;
        }
        let over = files.remove(&ino).into_iter().flat_map(|touch| touch.owners);
        over.for_each(|(_, noted)| places.give_back(noted.place));
        if files.is_empty() && !self.all.load(Ordering::Acquire) {
            places.nobody_is_left();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_memory::Tables;

    fn memory() -> Arc<SharedMemory> {
        Arc::new(SharedMemory::create(Tables::Opens).unwrap())
    }

    fn by(owner: u64, handle: u64) -> LockOwner {
        LockOwner { owner, handle, pid: 0 }
    }

    #[test]
    fn a_file_is_touched_until_the_store_has_no_lock_of_it() {
        let touched = Touched::resume(memory());
        let request = touched.begin(7, by(1, 2), LockKind::Whole);
        let early = touched.moment(7);
        touched.left(7, early, false);
        assert!(touched.has(7), "a request is under way");
        drop(request);
        touched.left(7, early, true);
        assert!(touched.has(7));
        drop(touched.begin(7, by(1, 2), LockKind::Whole));
        touched.left(7, early, false);
        assert!(touched.has(7), "one began since");
        touched.left(7, touched.moment(7), false);
        assert!(!touched.has(7) && touched.state.lock().files.is_empty());
    }

    #[test]
    fn an_owner_is_in_the_memory_while_it_may_have_a_lock() {
        let memory = memory();
        let touched = Touched::resume(memory.clone());
        drop(touched.begin(7, by(1, 2), LockKind::Whole));
        assert!(memory.may_close(7, 1), "a lock of a whole file does not end with a descriptor");
        let request = touched.begin(7, by(1, 2), LockKind::Ranges);
        assert!(!memory.may_close(7, 1) && memory.may_close(7, 3) && memory.may_close(8, 1));
        let (moment, closed) = (touched.moment(7), LockRelease::Descriptor { owner: 1 });
        touched.closed(7, moment, closed);
        assert!(!memory.may_close(7, 1), "a request is under way");
        drop(request);
        drop(touched.begin(7, by(1, 2), LockKind::Ranges));
        touched.closed(7, moment, closed);
        assert!(!memory.may_close(7, 1), "one began since");
        touched.closed(7, touched.moment(7), LockRelease::Descriptor { owner: 3 });
        assert!(!memory.may_close(7, 1), "another's");
        touched.closed(7, touched.moment(7), closed);
        assert!(memory.may_close(7, 1) && touched.has(7));
    }

    #[test]
    fn an_open_file_description_is_done_when_it_is_closed_and_all_are_when_the_file_has_no_lock() {
        let memory = memory();
        let touched = Touched::resume(memory.clone());
        for (owner, handle) in [(1, 2), (3, 4), (3, 5)] {
            drop(touched.begin(7, by(owner, handle), LockKind::Ranges));
        }
        for handle in [2, 4, 5] {
            touched.closed(7, touched.moment(7), LockRelease::Description { owner: 0, handle });
        }
        assert!(memory.may_close(7, 1) && !memory.may_close(7, 3), "a process with two open files");
        touched.left(7, touched.moment(7), false);
        assert!(memory.may_close(7, 3));
    }

    #[test]
    fn the_next_process_knows_the_owners() {
        let memory = memory();
        drop(Touched::resume(memory.clone()).begin(7, by(1, 2), LockKind::Ranges));
        let touched = Touched::resume(memory.clone());
        assert!(touched.has(7) && !memory.may_close(7, 1));
        touched.closed(7, touched.moment(7), LockRelease::Descriptor { owner: 1 });
        assert!(memory.may_close(7, 1));
    }
}
